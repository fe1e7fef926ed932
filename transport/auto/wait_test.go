package auto

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestWakeUps: whatever comes while the endpoint goes to sleep ends the sleep, over either way or
// by Wake. Nothing else would: Wait has no timeout.
func TestWakeUps(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	a, b := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg)
	shared, err := a.Resolve(b.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 3000
	asked := make(chan struct{}, 1)
	var wakes atomic.Int64
	var sender sync.WaitGroup
	defer sender.Wait()
	defer close(asked)
	sender.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for range asked {
			for range rng.IntN(300) { // another moment each time
				_ = a.Caps()
			}
			switch rng.IntN(3) {
			case 0:
				send(t, a, shared, "shared")
			case 1:
				send(t, a, b.LocalAddr(), "udp")
			default:
				wakes.Add(1)
				b.Wake()
			}
		}
	})
	guard := time.AfterFunc(3*patience, func() { b.Close() }) // a lost wake-up then shows as ErrClosed
	defer guard.Stop()
	pkts := make([]transport.RxPacket, 4)
	packets := 0
	for round := range rounds {
		asked <- struct{}{}
		for packets+int(wakes.Load()) <= round {
			if err := b.Wait(-1); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			n, err := b.RxBurst(pkts)
			if err != nil {
				t.Fatal(err)
			}
			packets += n
		}
	}
}

// half makes w's Wake write to its eventfd, by calling it in the middle of a wait.
func half(t *testing.T, w transport.Transport) {
	t.Helper()
	if _, err := w.PrepareWait(); err != nil {
		t.Fatal(err)
	}
	w.Wake()
	if err := w.FinishWait(0); err != nil {
		t.Fatal(err)
	}
}

// TestSleeps: Wait does block when nothing is to do, after traffic on both ways and after a Wake
// of either.
func TestSleeps(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	a, b := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg)
	exchange(t, a, b, b.LocalAddr().String())
	send(t, a, b.LocalAddr(), "udp")
	receive(t, b)
	const nap = 5 * time.Millisecond
	for _, c := range []*Conn{a, b} {
		half(t, c.udp)
		half(t, c.shm)
		c.Wake()
		for try := 0; ; try++ {
			began := time.Now()
			if err := c.Wait(nap); err != nil {
				t.Fatal(err)
			}
			if time.Since(began) >= nap {
				break
			}
			if try == 100 {
				t.Fatal("every Wait returns early")
			}
		}
	}
}

// TestCloseWhileWaiting closes from several goroutines at once.
func TestCloseWhileWaiting(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	for range 50 {
		c := listen(t, "127.0.0.1:0", cfg)
		done := make(chan error, 1)
		go func() {
			for {
				if err := c.Wait(-1); err != nil {
					done <- err
					return
				}
			}
		}()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				c.Wake()
				if err := c.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
		if err := <-done; !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("Wait: %v", err)
		}
		wg.Wait()
	}
}
