package session

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// smallRigs tries sessions whose small packets leave alone, and those of which a bundle is open.
func smallRigs(t *testing.T, p Params, pacing *Pacing, try func(t *testing.T, r *rig)) {
	for _, crowded := range []bool{false, true} {
		t.Run(map[bool]string{false: "alone", true: "crowded"}[crowded], func(t *testing.T) {
			r := newPacedRig(t, p, Timing{}, 8, msgbuf.Config{}, pacing)
			if crowded {
				r.bundles(p.PerPacket + wire.HeaderSize)
				r.accompany()
			}
			r.now = 1_000_000
			r.open(0)
			if try(t, r); crowded && r.cnet.count == 0 {
				t.Error("nothing went in a bundle")
			}
			r.noLeak()
		})
	}
}

// TestSmallMarked: the response to a request that met congestion says so, and to one that did not
// it does not.
func TestSmallMarked(t *testing.T) {
	smallRigs(t, rigParams, nil, func(t *testing.T, r *rig) {
		for _, marked := range []bool{true, false} {
			op := r.op(1, 10, 20)
			r.start(op)
			h := r.c2s[0].header()
			in := Arrival{Now: r.now, CE: marked}
			r.sv.OnReq(&h, r.c2s[0].raw[wire.HeaderSize:], &in, r.sout)
			r.c2s = nil
			if err := r.respond(r.takeServer().Slot, 20); err != nil {
				t.Fatal(err)
			}
			if h := r.s2c[0].header(); (h.Flags&wire.FlagCE != 0) != marked {
				t.Errorf("marked %v: flags %b", marked, h.Flags)
			}
			r.pump(nil)
			giveBack(op)
		}
	})
}

// TestSmallCut: a request says in which packets it is counted, however small it is.
func TestSmallCut(t *testing.T) {
	p := rigParams
	p.PerPacket = 2000
	smallRigs(t, p, nil, func(t *testing.T, r *rig) {
		if !r.cl.LowerCut(wire.CutSizes[1]) {
			t.Fatal("the packets are not smaller")
		}
		op := r.op(1, 10, 20)
		r.start(op)
		if h := r.c2s[0].header(); h.Flags.Cut() != 1 {
			t.Errorf("flags %b", h.Flags)
		}
		r.pump(func(uint8) int { return 20 })
		giveBack(op)
	})
}

// TestSmallDeadline: a request tells the time that is left.
func TestSmallDeadline(t *testing.T) {
	smallRigs(t, rigParams, nil, func(t *testing.T, r *rig) {
		for i, left := range []time.Duration{0, 20 * time.Microsecond} {
			op, deadline := r.op(uint32(i), 10, 20), monotime.Time(0)
			if left > 0 {
				deadline = r.now.Add(left)
			}
			if err := r.cl.Start(op, deadline, r.now, r.cout); err != nil {
				t.Fatal(err)
			}
			r.takeClient()
			if got, ok := wire.Remaining(r.c2s[0].header().Hold); got != left || ok != (left > 0) {
				t.Errorf("of %v: %v, %v are left", left, got, ok)
			}
			r.pump(func(uint8) int { return 20 })
			giveBack(op)
		}
	})
}

// TestSmallPaced: a session that is not at link rate pays for its requests.
func TestSmallPaced(t *testing.T) {
	f := &fakeControl{rate: 1e8} // 10 ns a byte
	smallRigs(t, rigParams, f.pacing(), func(t *testing.T, r *rig) {
		f.made = 0
		r.slowDown(f)
		op := r.op(1, 10, 20)
		r.start(op)
		want := r.now + 10*(10+wire.HeaderSize+wireOverhead)
		if got := r.cl.PaceAt(); got < want-1 || got > want {
			t.Errorf("the next packet may leave after %d ns, want %d", got-r.now, want-r.now)
		}
		r.pump(func(uint8) int { return 20 })
		giveBack(op)
	})
}

// TestSmallQueued: request and response know in which batch they wait, and when.
func TestSmallQueued(t *testing.T) {
	smallRigs(t, rigParams, nil, func(t *testing.T, r *rig) {
		for range 3 {
			r.now += 1000
			op := r.op(1, 10, 20)
			if err := r.cl.Start(op, 0, r.now, r.cout); err != nil {
				t.Fatal(err)
			}
			if s := &r.cl.slots[0]; s.txGen != r.cout.gen || s.sentAt != r.now ||
				s.progress != r.now || s.numTx != 1 || r.cl.credits != r.cl.Credits-1 {
				t.Errorf("%+v, batch %d, %d credits", s, r.cout.gen, r.cl.credits)
			}
			r.takeClient()
			slot := r.toServer(r.c2s[0]).Slot
			r.c2s = nil
			if err := r.sv.Respond(slot, r.buffer(20, 0), r.now, r.sout); err != nil {
				t.Fatal(err)
			}
			if got := r.sv.slots[slot].txGen; got != r.sout.gen || !r.sout.HasAnswers() {
				t.Errorf("the response is of batch %d, it is %d; answers: %v", got, r.sout.gen,
					r.sout.HasAnswers())
			}
			r.takeServer()
			r.pump(nil)
			giveBack(op)
		}
	})
}

// TestSmallLate: the hold time of a response has the time of its batch, and its checksum is right.
func TestSmallLate(t *testing.T) {
	late := func(t *testing.T, r *rig) {
		op := r.op(1, 10, 20)
		r.start(op)
		slot := r.toServer(r.c2s[0]).Slot
		r.c2s = nil
		r.now += 10 * wire.HoldUnit
		if err := r.sv.Respond(slot, r.buffer(20, 0), r.now, r.sout); err != nil {
			t.Fatal(err)
		}
		r.sout.Finish(5 * wire.HoldUnit)
		r.takeServer()
		if got := r.s2c[0].header().Hold; got != 15 {
			t.Errorf("held for %d units, want 15", got)
		}
		r.now += 100_000
		if r.pump(nil); r.badToken != 0 {
			t.Error("the response is damaged")
		}
		giveBack(op)
	}
	p := rigParams
	for _, p.Checksum = range []bool{false, true} {
		smallRigs(t, p, nil, late)
	}
}

// TestSmallTooLarge: a response that is larger than a message may be is refused though it is one
// packet and there is room for it.
func TestSmallTooLarge(t *testing.T) {
	smallRigs(t, rigParams, nil, func(t *testing.T, r *rig) {
		r.cl.MaxMessage = 100
		for _, size := range []int{100, 101} {
			r.failed = nil
			op := r.op(1, 10, 200)
			r.start(op)
			h := r.c2s[0].header()
			r.c2s = nil
			h.Type, h.MsgSize, h.Hold = wire.TypeResp, uint32(size), 0
			r.cl.OnResp(&h, make([]byte, size), r.arrival(), r.cout)
			ev := r.takeClient()
			if size > 100 && (len(r.failed) != 1 || !errors.Is(r.failed[0].Err, ErrTooLarge)) ||
				size <= 100 && ev.Kind != EventDone {
				t.Errorf("%d bytes: %+v, failed %+v", size, ev, r.failed)
			}
			giveBack(op)
		}
	})
}
