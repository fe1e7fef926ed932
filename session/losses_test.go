package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// newLossPath is newLongPath with a session that follows losses.
func newLossPath(t *testing.T, per, credits int, fixed bool) *longPath {
	return newPacedPath(t, per, credits, 0, fixed, &Pacing{LinkRate: 1e9, Losses: true})
}

// nothing has no packet of the client's arrive for a time.
func (l *longPath) nothing(d time.Duration) {
	l.drops = func(*wire.Header) bool { return true }
	l.run(int(d / (pathTicks * pathTick)))
	l.drops = nil
}

// TestLosses: a session that follows losses doubles its window in a round trip, up to what was
// agreed on, whatever the queue is, and whether the owner fixed it or not. Losses in one flight
// take three tenths, once; a timeout leaves one packet, and it grows again.
func TestLosses(t *testing.T) {
	for _, fixed := range []bool{false, true} {
		const credits = 400
		l := newLossPath(t, 20, credits, fixed)
		l.within("at first", firstFlight, firstFlight)
		l.run(3)
		l.within("after three round trips", 3*firstFlight, 9*firstFlight)
		l.run(60)
		l.within("beside a long queue", credits, credits)
		lost := 0
		l.drops = func(h *wire.Header) bool {
			if h.Type != wire.TypeReq || h.PktNum%40 != 20 || lost == 5 {
				return false
			}
			lost++
			return true
		}
		l.run(40)
		l.within("after some losses", credits*7/10, credits*8/10)
		l.nothing(3 * time.Second)
		l.within("after a timeout", 1, 1)
		l.run(200)
		l.within("long after it", 40, credits)
		l.end()
	}
}

// TestHush: a session that follows losses sends nothing for half a round trip after one, and then
// goes on.
func TestHush(t *testing.T) {
	const loss = 400 // a packet of a message
	l := newLossPath(t, 20, loss, false)
	for range 4 {
		l.start()
	}
	l.run(60)
	l.drops = func(h *wire.Header) bool {
		is := h.Type == wire.TypeReq && h.PktNum == loss
		if is {
			l.drops = nil
		}
		return is
	}
	sends := func() int { // of a step, which takes per packets off the queue at first
		left := max(0, len(l.r.c2s)-l.per)
		l.step()
		return len(l.r.c2s) - left
	}
	c := l.r.cl
	for cut := c.path.cutAt; c.path.cutAt == cut; {
		sends()
	}
	until := c.path.cutAt.Add(c.rtt.srtt / 2)
	for l.r.now.Add(pathTick) < until {
		if n := sends(); n > 0 {
			t.Errorf("%d packets leave %v after a loss", n, l.r.now.Sub(c.path.cutAt))
		}
	}
	if sends()+sends() == 0 {
		t.Error("it is silent for longer")
	}
	if c.pace.gated {
		t.Error("packets still wait for their time")
	}
	l.end()
}

// TestLateHandlers: small requests that are answered late, or not at all, leave the window as it
// is, since their handlers may be slow. Their answers make it grow.
func TestLateHandlers(t *testing.T) {
	l := newLossPath(t, 20, 400, false)
	l.finish()
	l.r.cl.path.cubic.Size = 1
	l.r.cl.sizeTo(1)
	l.size, l.over = [2]int{1, 1}, false
	l.start()
	l.start()
	l.run(100)
	l.within("of small requests", 3, 5)
	was := l.r.cl.Window()
	l.nothing(3 * time.Second)
	l.within("without an answer", was, was)
	l.end()
}

// TestLossesRest: a session that has asked nothing of its path for a while begins anew.
func TestLossesRest(t *testing.T) {
	l := newLossPath(t, 20, 400, false)
	l.run(60)
	l.finish()
	l.within("at rest", 400, 400)
	for range 10 {
		l.r.now = l.r.now.Add(windowRest / 2)
		l.start()
		l.within("after a while", 400, 400)
		l.finish()
	}
	l.r.now = l.r.now.Add(windowRest + 3*l.r.cl.rtt.rto)
	l.start()
	l.within("after a long while", firstFlight, firstFlight)
	l.run(2)
	l.within("two round trips later", 2*firstFlight, 5*firstFlight)
	l.end()
}
