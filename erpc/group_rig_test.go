package erpc_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// loopRig is a server with several loops on one address, and clients.
type loopRig struct {
	*memNet
	t       testing.TB
	ends    []*memEnd
	loops   []*erpc.Rpc // nil has been closed
	order   []int       // the loop of each place in the kernel's group
	clients []*erpc.Rpc
	all     []*erpc.Session
	ran     map[uint64]int  // handlers run by number of the request
	served  []int           // by loop
	left    map[uint64]bool // requests that have not ended
	failed  map[uint64]*erpc.Session
	tick    erpc.Time // per run
}

// newLoopRig makes loops and clients, with a network that steers as the kernel does.
func newLoopRig(t testing.TB, loops, clients int, cfg erpc.Config) *loopRig {
	g := &loopRig{
		memNet: newMemNet(), t: t, ran: map[uint64]int{}, served: make([]int, loops),
		left: map[uint64]bool{}, failed: map[uint64]*erpc.Session{}, tick: 1000,
	}
	g.tb = t
	cfg.Simulation.Clock = g.Now
	if cfg.Simulation.Seed == 0 {
		cfg.Simulation.Seed = 3
	}
	nexus := func(seed uint64) *erpc.Nexus {
		cfg := cfg
		cfg.Simulation.Seed += seed
		n, err := erpc.NewNexus(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := nexus(0)
	is(t, "register", n.Register(1, erpc.Dispatch, g.handle), nil)
	var trs []transport.Transport
	for i := range loops {
		e := g.end(true)
		if i > 0 {
			e.addr = g.ends[0].addr
		}
		g.ends, trs, g.order = append(g.ends, e), append(trs, e), append(g.order, i)
	}
	var err error
	if g.loops, err = n.NewRpcs(trs); err != nil {
		t.Fatal(err)
	}
	for i := range clients {
		r, err := nexus(uint64(1 + i)).NewRpc(g.end(true))
		if err != nil {
			t.Fatal(err)
		}
		g.clients = append(g.clients, r)
	}
	g.steer(nil)
	return g
}

// steer sets which place of the group gets a packet, instead of the one that the kernel's filter
// chooses.
func (g *loopRig) steer(place func(chosen int) int) {
	g.route = func(to int, pkt []byte) int {
		if to != 0 {
			return to
		}
		chosen := g.filter(pkt)
		if place != nil {
			chosen = place(chosen) % len(g.order)
		}
		return g.order[chosen]
	}
}

// filter chooses by the loop bits and the loop in a cookie. A packet that names no loop that runs
// goes to the first place.
func (g *loopRig) filter(pkt []byte) int {
	field, _ := wire.SessionOf(pkt)
	loop := int(wire.LoopOf(field))
	if loop == 0 && field == wire.NoSession && len(pkt) > wire.CookieLoop {
		loop = int(pkt[wire.CookieLoop])
	}
	for i, l := range g.order {
		if l == loop-1 {
			return i
		}
	}
	return 0
}

// handle answers with the request's bytes, each changed.
func (g *loopRig) handle(h erpc.ReqHandle) {
	data := h.Data()
	g.ran[binary.LittleEndian.Uint64(data)]++
	for i, r := range g.loops {
		if r == h.Rpc() {
			g.served[i]++
		}
	}
	buf, err := h.Alloc(len(data))
	is(g.t, "alloc", err, nil)
	for i, b := range data {
		buf.Data()[i] = b ^ 0xA5
	}
	is(g.t, "respond", h.Respond(buf), nil)
}

// dial opens sessions of each client.
func (g *loopRig) dial(each int) {
	g.t.Helper()
	for _, c := range g.clients {
		for range each {
			s, err := c.CreateSessionTo(g.ends[0].addr)
			is(g.t, "dial", err, nil)
			g.all = append(g.all, s)
		}
	}
	g.until(func() bool {
		for _, s := range g.all {
			if !s.Connected() && s.Err() == nil {
				return false
			}
		}
		return true
	})
}

// send sends a request of a size on a session, and checks its response.
func (g *loopRig) send(c *erpc.Rpc, s *erpc.Session, size int) {
	g.t.Helper()
	number := uint64(len(g.ran)+len(g.left)+1<<20*len(g.failed)) + uint64(len(g.all))<<32
	for g.ran[number] > 0 || g.left[number] || g.failed[number] != nil {
		number++
	}
	req, err := c.Alloc(size)
	is(g.t, "alloc", err, nil)
	for i := range req.Data() {
		req.Data()[i] = byte(i*7) + byte(number)
	}
	binary.LittleEndian.PutUint64(req.Data(), number)
	g.left[number] = true
	_, err = c.EnqueueRequest(s, erpc.Request{Type: 1, Req: req, Done: func(c erpc.Completion) {
		delete(g.left, number)
		if c.Err != nil {
			g.failed[number] = s
		} else if c.Resp.Size() != size {
			g.t.Errorf("%d bytes, want %d", c.Resp.Size(), size)
		}
		for i := 0; c.Err == nil && i < size; i++ {
			if c.Resp.Data()[i] != req.Data()[i]^0xA5 {
				g.t.Errorf("request %d: byte %d of %d is wrong", number, i, size)
				break
			}
		}
		if c.Resp != nil {
			c.Resp.Free()
		}
		req.Free()
	}})
	is(g.t, "enqueue", err, nil)
}

// run makes a pass of each loop.
func (g *loopRig) run() {
	g.now += g.tick
	for _, r := range append(append([]*erpc.Rpc(nil), g.clients...), g.loops...) {
		if r != nil {
			if _, err := r.RunOnce(); err != nil {
				g.t.Helper()
				g.t.Fatal(err)
			}
		}
	}
}

// until runs until cond holds, at most for 30 s of virtual time.
func (g *loopRig) until(cond func() bool) {
	g.t.Helper()
	begun, tick := g.now, g.tick
	for ; !cond(); g.run() {
		if g.now > begun+30e9 {
			g.t.Fatal("it never happened")
		}
		g.tick = max(tick, (g.now-begun)/1000) // a long wait need not be watched closely
	}
	g.tick = tick
}

// brief has the counters of sum.
func brief(s erpc.Stats) string {
	return fmt.Sprintf("over %d, in %d, full %d, no loop %d, no session %d, token %d, "+
		"opened %d, open %d, bundled %d", s.HandedOver, s.HandedIn, s.DropHandover,
		s.DropNoLoop, s.DropNoSession, s.DropToken, s.SessionsOpened, s.Sessions, s.RxBundled)
}

// traffic sends rounds of requests on all open sessions, and waits for the outcomes.
func (g *loopRig) traffic(rounds int) {
	g.t.Helper()
	for round := range rounds {
		for i, s := range g.all {
			if s.Connected() {
				g.send(g.clients[g.clientOf(s)], s, 8+(round*977+i*331)%6000)
			}
		}
		for range 3 {
			g.run()
		}
	}
	g.until(func() bool { return len(g.left) == 0 })
}

// clientOf returns which client has a session.
func (g *loopRig) clientOf(s *erpc.Session) int {
	for i, c := range g.clients {
		if c.Owns(s) {
			return i
		}
	}
	g.t.Fatal("a session of nobody")
	return 0
}

// sum adds what the loops counted.
func (g *loopRig) sum() (s erpc.Stats) {
	for _, r := range g.loops {
		if r == nil {
			continue
		}
		x := r.Counters()
		s.HandedOver += x.HandedOver
		s.HandedIn += x.HandedIn
		s.DropHandover += x.DropHandover
		s.DropNoLoop += x.DropNoLoop
		s.DropNoSession += x.DropNoSession
		s.DropToken += x.DropToken
		s.SessionsOpened += x.SessionsOpened
		s.RxBundled += x.RxBundled
		s.Sessions += r.Sessions()
	}
	return s
}

// close closes all and wants nothing left.
func (g *loopRig) close() {
	g.t.Helper()
	for _, r := range append(append([]*erpc.Rpc(nil), g.clients...), g.loops...) {
		if r != nil {
			is(g.t, "close", r.Close(), nil)
		}
	}
}

// once checks that each request ran exactly once, or that it failed and ran once at most.
func (g *loopRig) once() {
	g.t.Helper()
	for number, n := range g.ran {
		if n != 1 {
			g.t.Errorf("request %d ran %d times", number, n)
		}
	}
}
