package conformance

import (
	"errors"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// testWakeBeforeWait: a Wake makes the next Wait return. In virtual time it still
// must not fail.
func testWakeBeforeWait(r *rig) {
	timeout := time.Duration(-1)
	if r.o.advance != nil {
		timeout = 0
	}
	for range 50 {
		r.a.Wake()
		_, done := waitIn(r.a, timeout)
		if err := until(r, done, "Wait after Wake"); err != nil {
			r.Fatalf("Wait: %v", err)
		}
	}
	r.a.Wake()
	r.a.Wake()
	r.sendTo(spec{head: 24})
}

// testWakeDuringWait: a Wake from another goroutine ends a Wait.
func testWakeDuringWait(r *rig) {
	for range 200 {
		began, done := waitIn(r.a, -1)
		<-began
		r.a.Wake()
		if err := until(r, done, "Wait, then Wake"); err != nil {
			r.Fatalf("Wait: %v", err)
		}
	}
	// A Wake that came while nobody waited must not be lost to one that was served.
	for range 50 {
		r.a.Wake()
		_, done := waitIn(r.a, -1)
		until(r, done, "Wait after Wake")
		r.a.Wake()
		_, done = waitIn(r.a, -1)
		until(r, done, "Wait after a second Wake")
	}
}

// testWakeStorm wakes both endpoints from several goroutines while packets flow. Each burst has so
// many wakes and no more: goroutines that went on until the packets are there would keep the
// processors from those that bring them.
func testWakeStorm(r *rig) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 200 {
		for range 3 {
			wg.Go(func() {
				for range 1000 {
					r.a.Wake()
					r.b.Wake()
					r.a.LocalAddr()
					r.b.Caps()
				}
			})
		}
		specs := burst(r, r.window(1+i%16), shapes[i%len(shapes)].size, func(int) int { return 0 })
		r.send(r.a, specs, &flow{to: r.b})
		wg.Wait()
	}
}

// testWaitForPacket: a packet that arrives before or during Wait ends it.
func testWaitForPacket(r *rig) {
	for i := range 200 {
		f := []*flow{{to: r.b}}
		items := r.build([]spec{{head: 24, data: i % 50}}, f)
		if i%2 == 0 {
			r.offer(r.a, items)
		}
		began, done := waitIn(r.b, -1)
		<-began
		if i%2 == 1 {
			r.offer(r.a, items)
		}
		if err := until(r, done, "Wait for a packet"); err != nil {
			r.Fatalf("Wait: %v", err)
		}
		_, done = waitIn(r.b, -1) // until it is received the packet is still something to do
		if err := until(r, done, "second Wait for a packet"); err != nil {
			r.Fatalf("Wait: %v", err)
		}
		r.collect(r.a, f[0])
	}
}

// testWaitPacketsLeft: Wait returns while packets are left from an RxBurst whose
// slice was too short, wherever the transport keeps them.
func testWaitPacketsLeft(r *rig) {
	for _, shape := range shapes {
		n := r.window(8)
		f := &flow{to: r.b, slice: 1}
		flows := []*flow{f}
		r.offer(r.a, r.build(burst(r, n, shape.size, func(int) int { return 0 }), flows))
		for f.got < n {
			_, done := waitIn(r.b, -1)
			if err := until(r, done, "Wait with packets left"); err != nil {
				r.Fatalf("Wait: %v", err)
			}
			r.receive(r.a, f)
		}
	}
}

// testWaitTimeout: Wait ends by itself.
func testWaitTimeout(r *rig) {
	for _, timeout := range []time.Duration{0, 1, time.Microsecond, 50 * time.Microsecond,
		1500 * time.Microsecond, 3 * time.Millisecond} {
		for range 3 {
			_, done := waitIn(r.a, timeout)
			if err := until(r, done, "Wait with timeout "+timeout.String()); err != nil {
				r.Fatalf("Wait(%v): %v", timeout, err)
			}
		}
	}
	r.sendTo(spec{head: 24})
}

// testWaitBlocks: early returns are allowed, but not every time, which would be
// spinning. Also after a Wake was served, whether it came before a wait or in the middle of one.
func testWaitBlocks(r *rig) {
	const timeout = 5 * time.Millisecond
	for range 3 {
		if r.a.WaitFDs() != nil {
			if _, err := r.a.PrepareWait(); err != nil {
				r.Fatalf("PrepareWait: %v", err)
			}
			r.a.Wake() // a descriptor stays readable, unless the next Wait looks after that
			if err := r.a.FinishWait(0); err != nil {
				r.Fatalf("FinishWait: %v", err)
			}
		}
		r.a.Wake()
		for try := 0; ; try++ {
			began := time.Now()
			r.wait(r.a, timeout)
			if time.Since(began) >= timeout {
				break
			}
			if try == 1000 {
				r.Fatalf("%d calls of Wait(%v) on an idle transport all returned early", try, timeout)
			}
		}
	}
}

// testCloseDuringWait: Close from another goroutine ends a Wait.
func testCloseDuringWait(r *rig) {
	for _, t := range []transport.Transport{r.a, r.b} {
		began, done := waitIn(t, -1)
		<-began
		if err := t.Close(); err != nil {
			r.Fatalf("Close: %v", err)
		}
		// The Wait may have been under way, and then it just returns.
		if err := until(r, done, "Wait, then Close"); err != nil && !errors.Is(err, transport.ErrClosed) {
			r.Fatalf("Wait ended by Close: %v", err)
		}
		_, done = waitIn(t, -1)
		if err := until(r, done, "Wait after Close"); !errors.Is(err, transport.ErrClosed) {
			r.Fatalf("Wait after Close: %v, want ErrClosed", err)
		}
	}
}

// testCloseTwice closes from several goroutines, more than once.
func testCloseTwice(r *rig) {
	var wg sync.WaitGroup
	errs := make(chan error, 16)
	for range 4 {
		wg.Go(func() {
			for range 2 {
				errs <- r.a.Close()
				r.a.Wake()
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil && !errors.Is(err, transport.ErrClosed) {
			r.Fatalf("Close: %v", err)
		}
	}
}

// testAfterClose makes every call after Close.
func testAfterClose(r *rig) {
	r.sendTo(spec{head: 24})
	local, caps, peer := r.a.LocalAddr(), r.a.Caps(), r.b.LocalAddr()
	if err := r.a.Close(); err != nil {
		r.Fatalf("Close: %v", err)
	}
	for range 2 {
		item := transport.TxItem{Dst: peer, Head: make([]byte, 24)}
		for _, items := range [][]transport.TxItem{{item}, nil} {
			if n, err := r.a.TxBurst(items); n != 0 || !errors.Is(err, transport.ErrClosed) {
				r.Errorf("TxBurst of %d after Close = %d, %v, want 0, ErrClosed", len(items), n, err)
			}
		}
		for _, n := range []int{1, 0} {
			if n, err := r.a.RxBurst(r.rx[:n]); n != 0 || !errors.Is(err, transport.ErrClosed) {
				r.Errorf("RxBurst after Close = %d, %v, want 0, ErrClosed", n, err)
			}
		}
		for _, timeout := range []time.Duration{0, time.Millisecond, -1} {
			r.a.Wake()
			_, done := waitIn(r.a, timeout)
			if err := until(r, done, "Wait after Close"); !errors.Is(err, transport.ErrClosed) {
				r.Errorf("Wait(%v) after Close: %v, want ErrClosed", timeout, err)
			}
		}
		if _, err := r.a.Resolve(peer.String()); !errors.Is(err, transport.ErrClosed) {
			r.Errorf("Resolve after Close: %v, want ErrClosed", err)
		}
		r.a.Flush()
		r.a.Stats()
		r.path(r.a, peer)
		if r.a.LocalAddr() != local || r.a.Caps() != caps {
			r.Errorf("LocalAddr or Caps changed with Close")
		}
	}
	if n := r.poll(r.b, r.rx); n != 0 {
		r.Errorf("a packet was sent after Close")
	}
}

// testCloseQueued closes both ends while packets are under way.
func testCloseQueued(r *rig) {
	specs := burst(r, r.window(32), shapes[9].size, func(int) int { return 0 })
	r.offer(r.a, r.build(specs, []*flow{{to: r.b}}))
	for _, t := range []transport.Transport{r.b, r.a} {
		if err := t.Close(); err != nil {
			r.Fatalf("Close: %v", err)
		}
	}
}
