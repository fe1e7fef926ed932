package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestGather: when credits are short, those that come back with a burst go out together. So few
// packets ask for answers of their own, with more requests under way than strides of credits.
func TestGather(t *testing.T) {
	p := rigParams // a stride is 8
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	const packets = 40
	var controls, data int
	r.onTx = func(_ bool, p dgram, _ int) {
		if h := p.header(); h.Type == wire.TypeCR || h.Type == wire.TypeRFR {
			controls++
		} else {
			data++
		}
	}
	var ops []Op
	for i := range p.Slots {
		op := r.op(uint32(i), packets*p.PerPacket, packets*p.PerPacket)
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, op)
	}
	done := 0
	r.onEvent = func(ev Event) {
		if ev.Kind == EventDone {
			done++
		}
	}
	r.takeClient()
	for len(r.c2s)+len(r.s2c) > 0 {
		in := r.c2s
		r.c2s = nil
		for _, p := range in {
			if ev := r.toServer(p); ev.Kind == EventRequest {
				if err := r.respond(ev.Slot, packets*r.params.PerPacket); err != nil {
					t.Fatal(err)
				}
			}
		}
		in = r.s2c
		r.s2c = nil
		for _, p := range in {
			r.fromServer(p)
		}
		r.takeClient()
	}
	if done != p.Slots || data != 2*packets*p.Slots {
		t.Fatalf("%d requests have ended, with %d packets of data", done, data)
	}
	if controls > data/4 {
		t.Errorf("%d packets of data took %d returns", data, controls)
	}
	for _, op := range ops {
		giveBack(op)
	}
	r.noLeak()
}

// TestTogether: a paced session sends as many packets in a row as its rate limiter lets leave at
// once, but no more than a stride, and one where pacing itself is measured.
func TestTogether(t *testing.T) {
	for _, tt := range []struct {
		rate  float64 // bytes per second
		slack time.Duration
		every bool // NoPacingBypass
		want  uint8
	}{
		{rate: 1e9, slack: 20 * time.Microsecond, want: 8},
		{rate: 1e9, slack: 3500 * time.Nanosecond, want: 3},
		{rate: 1e8, slack: 20 * time.Microsecond, want: 1},
		{rate: 1e3, slack: 20 * time.Microsecond, want: 1},
		{rate: 1e9, slack: 20 * time.Microsecond, every: true, want: 1},
	} {
		now := monotime.Time(0)
		pacing := &Pacing{LinkRate: 2e9, Slack: tt.slack, NoPacingBypass: tt.every}
		pacing.Algorithm = cc.Algorithm{New: func(float64) cc.Controller { return fixedRate(tt.rate) }}
		r := newPacedRig(t, rigParams, Timing{}, 0, msgbuf.Config{}, pacing)
		r.open(0)
		r.cl.control(now, time.Millisecond, 1000, true)
		if got := r.cl.together(); got != tt.want || !r.cl.Congested() {
			t.Errorf("%+v: %d together", tt, got)
		}
	}
}

// fixedRate is a controller with one rate.
type fixedRate float64

func (f fixedRate) OnAck(cc.Time, time.Duration, time.Duration, int, bool) (
	float64, time.Duration,
) {
	return float64(f), 0
}

func (f fixedRate) OnTimeout(cc.Time) float64 { return float64(f) }
