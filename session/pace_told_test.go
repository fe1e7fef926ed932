package session

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestBytesTold: congestion control is told the bytes of the packets that an answer speaks for,
// with all headers: a CR for request packets, a response packet for itself.
func TestBytesTold(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	r.slowDown(f)
	r.cst.RateUpdates = 0
	op := r.op(1, 4500, 1500)
	r.start(op)
	for r.paced {
		r.now = r.cl.PaceAt()
		r.release()
	}
	num := r.c2s[0].header().ReqNum
	const packet = 1000 + wire.HeaderSize
	for i, c := range []struct {
		typ      wire.Type
		pkt      uint32
		payload  int
		answered int
	}{
		{wire.TypeCR, 0, 0, packet}, {wire.TypeCR, 3, 0, 3 * packet},
		{wire.TypeResp, 4, 1000, packet}, {wire.TypeResp, 5, 500, 500 + wire.HeaderSize},
	} {
		for r.paced {
			r.now = r.cl.PaceAt()
			r.release()
		}
		h := wire.Header{Type: c.typ, ReqType: 1, ReqNum: num, PktNum: c.pkt}
		if c.typ == wire.TypeCR {
			r.cl.OnCR(&h, r.arrival(), r.cout)
		} else {
			h.MsgSize = 1500
			r.cl.OnResp(&h, make([]byte, c.payload), r.arrival(), r.cout)
		}
		r.now++
		r.takeClient()
		if len(f.acks) != i+1 || r.cst.RateUpdates != uint64(i+1) {
			t.Fatalf("answer %d: told %+v, %d updates", i, f.acks, r.cst.RateUpdates)
		}
		if got, want := f.acks[i].bytes, c.answered+wireOverhead; got != want {
			t.Errorf("answer %d: %d bytes told, want %d", i, got, want)
		}
	}
	giveBack(op)
	r.noLeak()
}

// TestToldOnce: of answers that are found at the same time congestion control gets the first, and
// the bytes of the others with the next one. It gets a mark at once.
func TestToldOnce(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	r.slowDown(f)
	in, size := Arrival{Now: r.now}, 100+wireOverhead
	h := wire.Header{}
	for i, c := range []struct {
		now  time.Duration
		ce   bool
		want []int // bytes told so far
	}{
		{1, false, []int{size}},
		{1, false, []int{size}},
		{1, false, []int{size}},
		{2, false, []int{size, 3 * size}},
		{2, true, []int{size, 3 * size, size}},
		{2, true, []int{size, 3 * size, size, size}},
		{3, false, []int{size, 3 * size, size, size, size}},
	} {
		in.Now, in.CE = r.now.Add(c.now), c.ce
		r.cl.learn(&in, 50*time.Microsecond, 100, &h)
		var got []int
		for _, a := range f.acks {
			got = append(got, a.bytes)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("answer %d: told %v bytes, want %v", i, got, c.want)
		}
	}
	in.Now, in.CE = r.now.Add(3), false
	if r.cl.learn(&in, 0, 100, &h); len(f.acks) != 6 {
		t.Errorf("a round trip that is not known: told %d times", len(f.acks))
	}
	r.noLeak()
}

// TestRFRCharge: an RFR takes the time of the response packet that it asks for.
func TestRFRCharge(t *testing.T) {
	for _, req := range []int{10, 1001} {
		f := &fakeControl{rate: 1e8} // 10 ns a byte
		r := pacedRig(t, f, nil)
		r.slowDown(f)
		op := r.op(1, req, 1500)
		r.start(op)
		for r.paced {
			r.now = r.cl.PaceAt()
			r.release()
		}
		r.now += ms
		h := r.c2s[len(r.c2s)-1].header()
		h.Type, h.MsgSize = wire.TypeResp, 1500
		r.cl.OnResp(&h, make([]byte, 1000), r.arrival(), r.cout)
		r.takeClient()
		want := r.now + 10*(500+wire.HeaderSize+wireOverhead)
		if got := r.cl.PaceAt(); got < want-1 || got > want {
			t.Errorf("request of %d bytes: next at %d, want %d", req, got-r.now, want-r.now)
		}
		r.closeClient(ErrClosed)
		giveBack(op)
		r.c2s = nil
		r.noLeak()
	}
}

// TestSlack: a packet leaves when it is due in no more than the slack.
func TestSlack(t *testing.T) {
	for early := range 2 {
		f := &fakeControl{rate: 1e8}
		r := pacedRig(t, f, nil)
		r.slowDown(f)
		ops := []Op{r.op(1, 10, 10), r.op(2, 10, 10)}
		r.start(ops[0])
		r.now = r.cl.PaceAt().Add(-r.cl.pace.cfg.Slack)
		if early == 1 {
			r.now--
		}
		r.start(ops[1])
		if r.paced != (early == 1) || len(r.c2s) != 2-early || r.cst.PaceStalls != uint64(early) {
			t.Errorf("%d ns early: %d packets, %d stalls", early, len(r.c2s), r.cst.PaceStalls)
		}
		r.closeClient(ErrClosed)
		for _, op := range ops {
			giveBack(op)
		}
		r.noLeak()
	}
}

// TestRate: the rate is the link's at first, then the controller's; without pacing there is none.
func TestRate(t *testing.T) {
	f := &fakeControl{rate: 1e8}
	r := pacedRig(t, f, nil)
	near := func(want float64) {
		t.Helper()
		if got := r.cl.Rate(); got < want*0.999 || got > want*1.001 {
			t.Errorf("%g bytes per second, want %g", got, want)
		}
	}
	near(testLink)
	r.slowDown(f)
	near(1e8)
	r.noLeak()
	r = newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	if got := r.cl.Rate(); got != 0 {
		t.Errorf("without pacing: %g bytes per second", got)
	}
	r.noLeak()
}

// answer ends request 1 of the session after rtt, and tells how the answer came.
func (r *rig) answer(rtt time.Duration, in Arrival, hold uint16) {
	r.tb.Helper()
	op := r.op(1, 10, 500)
	r.start(op)
	r.runToAnswer()
	r.now = r.now.Add(rtt)
	p := r.s2c[0]
	r.s2c = nil
	h := p.header()
	if hold != 0 {
		h.Hold = hold
	}
	in.Now = r.now
	r.cl.OnResp(&h, p.raw[wire.HeaderSize:], &in, r.cout)
	r.takeClient()
	giveBack(op)
}

// TestUnknownTold: an answer with a mark is told without a round trip if none is known, however
// long nobody looked.
func TestUnknownTold(t *testing.T) {
	f := &fakeControl{rate: testLink}
	r := pacedRig(t, f, nil)
	r.answer(9000, Arrival{CE: true, Unseen: 500}, wire.HoldUnknown)
	if len(f.acks) != 1 || f.acks[0].rtt != 0 {
		t.Errorf("told %+v", f.acks)
	}
	r.noLeak()
	f = &fakeControl{rate: testLink} // without the bypass every answer is told
	r = pacedRig(t, f, func(p *Pacing) { p.NoRateBypass = true })
	r.answer(9000, Arrival{}, wire.HoldUnknown)
	if len(f.acks) != 1 || f.acks[0].rtt != 0 {
		t.Errorf("without bypass: told %+v", f.acks)
	}
	r.noLeak()
}

// TestFractions: fractions of ns add up.
func TestFractions(t *testing.T) {
	p := newPacer(&Pacing{LinkRate: 3e8}) // 3 1/3 ns a byte
	for range 30 {
		p.charge(100 - wireOverhead)
	}
	if p.next != 9999 { // the rate itself is rounded
		t.Errorf("3000 bytes take %d ns, want 9999", p.next)
	}
}

// TestSpikeBounds: a round trip of spike times the limit needs a witness. A packet
// that was sent when the first was seen is no witness, and an unknown round trip ends no burst.
func TestSpikeBounds(t *testing.T) {
	f := &fakeControl{rate: testLink}
	r := pacedRig(t, f, nil)
	told := func(what string, want int) {
		t.Helper()
		if len(f.acks) != want {
			t.Errorf("%s: told %+v, want %d", what, f.acks, want)
		}
	}
	r.answer(spike*testBypass-1, Arrival{}, 0)
	told("below it", 1)
	r.answer(spike*testBypass, Arrival{}, 0)
	told("just as long", 1)
	r.answer(spike*testBypass, Arrival{}, 0) // sent when the one before was seen
	told("sent at that time", 1)
	r.answer(9000, Arrival{}, wire.HoldUnknown)
	told("unknown", 1)
	r.answer(spike*testBypass, Arrival{}, 0)
	told("sent later", 2)
	r.noLeak()
}

// TestNoLimit: an algorithm without a bypass limit is told every round trip that is known.
func TestNoLimit(t *testing.T) {
	f := &fakeControl{rate: testLink}
	r := pacedRig(t, f, func(p *Pacing) { p.Algorithm.Bypass = 0 })
	f.bypass = 0
	r.answer(9000, Arrival{}, 0)
	r.answer(90*ms, Arrival{}, 0)
	if len(f.acks) != 2 {
		t.Errorf("told %+v", f.acks)
	}
	r.noLeak()
}
