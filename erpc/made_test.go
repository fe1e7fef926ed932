package erpc_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// Request types of tests of responses.
const (
	cKeep = 5 // the test has the handle, and answers
	cHuge = 6 // answers with hugeSize bytes, in the background
	cGo   = 7 // answers with as many bytes as the test says, when it says so
)

const (
	hugeLimit = 64 << 20
	hugeSize  = 8 << 20
)

// makers are a hogRig whose handlers have handles of requests that nobody has answered.
type makers struct {
	*hogRig
	mu      sync.Mutex
	handles []erpc.ReqHandle
	ran     int // of cHuge and cGo
	say     chan int
}

// newMakers makes a rig. Register registers a handler that keeps handles.
func newMakers(t *testing.T, register func(n *erpc.Nexus, keep erpc.Handler) error) *makers {
	m := &makers{say: make(chan int)}
	keep := func(h erpc.ReqHandle) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.handles = append(m.handles, h)
	}
	cfg := erpc.Config{MemoryLimit: hugeLimit, NoHugepages: true}
	m.hogRig = newHogRig(t, cfg, func(n *erpc.Nexus) {
		is(t, "register", register(n, keep), nil)
		for typ, size := range map[uint8]func() int{
			cHuge: func() int { return hugeSize },
			cGo:   func() int { return <-m.say },
		} {
			is(t, "register", n.Register(typ, erpc.Background, func(h erpc.ReqHandle) {
				m.mu.Lock()
				m.ran++
				m.mu.Unlock()
				_ = h.RespondBytes(make([]byte, size()))
			}), nil)
		}
	})
	return m
}

// take waits for n requests and returns their handles.
func (m *makers) take(n int) []erpc.ReqHandle {
	m.until(func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.handles) == n
	})
	return m.handles
}

// started returns how many handlers of cHuge and cGo have begun.
func (m *makers) started() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ran
}

// call1 makes one call of cHuge in each of some sessions of the hog, at the same time.
func (m *makers) call1(o *outcomes, sessions ...*erpc.Session) {
	m.call(0, sessions, cHuge, 32, 1, o)
	m.until(func() bool { return o.open == 0 })
}

// forMs runs all loops for some milliseconds.
func (m *makers) forMs(n erpc.Time) {
	end := m.net.now + n*1e6
	m.until(func() bool { return m.net.now >= end })
}

// checkEnd ends all sessions of clients: nothing is charged any more.
func (m *hogRig) checkEnd(t *testing.T) {
	t.Helper()
	for _, r := range m.clients {
		is(t, "close a client", r.Close(), nil)
	}
	m.clients = nil
	m.until(func() bool { return m.server.Sessions() == 0 && m.server.Running() == 0 })
	if all, address := m.server.Accounted(); all != 0 || address != 0 {
		t.Errorf("at the end %d bytes count, and of addresses %d", all, address)
	}
	m.end()
}

// ways are those to keep a request for later.
var ways = map[string]func(n *erpc.Nexus, keep erpc.Handler) error{
	"background": func(n *erpc.Nexus, keep erpc.Handler) error {
		return erpc.ServerOf(n).HandleLater(cKeep, keep)
	},
	"loop": func(n *erpc.Nexus, keep erpc.Handler) error {
		return erpc.ServerOf(n).HandleInline(cKeep, keep)
	},
	"batch": func(n *erpc.Nexus, keep erpc.Handler) error {
		return erpc.ServerOf(n).HandleBatch(cKeep, func(hs []erpc.ReqHandle) {
			for _, h := range hs {
				keep(h)
			}
		})
	},
}

// TestHogOfMadeResponses: beside an address whose handlers have made responses, and wait with them,
// another address gets its own: what was made counts like what a session keeps. The endpoint's
// memory is within the limit, of several addresses too, and its Stats say how much it is.
func TestHogOfMadeResponses(t *testing.T) {
	for name, way := range ways {
		for hogs := 1; hogs <= 3; hogs += 2 {
			t.Run(name, func(t *testing.T) { testHogOfMadeResponses(t, way, hogs) })
		}
	}
}

func testHogOfMadeResponses(
	t *testing.T, way func(n *erpc.Nexus, keep erpc.Handler) error, hogs int,
) {
	const requests = 40
	m := newMakers(t, way)
	var o [3]outcomes
	for i := range hogs {
		m.call(i, m.open(i, requests/8), cKeep, 32, 8, &o[i])
	}
	got := map[erpc.ReqHandle]*erpc.MsgBuffer{}
	handles := m.take(hogs * requests)
	for _, h := range handles {
		if b, err := h.Alloc(hugeSize); err == nil {
			got[h] = b
		} else if !errors.Is(err, erpc.ErrExhausted) {
			t.Fatal(err)
		}
	}
	if n := m.to.mapped.Load(); n > hugeLimit || n < int64(len(got)*hugeSize) {
		t.Errorf("%d responses: the server has %d bytes", len(got), n)
	}
	m.forMs(10)
	if st := m.server.Stats(); st.Memory != m.to.mapped.Load() {
		t.Errorf("the server has %d bytes, and says %d", m.to.mapped.Load(), st.Memory)
	}
	var victim outcomes
	m.call(hogs, m.open(hogs, 1), cHuge, 32, 1, &victim)
	m.until(func() bool { return victim.open == 0 })
	if victim.ok != 1 && hogs == 1 { // three have all that there is
		t.Errorf("beside %d responses of %d hogs: %+v", len(got), hogs, victim)
	}
	for i, h := range handles {
		switch b := got[h]; {
		case b == nil:
			_ = h.RespondError(erpc.ErrExhausted)
		case i%2 == 0:
			is(t, "respond", h.Respond(b), nil)
		default:
			b.Free()
			is(t, "respond", h.RespondBytes([]byte("none")), nil)
		}
	}
	m.until(func() bool { return o[0].open+o[1].open+o[2].open == 0 })
	m.forMs(10)
	if n := m.server.Stats().Protocol.NoMemory; n < uint64(len(handles)-len(got)) {
		t.Errorf("%d of %d got no memory, the server says %d", len(handles)-len(got), len(handles), n)
	}
	if n := o[0].ok + o[1].ok + o[2].ok; n != len(got) {
		t.Errorf("%d of %d responses came", n, len(got))
	}
	m.checkEnd(t)
}

// TestHogOfAnswers: answers that the loop has not taken yet count: so an address does not get all
// memory while the loop is busy, and what it got it gets.
func TestHogOfAnswers(t *testing.T) {
	m := newMakers(t, ways["background"])
	var o outcomes
	m.call(0, m.open(0, 20), cKeep, 32, 2, &o)
	got := 0
	for _, h := range m.take(40) {
		if err := h.RespondBytes(make([]byte, hugeSize)); err == nil {
			got++
		} else if !errors.Is(err, erpc.ErrExhausted) {
			t.Fatal(err)
		}
	}
	if got == 0 || got*hugeSize > hugeLimit*3/4 {
		t.Errorf("%d responses of one address wait for the loop", got)
	}
	m.until(func() bool { return o.open == 0 })
	if o.ok != got || o.exhausted != 40-got {
		t.Errorf("%d answers were taken: %+v", got, o)
	}
	m.checkEnd(t)
}

// TestHogDoesNotRun: while an address has responses, and no memory for one more like them, its
// requests of that type do not run, and it can try again. Its other requests run, and so do those
// of others.
func TestHogDoesNotRun(t *testing.T) {
	m := newMakers(t, ways["background"])
	var first, again, small, victim outcomes
	m.call1(&first, m.open(0, 8)...)
	if first.ok == 0 || first.ok*hugeSize > hugeLimit*3/4 || first.ok+first.exhausted != 8 {
		t.Fatalf("first: %+v", first)
	}
	ran := m.started()
	m.call1(&again, m.open(0, 8)...)
	if n := m.started() - ran; n != 0 || again.notRun != 8 {
		t.Errorf("then %d handlers ran: %+v", n, again)
	}
	m.forMs(10)
	if st := m.server.Stats(); st.WorkRefused < 8 || st.WorkOverShare != st.WorkRefused {
		t.Errorf("%d requests were refused, %d since the address had its share", st.WorkRefused,
			st.WorkOverShare)
	}
	m.call(0, m.open(0, 1), cEcho, 32, 8, &small)
	m.call(1, m.open(1, 1), cHuge, 32, 1, &victim)
	m.until(func() bool { return small.open+victim.open == 0 })
	if small.ok != 8 || victim.ok != 1 {
		t.Errorf("small ones: %+v; another address: %+v", small, victim)
	}
	m.checkEnd(t)
}

// goers are requests of cGo of one client.
type goers struct {
	*makers
	t      *testing.T
	client int
	o      outcomes
}

// call makes calls in sessions, and returns how many handlers run. The others are refused.
func (g *goers) call(in []*erpc.Session, each int) int {
	g.o = outcomes{}
	before := g.started()
	g.makers.call(g.client, in, cGo, 32, each, &g.o)
	g.until(func() bool { return g.o.notRun+g.started()-before == len(in)*each })
	return g.started() - before
}

// answer has the n handlers that run answer.
func (g *goers) answer(n, size int) {
	g.t.Helper()
	for range n {
		g.say <- size
	}
	g.until(func() bool { return g.o.open == 0 })
	if g.o.ok != n {
		g.t.Errorf("%d answers: %+v", n, g.o)
	}
}

// large has one call answered with a large response, which is gone then.
func (g *goers) large(in *erpc.Session) {
	var o outcomes
	g.answer(g.call([]*erpc.Session{in}, 1), hugeSize)
	g.makers.call(g.client, []*erpc.Session{in}, cEcho, 32, 8, &o) // in all slots
	g.until(func() bool { return o.open == 0 })
}

// TestHogOfRunning: if responses of a type were large, as many handlers of an address run at a time
// as may have such responses. The other requests are refused. Small responses change that.
func TestHogOfRunning(t *testing.T) {
	g := goers{makers: newMakers(t, ways["background"]), t: t}
	in := g.open(0, 20)
	g.large(in[0])
	run := g.call(in, 2)
	if run == 0 || run*hugeSize > hugeLimit*3/4 {
		t.Errorf("%d handlers run", run)
	}
	g.answer(run, 100)
	for range 20 {
		g.answer(g.call(in[:1], 1), 100)
	}
	if run = g.call(in, 2); run != 40 {
		t.Errorf("after small responses %d handlers run", run)
	}
	g.answer(run, 100)
	g.checkEnd(t)
}

// TestNoMemoryLeft: an address that has nothing of the memory, when others have all, runs one
// handler at a time of a type whose responses were large: it may be a small one.
func TestNoMemoryLeft(t *testing.T) {
	const hogs = 3
	g := goers{makers: newMakers(t, ways["background"]), t: t, client: hogs}
	in := g.open(hogs, 5)
	g.large(in[0])
	for i := range hogs {
		g.makers.call(i, g.open(i, 5), cKeep, 32, 8, new(outcomes))
	}
	var got []*erpc.MsgBuffer
	for _, h := range g.take(hogs * 40) {
		if b, err := h.Alloc(hugeSize); err == nil {
			got = append(got, b)
		}
	}
	for range 3 {
		run := g.call(in, 8)
		if run != 1 {
			t.Errorf("beside %d responses %d handlers run", len(got), run)
		}
		g.answer(run, 100)
	}
	for _, b := range got {
		b.Free()
	}
	for _, h := range g.handles {
		is(t, "respond", h.RespondBytes(nil), nil)
	}
	g.checkEnd(t)
}

// TestHonestLargeResponses: an address that takes large responses one after the other, or many at a
// time that fit into its share, gets all of them.
func TestHonestLargeResponses(t *testing.T) {
	m := newMakers(t, ways["background"])
	var o, many outcomes
	in := m.open(0, 2)
	for range 30 {
		m.call1(&o, in[0])
		m.call1(&o, in[1])
	}
	if o.ok != 60 {
		t.Errorf("one after the other: %+v", o)
	}
	m.call(1, m.open(1, 5), cKeep, 32, 8, &many)
	for _, h := range m.take(40) {
		is(t, "respond", h.RespondBytes(make([]byte, 256<<10)), nil)
	}
	m.until(func() bool { return many.open == 0 })
	if many.ok != 40 {
		t.Errorf("at a time: %+v", many)
	}
	m.checkEnd(t)
}
