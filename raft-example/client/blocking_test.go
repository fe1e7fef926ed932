package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// echoes serves reads: each key's value is the key itself. One answer in so many comes some passes
// of the loop late; 0: none does.
func echoes(t testing.TB, every int) (addr string) {
	answer := func(c *kv.Command) kv.Answer {
		a := kv.Answer{Status: kv.OK, Found: true}
		a.Value, _ = kv.MakeValue(c.Key.Bytes())
		return a
	}
	return answers(t, every, answer)
}

// answers serves what is answered by a function.
func answers(t testing.TB, every int, of func(c *kv.Command) kv.Answer) (addr string) {
	x, err := erpc.NewNexus(erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	var late []erpc.ReqHandle
	n := 0
	answer := func(r erpc.ReqHandle) {
		c, err := kv.ParseCommand(r.Data())
		if err != nil {
			t.Error(err)
		}
		a := of(&c)
		_ = r.RespondBytes(a.Append(nil))
	}
	err = x.Register(node.TypeKV, erpc.Dispatch, func(r erpc.ReqHandle) {
		if n++; every > 0 && n%every == 0 {
			late = append(late, r)
			return
		}
		answer(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pass := 0
		_ = r.Run(func() bool {
			if pass++; pass%8 == 0 {
				for _, q := range late {
					answer(q)
				}
				late = late[:0]
			}
			r.Wake()
			return over.Load()
		})
	}()
	t.Cleanup(func() {
		over.Store(true)
		r.Wake()
		<-ended
		if err := errors.Join(r.Close(), x.Close()); err != nil {
			t.Error(err)
		}
	})
	return r.LocalAddr().String()
}

// dial makes a Blocking to a server.
func dial(t testing.TB, addr string) *Blocking {
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Dial(tr, Config{Servers: []string{addr}}, erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBlockingGivenUp: goroutines get their own answers, though some before them did not wait for
// theirs, which come all the same.
func TestBlockingGivenUp(t *testing.T) {
	b := dial(t, echoes(t, 3))
	defer b.Close()
	var given, answered atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 300 {
				ctx, cancel := context.WithCancel(t.Context())
				if g%2 == 0 {
					time.AfterFunc(time.Duration(rng.IntN(200))*time.Microsecond, cancel)
				}
				key := fmt.Sprint(g, "-", i)
				v, _, err := b.Get(ctx, key)
				switch {
				case err == nil && string(v) != key:
					t.Errorf("%s is %q", key, v)
				case err == nil:
					answered.Add(1)
				case ctx.Err() != nil && errors.Is(err, ErrDeadline):
					given.Add(1)
				default:
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if answered.Load() < 4*300 || given.Load() == 0 {
		t.Errorf("%d requests were answered, %d given up", answered.Load(), given.Load())
	}
}

// TestFullIsTold: the store has no session for a client. It hears that, whichever sees first that
// the time is up: nothing was applied.
func TestFullIsTold(t *testing.T) {
	var said atomic.Int64
	b := dial(t, answers(t, 0, func(*kv.Command) kv.Answer {
		said.Add(1)
		return kv.Answer{Status: kv.Full}
	}))
	defer b.Close()
	for range 10 {
		before := said.Load()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := b.Put(ctx, "k", nil)
		cancel()
		heard := said.Load() > before+1 // the first of them was answered
		if err == nil || heard && !errors.Is(err, kv.ErrFull) || errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
	}
}

// TestCloseEndsSessions: a client that ends gives back each session that it has, once, whatever the
// store says to that.
func TestCloseEndsSessions(t *testing.T) {
	var mu sync.Mutex
	open := map[uint64]bool{}
	addr := answers(t, 0, func(c *kv.Command) kv.Answer {
		mu.Lock()
		defer mu.Unlock()
		switch c.Op {
		case kv.Open:
			n := uint64(len(open)) + 1
			open[n] = true
			return kv.Answer{Status: kv.OK, Number: n}
		case kv.Close:
			if !open[c.Session] {
				t.Errorf("session %d is not open", c.Session)
			}
			open[c.Session] = false
			return kv.Answer{Status: kv.Malformed}
		}
		return kv.Answer{Status: kv.OK}
	})
	b := dial(t, addr)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := b.Put(t.Context(), fmt.Sprint(i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.Close()
	mu.Lock()
	defer mu.Unlock()
	for n, is := range open {
		if is {
			t.Errorf("session %d of %d is left", n, len(open))
		}
	}
	if len(open) == 0 {
		t.Error("no session was opened")
	}
}

// TestNotRun: a server refuses a write, which did not run there: its outcome is known. That the
// time is up as well hides it from nobody.
func TestNotRun(t *testing.T) {
	x, err := erpc.NewNexus(erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := x.NewRpc(tr)
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	ended := make(chan error, 1)
	go func() { ended <- r.Run(over.Load) }()
	b := dial(t, r.LocalAddr().String())
	_ = b.rpc.Post(func(*erpc.Rpc) { b.c.lanes = lanes{free: []*lane{{session: 7}}, made: 1} })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Put(ctx, "k", nil); !errors.Is(err, ErrDeadline) || errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	b.Close()
	over.Store(true)
	r.Wake()
	if err := errors.Join(<-ended, r.Close(), x.Close()); err != nil {
		t.Error(err)
	}
}

// TestBlockingAllocates: requests of goroutines use their memory again.
func TestBlockingAllocates(t *testing.T) {
	b := dial(t, echoes(t, 0))
	defer b.Close()
	k, _ := kv.MakeKey("key")
	gets := func(n int) {
		for range n {
			a, err := b.Do(t.Context(), kv.Command{Op: kv.Get, Key: k})
			if err != nil || !a.Found {
				t.Fatal(a, err)
			}
		}
	}
	gets(100)
	var from, to runtime.MemStats
	runtime.ReadMemStats(&from)
	gets(1000)
	runtime.ReadMemStats(&to)
	if n := to.Mallocs - from.Mallocs; n > 2500 && !raceEnabled { // a few; it was five for each
		t.Errorf("%d allocations for 1000 requests", n)
	}
}

// BenchmarkBlocking: 32 goroutines, of which each begins a request when its last one has ended.
func BenchmarkBlocking(b *testing.B) {
	c := dial(b, echoes(b, 0))
	defer c.Close()
	k, _ := kv.MakeKey("key")
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range b.N / 32 {
				if _, err := c.Do(b.Context(), kv.Command{Op: kv.Get, Key: k}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
