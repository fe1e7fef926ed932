package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// answered starts a request and has its answer come after d, of which the server says that it held
// it for held. It returns the round trip that the session takes for the path's.
func (r *rig) answered(d, held time.Duration) time.Duration {
	r.tb.Helper()
	op := r.op(1, 10, 10)
	r.start(op)
	p := r.c2s[len(r.c2s)-1]
	p.read(r.tb)
	r.c2s = nil
	h := p.header()
	h.Type, h.Hold = wire.TypeResp, hold(held)
	h.MsgSize = 0
	r.now = r.now.Add(d)
	r.cl.OnResp(&h, nil, r.arrival(), r.cout)
	ev := r.takeClient()
	if ev.Kind != EventDone {
		r.tb.Fatalf("outcome %+v", ev)
	}
	giveBack(op)
	return ev.RTT
}

// TestLyingHold: a server that says that it held every request for nearly all of its round trip is
// believed until three pings have been answered, or eight asked. From then on no round trip is
// below half of what the path took at best.
func TestLyingHold(t *testing.T) {
	const path = 200 * time.Microsecond
	for _, silent := range []bool{false, true} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.now = 100 * ms
		r.open(0)
		asked := 0
		var at []monotime.Time
		for range 4000 {
			rtt := r.answered(path, path-wire.HoldUnit)
			sure := !silent && asked >= sureAnswers || asked >= surePings
			if sure && rtt != path/2 || !sure && rtt >= path/2 {
				t.Fatalf("silent %v, after %d pings: a round trip of %v", silent, asked, rtt)
			}
			if r.cl.PathPingDue(r.now) {
				asked++
				at = append(at, r.now)
				if !silent {
					r.cl.PathTook(path, 0)
				}
			}
			r.now = r.now.Add(ms)
		}
		for i := 1; i < min(len(at), surePings); i++ {
			if d := at[i].Sub(at[i-1]); d < min(floorEvery<<(i-1), maxFloorEvery) {
				t.Errorf("ping %d came %v after the one before", i, d)
			}
		}
		if asked < sureAnswers || asked > 4+surePings {
			t.Errorf("silent %v: %d pings", silent, asked)
		}
		r.noLeak()
	}
}

// TestSlowHandlers: a session whose handlers all take long asks once how long the path is, and then
// believes what they say.
func TestSlowHandlers(t *testing.T) {
	const path, handler = 50 * time.Microsecond, 3 * time.Millisecond
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.now = 100 * ms
	r.open(0)
	asked := 0
	for range 100 {
		if rtt := r.answered(path+handler, handler); rtt < path || rtt > path+wire.HoldUnit {
			t.Fatalf("a round trip of %v", rtt)
		}
		if r.cl.PathPingDue(r.now) {
			asked++
			r.cl.PathTook(path, 0)
		}
	}
	if asked != 1 {
		t.Errorf("%d pings", asked)
	}
	r.noLeak()
}

// TestFastHandlers: nobody asks where hold times are small, or the handshake was as fast as the
// rest.
func TestFastHandlers(t *testing.T) {
	for _, first := range []time.Duration{0, 40 * time.Microsecond} {
		r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
		r.now = 100 * ms
		r.open(first)
		for i := range 100 {
			held := time.Duration(i%20) * time.Microsecond
			if first != 0 {
				held *= 100
			}
			if r.answered(30*time.Microsecond+held, held); r.cl.PathPingDue(r.now) {
				t.Fatalf("handshake %v, held for %v: it asks", first, held)
			}
		}
		r.noLeak()
	}
}

// TestUnseenPing: a ping whose answer may have waited here for most of its time says nothing of the
// path, and is asked again; of another that time is taken off.
func TestUnseenPing(t *testing.T) {
	const path = 200 * time.Microsecond
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.open(path)
	r.cl.floor.unsure = true
	r.cl.PathTook(path, path-1)
	if f := r.cl.floor; f.min != path || !f.unsure || f.answered > 0 {
		t.Errorf("a ping that waited: %+v", f)
	}
	r.cl.PathTook(path, path/4)
	if f := r.cl.floor; f.min != path*3/4 || f.unsure || f.answered != 1 {
		t.Errorf("a ping that waited a little: %+v", f)
	}
}

// TestHoldBeyondRoundTrip: an answer of which the server says that it held it for longer than it
// took says nothing of the path. Loops read their clocks once a pass, so both may be honest.
func TestHoldBeyondRoundTrip(t *testing.T) {
	const path = 100 * time.Microsecond
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	r.now = 100 * ms
	r.open(0)
	r.answered(path, 0)
	r.answered(path, path+wire.HoldUnit)
	if got := r.cl.RoundTrips(); got.Least != path || got.Smoothed != path {
		t.Errorf("round trips of %v became %+v", path, got)
	}
	r.noLeak()
}
