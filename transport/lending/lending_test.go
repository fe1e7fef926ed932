package lending

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// TestDelay: packets leave within Delay and Jitter, not before, and in order.
func TestDelay(t *testing.T) {
	r := newRig(t, Config{Delay: 10, Jitter: 90})
	for range 20 {
		first := r.next
		r.send(50, 3)
		r.clock.advance(9)
		r.left(first)
		r.clock.advance(50)
		if n := len(r.under.sent); n == first || n == r.next {
			t.Errorf("half of the time has passed, and %d of 50 packets have left", n-first)
		}
		r.clock.advance(41)
		r.left(r.next)
	}
	r.fine()
	r = newRig(t, Config{Delay: 10}) // each has its own delay
	for range 20 {
		r.send(1, 1)
		r.clock.advance(5)
		r.left(r.next - 1)
		r.clock.advance(2)
	}
}

// TestMany: nothing is lost or flushed in the course of many packets.
func TestMany(t *testing.T) {
	r := newRig(t, Config{Jitter: 100, Ring: 50})
	for range 20 {
		r.send(50, 3)
		r.clock.advance(100)
		r.left(r.next)
	}
	r.fine()
	if c := r.Counts(); c.Packets != 1000 || c.Flushed != 0 || c.Dropped != 0 {
		t.Errorf("counts %+v", c)
	}
}

// TestCalls: without a clock, packets leave in some later call, all in Calls of them.
func TestCalls(t *testing.T) {
	for name, call := range map[string]func(r *rig) error{
		"RxBurst": func(r *rig) error { _, err := r.RxBurst(nil); return err },
		"TxBurst": func(r *rig) error { _, err := r.TxBurst(nil); return err },
	} {
		r := newRig(t, Config{Calls: 5})
		after := make([]int, 6)
		for i := range 200 {
			r.send(1, 1)
			r.left(i)
			n := 0
			for ; len(r.under.sent) == i; n++ {
				if err := call(r); err != nil || n == 5 {
					t.Fatalf("%s: %d calls, %v", name, n, err)
				}
			}
			r.left(i + 1)
			after[n]++
		}
		if slices.Contains(after[1:], 0) {
			t.Errorf("%s: packets left after these numbers of calls: %v", name, after)
		}
		r.fine()
	}
}

// TestDue: no packet leaves before an earlier one, though its time has come.
func TestDue(t *testing.T) {
	r := newRig(t, Config{Ring: 5})
	for _, after := range []uint64{3, 5, 1, 9, 2} {
		r.queue.put(&transport.TxItem{}, 0, after)
	}
	for ticks, want := range []int{0, 0, 0, 1, 1, 3, 3, 3, 3, 5} {
		if n := r.queue.due(uint64(ticks)); n != want {
			t.Errorf("%d packets are due at %d, want %d", n, ticks, want)
		}
	}
}

// TestOrder: packets to several destinations, taken and sent in all kinds of ways, leave in
// order.
func TestOrder(t *testing.T) {
	for _, cfg := range []Config{{Calls: 20, Ring: 30}, {Jitter: 100, Ring: 30}} {
		r := newRig(t, cfg)
		for i := range 500 {
			if n := r.queue.room(); n > 0 {
				r.send(1+i%n, 3)
			}
			r.under.room = i % 9
			r.clock.advance(time.Duration(i % 20))
			if i%50 == 0 {
				r.under.room = -1
				r.Flush()
			}
		}
		r.under.room = -1
		r.clock.advance(time.Second)
		r.Flush()
		r.left(r.next)
		r.fine()
	}
}

// TestRing: a full ring takes no more, and counts that.
func TestRing(t *testing.T) {
	r := newRig(t, Config{Ring: 4, Delay: 10})
	r.send(3, 1)
	items := []transport.TxItem{
		{Dst: addr(1), Head: makeContent(3)}, {Dst: addr(1), Head: makeContent(4)},
	}
	for _, want := range []int{1, 0} {
		if n, err := r.TxBurst(items); n != want || err != nil {
			t.Fatalf("TxBurst = %d, %v, want %d", n, err, want)
		}
		r.next += want
		items = items[want:]
	}
	if n := r.Stats().TxStalls; n != 2 {
		t.Errorf("TxStalls = %d, want 2", n)
	}
	r.clock.advance(10)
	r.left(4)
	r.send(4, 1)
	r.Flush()
	r.left(8)
}

// TestFlush: all leaves, and the inner transport is flushed too.
func TestFlush(t *testing.T) {
	r := newRig(t, Config{Delay: time.Hour})
	for _, it := range r.send(100, 2) {
		defer clear(it.Data)
	}
	r.Flush()
	r.left(100)
	if r.under.flushes != 1 {
		t.Errorf("the inner transport was flushed %d times", r.under.flushes)
	}
	if c := r.Counts(); c.Flushed != 100 {
		t.Errorf("counts %+v", c)
	}
	// The delays of these packets still pass, and let no later ones leave too late.
	r.clock.advance(time.Minute)
	r.send(10, 1)
	r.clock.advance(time.Hour)
	r.left(110)
}

// TestFlushStalled: what the inner transport does not take is dropped in the end.
func TestFlushStalled(t *testing.T) {
	r := newRig(t, Config{Delay: time.Hour})
	r.send(10, 1)
	r.under.room = 4
	r.Flush()
	c, s := r.Counts(), r.Stats()
	if len(r.under.sent) != 4 || c.Lent != 0 || c.Dropped != 6 || s.TxDropped != 6 {
		t.Errorf("%d packets sent, %+v, %+v", len(r.under.sent), c, s)
	}
	if r.under.offers < 2 || r.under.offers > 100 {
		t.Errorf("the packets were offered %d times", r.under.offers)
	}
	if r.Stats().TxStalls != 0 {
		t.Errorf("TxStalls = %d, but TxBurst took all", r.Stats().TxStalls)
	}
}

// TestStalled: what the inner transport does not take stays, and is tried again.
func TestStalled(t *testing.T) {
	r := newRig(t, Config{Delay: 10})
	r.send(10, 1)
	r.under.room = 4
	r.clock.advance(20)
	r.left(4)
	for range 3 {
		r.clock.advance(stallHold)
		r.left(4)
	}
	if n := len(r.clock.timers); n != 1 {
		t.Errorf("%d timers", n)
	}
	r.under.room = -1
	r.clock.advance(stallHold)
	r.left(10)

	r = newRig(t, Config{Calls: 1})
	r.send(10, 1)
	r.under.room = 4
	r.RxBurst(nil)
	r.left(4)
	r.under.room = -1
	r.RxBurst(nil)
	r.left(10)
}

// TestWait: before the owner sleeps all is sent. If that is not possible, it does not sleep
// for long.
func TestWait(t *testing.T) {
	for name, wait := range map[string]func(r *rig, d time.Duration) error{
		"Wait": func(r *rig, d time.Duration) error { return r.Wait(d) },
		"PrepareWait": func(r *rig, d time.Duration) error {
			idle, err := r.PrepareWait()
			if stalled := r.under.room == 0; idle == stalled {
				t.Errorf("PrepareWait = %v, stalled %v", idle, stalled)
			}
			return errors.Join(err, r.FinishWait(0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{Calls: 1000})
			r.send(10, 1)
			r.under.room = 4
			if err := wait(r, -1); err != nil {
				t.Fatal(err)
			}
			r.left(4)
			if err := wait(r, time.Microsecond); err != nil {
				t.Fatal(err)
			}
			if err := wait(r, time.Hour); err != nil {
				t.Fatal(err)
			}
			r.under.room = 2
			if err := wait(r, -1); err != nil {
				t.Fatal(err)
			}
			r.left(6)
			if name == "Wait" { // room comes while it waits
				r.under.onWait = func() { r.under.room = -1 }
			} else {
				r.under.room = -1
			}
			if err := wait(r, -1); err != nil {
				t.Fatal(err)
			}
			r.left(10)
			if err := wait(r, -1); err != nil {
				t.Fatal(err)
			}
			want := []time.Duration{stallHold, time.Microsecond, stallHold, stallHold, stallHold, -1}
			if name == "Wait" && !slices.Equal(r.under.waits, want) {
				t.Errorf("waits %v, want %v", r.under.waits, want)
			}
		})
	}
	r := newRig(t, Config{Delay: time.Hour}) // these leave by themselves
	r.send(10, 1)
	r.Wait(-1)
	r.left(0)
	if !slices.Equal(r.under.waits, []time.Duration{-1}) {
		t.Errorf("waits %v", r.under.waits)
	}
}

// TestSeed: the seed decides when packets leave.
func TestSeed(t *testing.T) {
	run := func(cfg Config) (left string) {
		r := newRig(t, cfg)
		for range 100 {
			r.send(1, 1)
			r.clock.advance(30)
			left += fmt.Sprint(len(r.under.sent), " ")
		}
		return left
	}
	for _, cfg := range []Config{{Calls: 5}, {Jitter: 100}} {
		other := cfg
		other.Seed++
		once, again, otherwise := run(cfg), run(cfg), run(other)
		if once != again || once == otherwise {
			t.Errorf("%+v: packets leave at\n%s\n%s\n%s", cfg, once, again, otherwise)
		}
	}
}

// TestInnerError: an inner transport that fails shows in TxBurst, and nothing stays lent.
func TestInnerError(t *testing.T) {
	for name, leave := range map[string]func(r *rig){
		"delay": func(r *rig) { r.clock.advance(time.Hour) }, "Flush": func(r *rig) { r.Flush() },
	} {
		r := newRig(t, Config{Delay: time.Hour})
		items := r.send(5, 1)
		r.under.err = transport.ErrClosed
		leave(r)
		if n, err := r.TxBurst(items); n != 0 || err != transport.ErrClosed {
			t.Errorf("%s: TxBurst = %d, %v", name, n, err)
		}
		if c := r.Counts(); c.Lent != 0 || c.Dropped != 5 {
			t.Errorf("%s: counts %+v", name, c)
		}
	}
	r := newRig(t, Config{Calls: 1})
	items := r.send(5, 1)
	r.under.err = transport.ErrClosed
	if n, err := r.TxBurst(items); n != 0 || err != transport.ErrClosed {
		t.Errorf("TxBurst = %d, %v", n, err)
	}
}

// TestStats: those of the inner transport, but the stalls of this one.
func TestStats(t *testing.T) {
	r := newRig(t, Config{Calls: 1})
	r.send(3, 1)
	r.under.stats.RxPackets, r.under.stats.TxDropped, r.under.stats.TxStalls = 5, 6, 7
	if s := r.Stats(); s.TxPackets != 0 || s.RxPackets != 5 || s.TxDropped != 6 || s.TxStalls != 0 {
		t.Errorf("%+v", s)
	}
	r.Flush()
	if s := r.Stats(); s.TxPackets != 3 {
		t.Errorf("after Flush: %+v", s)
	}
}

// TestPowers: what the inner transport can do besides.
func TestPowers(t *testing.T) {
	r := newRig(t, Config{})
	if p := r.Path(addr(77)); p != (transport.Path{MTU: 77}) {
		t.Errorf("Path = %+v", p)
	}
	mem := []byte{1, 2, 3}
	if key, err := r.Register(mem); key != 3 || err != nil {
		t.Errorf("Register = %d, %v", key, err)
	}
	if r.Unregister(mem, 3); mem[2] != 0 {
		t.Error("Unregister did not come through")
	}
	if fds := r.WaitFDs(); !slices.Equal(fds, []int{7}) {
		t.Errorf("WaitFDs = %v", fds)
	}
	if r.FinishWait(9); r.under.flushes != 9 {
		t.Error("FinishWait did not come through")
	}
	want := transport.Caps{Name: "fake", MTU: fakeMTU, RxRing: 64, ECN: true}
	if c := r.Caps(); c != want {
		t.Errorf("Caps %+v", c)
	}
}

// TestCloseWhileLent closes during a Wait that has packets to send.
func TestCloseWhileLent(t *testing.T) {
	for range 100 {
		c, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		tr := strict(t, c, Config{})
		tr.TxBurst([]transport.TxItem{{Dst: c.LocalAddr(), Head: makeContent(1)}})
		done := make(chan error)
		go func() {
			var err error
			for err == nil {
				err = tr.Wait(-1)
			}
			done <- err
		}()
		tr.Close()
		if err := <-done; !errors.Is(err, transport.ErrClosed) {
			t.Fatalf("Wait: %v", err)
		}
	}
}

func TestValidate(t *testing.T) {
	beyond := math.MaxInt32
	beyond++ // negative where int has 32 bits
	for field, cfg := range map[string]Config{
		"Ring": {Ring: -1}, "Inline": {Inline: -1}, "Calls": {Calls: beyond},
		"Delay": {Delay: -1}, "Jitter": {Jitter: 2 * time.Hour},
	} {
		_, err := New(&fake{}, cfg)
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Field != field {
			t.Errorf("%s: error is %v", field, err)
		}
	}
}
