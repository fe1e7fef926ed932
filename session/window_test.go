package session

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

const (
	pathTick  = 100 * time.Microsecond
	pathTicks = 10                         // on the way
	pathTrip  = (pathTicks + 1) * pathTick // without a queue
	pathSize  = 700                        // packets of a request
	pathFirst = 32
)

// longPath joins a rig's halves by a path of pathTrip that carries per packets of the client in a
// tick. Others wait in a queue. Two large requests are under way.
type longPath struct {
	r      *rig
	per    int
	size   [2]int             // of requests and responses, bytes
	way    [pathTicks][]dgram // packets that left the queue, by tick
	tick   int
	ops    map[uint32]Op // under way, by Ref
	ref    uint32
	over   bool
	drops  func(h *wire.Header) bool
	answer func(p dgram) // may change an answer, if not nil
	most   int           // of the window
	rtt    time.Duration // longest
}

// newLongPath gives the session credits, and a window that follows the path unless fixed.
func newLongPath(t *testing.T, per, credits int, hosts time.Duration, fixed bool) *longPath {
	return newPacedPath(t, per, credits, hosts, fixed, nil)
}

// newPacedPath is newLongPath with congestion control.
func newPacedPath(
	t *testing.T, per, credits int, hosts time.Duration, fixed bool, pacing *Pacing,
) *longPath {
	p := rigParams
	p.Credits, p.MaxMessage = credits, pathSize*p.PerPacket
	timing := Timing{RTOMin: time.Second, RTOMax: time.Second}
	r := newPacedRig(t, p, timing, 0, msgbuf.Config{}, pacing)
	if !fixed {
		r.cl.SetWindow(pathFirst, hosts)
	}
	r.open(0)
	r.now = ms
	l := &longPath{r: r, per: per, size: [2]int{p.MaxMessage, 1}, ops: map[uint32]Op{}}
	r.onEvent = func(ev Event) {
		l.rtt = max(l.rtt, ev.RTT)
		if ev.Kind == EventDone {
			giveBack(l.ops[ev.Ref])
			delete(l.ops, ev.Ref)
		}
	}
	l.start()
	l.start()
	return l
}

// start begins a request.
func (l *longPath) start() {
	l.ref++
	op := l.r.op(l.ref, l.size[0], l.size[1])
	l.ops[l.ref] = op
	l.r.start(op)
}

// run lets so many round trips go by.
func (l *longPath) run(trips int) {
	for range trips * pathTicks {
		l.step()
	}
}

// step lets a tick go by.
func (l *longPath) step() {
	r := l.r
	r.now = r.now.Add(pathTick)
	if r.paced && r.cl.PaceAt() <= r.now {
		r.release()
	}
	at := &l.way[l.tick%pathTicks]
	l.tick++
	in := *at
	n := min(l.per, len(r.c2s))
	*at = append([]dgram(nil), r.c2s[:n]...)
	r.c2s = r.c2s[n:]
	for _, p := range in {
		if h := p.header(); l.drops != nil && l.drops(&h) {
			continue
		}
		if ev := r.toServer(p); ev.Kind == EventRequest {
			if err := r.respond(ev.Slot, l.size[1]); err != nil {
				r.tb.Fatal(err)
			}
		}
	}
	answers := r.s2c
	r.s2c = nil
	for _, p := range answers {
		if l.answer != nil {
			l.answer(p)
		}
		if ev := r.toClient(p); ev.Kind == EventDone && !l.over {
			l.start()
		}
	}
	r.cl.Scan(r.now, r.cout)
	r.takeClient()
	l.most = max(l.most, r.cl.Window())
}

// within checks that the window is in a range.
func (l *longPath) within(when string, least, most int) {
	l.r.tb.Helper()
	if w := l.r.cl.Window(); w < least || w > most {
		l.r.tb.Errorf("%s: a window of %d, want %d to %d", when, w, least, most)
	}
}

// finish lets all requests end.
func (l *longPath) finish() {
	l.r.tb.Helper()
	l.over = true
	for range 100_000 {
		if len(l.ops) == 0 {
			return
		}
		l.step()
	}
	l.r.tb.Fatalf("%d requests have not ended", len(l.ops))
}

// end lets all requests end, and checks that nothing is left.
func (l *longPath) end() {
	l.r.tb.Helper()
	l.finish()
	l.r.noLeak()
}

// TestWindowFollows: the window becomes what fills the path, and a little more: by the time that
// hosts may take, too. It never has more than was agreed on, or less than at first, and falls when
// the path becomes slower.
func TestWindowFollows(t *testing.T) {
	for _, tt := range []struct {
		per, credits       int
		hosts              time.Duration
		least, most, later int // later: at most, on a path of a fifth
	}{
		{20, 1000, 0, 220, 270, 54},
		{20, 1000, pathTrip / 2, 330, 380, 130},
		{60, 1000, 0, 660, 800, 160},
		{20, 150, 0, 150, 150, 54},
		{1000, 700, 0, 700, 700, 700},
		{4, 1000, 0, 44, 54, pathFirst},
		{2, 1000, 0, pathFirst, pathFirst, pathFirst},
	} {
		l := newLongPath(t, tt.per, tt.credits, tt.hosts, false)
		l.run(300)
		l.within("at full speed", tt.least, tt.most)
		if l.rtt < pathTrip || l.rtt > 3*pathTrip+tt.hosts {
			t.Errorf("%+v: a round trip took %v", tt, l.rtt)
		}
		l.per = max(1, tt.per/5)
		l.run(60)
		l.within("at a fifth of it", pathFirst, tt.later)
		if l.most > tt.credits {
			t.Errorf("%+v: a window of %d", tt, l.most)
		}
		l.end()
	}
}

// TestFixedWindow: all credits are in use from the first packet on, whatever happens, if nobody
// has said how many are at first; so they are without a queue if no more were agreed on.
func TestFixedWindow(t *testing.T) {
	for _, l := range []*longPath{
		newLongPath(t, 20, 300, 0, true), newLongPath(t, 20, pathFirst, 0, false),
		newLongPath(t, 20, pathFirst/2, 0, false),
	} {
		credits := l.r.params.Credits
		l.drops = func(h *wire.Header) bool { return h.PktNum == 50 && h.Hold == 0 }
		for range 50 {
			l.run(1)
			l.within("fixed", credits, credits)
		}
		l.drops = nil
		l.end()
	}
}

// TestFewCredits: a window falls below the first one where a queue overflows also if the peer has
// agreed to no more credits than that, or to fewer; one that is fixed does not.
func TestFewCredits(t *testing.T) {
	for _, credits := range []int{pathFirst, pathFirst - 4} {
		for _, fixed := range []bool{false, true} {
			l, seen := newLongPath(t, 1, credits, 0, fixed), 0
			l.drops = func(*wire.Header) bool { seen++; return seen%3 == 0 }
			l.run(100)
			l.drops = nil
			if fixed {
				l.within("fixed", credits, credits)
			} else {
				l.within("after losses", 1, credits/2)
			}
			l.end()
		}
	}
}

// TestWindowAfterLoss: losses in one flight take three tenths, once, and the window grows again
// only after some round trips, in small steps.
func TestWindowAfterLoss(t *testing.T) {
	l := newLongPath(t, 60, 1000, 0, false)
	l.run(100)
	was := l.r.cl.Window()
	lost := 0
	l.drops = func(h *wire.Header) bool {
		if h.Type != wire.TypeReq || h.PktNum%40 != 20 || lost == 5 {
			return false
		}
		lost++
		return true
	}
	l.run(waryRounds)
	if want := int(float64(was) * kept); lost != 5 || l.r.cl.Window() != want {
		t.Errorf("%d packets lost: a window of %d after %d, want %d", lost, l.r.cl.Window(), was, want)
	}
	l.run(10)
	l.within("a while after the loss", int(float64(was)*kept)+1,
		int(float64(was)*kept)+10*int(l.r.cl.stride))
	l.run(100)
	l.within("long after the loss", 660, 800)
	for range 20 {
		lost = 0
		l.run(waryRounds)
	}
	l.within("with one flight in some that loses", pathFirst, 200)
	l.drops = nil
	l.end()
}

// TestLeastWindow: two of five packets are lost at random. The window falls to one packet, or to as
// many as the owner says.
func TestLeastWindow(t *testing.T) {
	for _, least := range []int{0, 8} {
		l := newLongPath(t, 10, 400, 0, false)
		l.r.cl.SetLeastWindow(least)
		r := rand.New(rand.NewPCG(1, 1))
		l.drops = func(*wire.Header) bool { return r.IntN(5) < 2 }
		fewest := pathFirst
		for range 2000 {
			l.step()
			fewest = min(fewest, l.r.cl.Window())
		}
		if fewest != max(least, 1) {
			t.Errorf("at least %d: a window of %d", least, fewest)
		}
		l.drops = nil
		l.finish()
		l.end()
	}
}

// TestWindowRests: a session that has asked nothing of its path for a while begins anew.
func TestWindowRests(t *testing.T) {
	l := newLongPath(t, 60, 1000, 0, false)
	l.run(100)
	l.finish()
	l.within("at rest", 660, 800)
	l.r.now = l.r.now.Add(windowRest / 2)
	l.start()
	l.within("after a while", 660, 800)
	l.finish()
	l.r.now = l.r.now.Add(2 * windowRest)
	l.start()
	l.within("after a long while", pathFirst, pathFirst)
	l.end()

	l = newLongPath(t, 60, 1000, 0, false)
	l.run(100)
	l.size[0] = 20 * l.r.params.PerPacket
	l.run(20)
	was := l.r.cl.Window()
	l.run(100)
	l.within("with messages that lack no credits", was, was)
	l.finish()
	l.r.now = l.r.now.Add(2 * windowRest)
	l.size = [2]int{1, 20 * l.r.params.PerPacket}
	l.over = false
	l.start()
	l.run(5)
	l.within("with a large response after a long while", pathFirst, pathFirst)
	l.end()
}

// TestWindowLies: a server that says that it has held packets for most of their way, or for longer
// than it can say, has its client's window follow the path all the same: no more than that is in
// flight, and nothing stands still. Answers to packets that were not sent count nothing.
func TestWindowLies(t *testing.T) {
	for _, late := range []time.Duration{ms, pathTrip} {
		const per = 60
		l := newLongPath(t, per, 1000, 0, false)
		l.r.late = late
		l.run(100)
		l.within("long hold times", per*pathTicks, per*pathTicks*5/4)
		was := l.r.cl.Window()
		l.r.cl.OnCR(&wire.Header{Type: wire.TypeCR, Session: clientSession, PktNum: pathSize - 2,
			ReqNum: l.r.cl.slots[0].reqNum}, nil, l.r.arrival(), l.r.cout)
		l.r.takeClient()
		l.within("answers to what was not sent", was, was)
		l.r.late = 0
		l.end()
	}
}

// TestManyRepeats: a server answers again a few times what a client of few credits can be waiting
// for, and no more than all of it where credits are many.
func TestManyRepeats(t *testing.T) {
	for _, tt := range []struct{ credits, packets, want int }{
		{32, 1000, 4 * 32}, {128, 1000, 512}, {300, 1000, 512}, {1000, 1000, 1000}, {1000, 600, 600},
		{1000, 20, 4 * 20},
	} {
		p := rigParams
		p.Credits = tt.credits
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.sv.repeatSpan = time.Second
		sl := &serverSlot{numReq: 1, numResp: uint32(tt.packets) - 1}
		got := 0
		for i := range 10_000 {
			h := wire.Header{Type: wire.TypeRFR, PktNum: uint32(i % tt.packets), Hold: uint16(i)}
			if r.sv.mayRepeat(sl, &h, 1, 1) {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%+v: %d packets were answered again", tt, got)
		}
	}
}

// TestOneHold: one return that says too much of how long its packet was held, whether a server lies
// or has not looked at its socket for a while, does not make the window smaller.
func TestOneHold(t *testing.T) {
	l := newLongPath(t, 20, 1000, 100*time.Microsecond, false)
	l.run(60)
	before, told := l.r.cl.Window(), false
	l.answer = func(p dgram) {
		if h := p.header(); !told && h.Type == wire.TypeCR {
			wire.SetHold(p.raw, wire.TryHold(h.Hold, 500*time.Microsecond))
			told = true
		}
	}
	l.run(400)
	if now := l.r.cl.Window(); !told || before < 200 || now < before*9/10 {
		t.Errorf("a window of %d, and %d before", now, before)
	}
	l.end()
}
