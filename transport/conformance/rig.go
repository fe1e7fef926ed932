package conformance

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/transport"
)

// shortWait is the longest single Wait of the polling loops. It only bounds how
// late a loop notices that its patience ran out.
const shortWait = 20 * time.Millisecond

// stallWait is the longest Wait when the sender takes no more: nothing wakes up a
// sender when it could go on.
const stallWait = 50 * time.Microsecond

// rig serves one case: two endpoints and the means to move packets
// between them and check what arrives.
type rig struct {
	testing.TB
	o    *options
	a, b transport.Transport
	caps transport.Caps // of the sender, a
	seq  uint64         // of the next packet; makes every packet different
	rx   []transport.RxPacket
	tx   []byte // memory of the packets of one burst

	stalls uint64 // calls of TxBurst by try that took less than all
}

// newRig opens the endpoints. When the case ends they are closed, and after that
// no goroutine may be left that was not there before.
func newRig(tb testing.TB, open OpenFunc, o *options) *rig {
	before := goleak.IgnoreCurrent()
	tb.Cleanup(func() { // runs last, after the clean-ups of open
		if err := goleak.Find(before); err != nil {
			tb.Errorf("goroutines left after Close: %v", err)
		}
	})
	a, b := open(tb)
	r := &rig{TB: tb, o: o, a: a, b: b, seq: 1, caps: a.Caps()}
	r.rx = make([]transport.RxPacket, 64)
	tb.Cleanup(func() {
		for _, t := range []transport.Transport{a, b} {
			if err := t.Close(); err != nil && !errors.Is(err, transport.ErrClosed) {
				tb.Errorf("Close: %v", err)
			}
		}
	})
	return r
}

// other returns a second destination for a besides b, or skips the case.
func (r *rig) other() transport.Transport {
	r.Helper()
	if r.o.third != nil {
		c := r.o.third(r.TB)
		r.Cleanup(func() { c.Close() })
		return c
	}
	if r.o.noSelf {
		r.Skip("the transport cannot send to itself and there is no third endpoint")
	}
	return r.a
}

// mtu returns the largest packet that both endpoints take.
func (r *rig) mtu() int { return min(r.caps.MTU, r.b.Caps().MTU) }

// window returns how many packets may be under way, at most limit.
func (r *rig) window(limit int) int {
	ring := min(r.caps.RxRing, r.b.Caps().RxRing)
	return max(1, min(limit, ring*3/4))
}

// pause lets time pass until something may have happened at t: the network's own
// time if there is a clock to advance, else real time inside Wait.
func (r *rig) pause(t transport.Transport, longest time.Duration) {
	r.Helper()
	if r.o.advance != nil {
		r.o.advance()
		return
	}
	r.wait(t, longest)
}

// wait calls Wait with a timeout that is not negative. If that hangs, closing the
// transport is tried, so that the case fails instead of the whole test run.
func (r *rig) wait(t transport.Transport, timeout time.Duration) {
	r.Helper()
	limit := timeout + 10*r.o.patience
	guard := time.AfterFunc(limit, func() { t.Close() })
	err := t.Wait(timeout)
	if !guard.Stop() {
		r.Fatalf("Wait(%v) did not return within %v", timeout, limit)
	}
	if err != nil {
		r.Fatalf("Wait(%v): %v", timeout, err)
	}
}

// deadline says when to give up. Progress renews it.
func (r *rig) deadline() time.Time { return time.Now().Add(r.o.patience) }

// until fails the case unless done gets a value in time, and returns the value.
func until[V any](r *rig, done <-chan V, what string) V {
	r.Helper()
	timer := time.NewTimer(r.o.patience)
	defer timer.Stop()
	select {
	case v := <-done:
		return v
	case <-timer.C:
		r.Fatalf("%s: nothing happened within %v", what, r.o.patience)
		panic("unreachable")
	}
}

// waitIn runs t.Wait in a goroutine of its own, which says on began that it is
// about to wait and on done how that ended. Until then the case leaves t alone.
func waitIn(t transport.Transport, timeout time.Duration) (began <-chan struct{},
	done <-chan error) {
	b, d := make(chan struct{}), make(chan error, 1)
	go func() {
		close(b)
		d <- t.Wait(timeout)
	}()
	return b, d
}

// poll calls RxBurst once into pkts, which it fills with wrong values before, so
// that a transport that leaves fields out is found.
func (r *rig) poll(t transport.Transport, pkts []transport.RxPacket) int {
	r.Helper()
	for i := range pkts {
		pkts[i] = transport.RxPacket{
			Data: stale, From: transport.Addr{Port: 0xDEAD}, CE: true, Shared: true,
		}
	}
	n, err := t.RxBurst(pkts)
	if err != nil {
		r.Fatalf("RxBurst: %v", err)
	}
	if n < 0 || n > len(pkts) {
		r.Fatalf("RxBurst returned %d for a slice of %d", n, len(pkts))
	}
	for i := range pkts[:n] {
		p := &pkts[i]
		large := len(p.Data) > transport.PrivateBytes
		if p.Shared && !large || (p.Shared || large) && p.Shared != t.Path(p.From).Shared {
			r.Fatalf("packet %d of %d bytes has Shared %v", i, len(p.Data), p.Shared)
		}
	}
	if t.Caps().ECN {
		for i := range pkts[:n] {
			if pkts[i].CE {
				r.Fatalf("packet %d of a burst marked CE on an idle network", i)
			}
		}
	}
	return n
}

var stale = []byte("left from before the call")

// brief describes packet contents in a failure message.
func brief(p []byte) string {
	if len(p) > 16 {
		return fmt.Sprintf("%d bytes %x...", len(p), p[:16])
	}
	return fmt.Sprintf("%d bytes %x", len(p), p)
}
