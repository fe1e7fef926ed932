package erpc_test

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// hogRig is a server and clients, each on a host of its own. Client 0 is the hog, the others are
// its victims.
type hogRig struct {
	blocked atomic.Int32 // requests of cBlock that handlers have had
	tb      testing.TB
	net     *memNet
	server  *erpc.Rpc
	clients []*erpc.Rpc
	to      *memEnd
	stop    chan struct{} // ends handlers that block
}

const victims = 10

// Request types of a hogRig.
const (
	cEcho  = 1 // in the background
	cBlock = 2 // in the background, until the end
	cLarge = 3 // answers with a megabyte
	cPlain = 4 // in the loop
)

// newHogRig makes a rig whose server has the handlers that more registers, too. Its clients, as
// those of releases before, do not acknowledge large responses: the server keeps them.
func newHogRig(tb testing.TB, cfg erpc.Config, more ...func(*erpc.Nexus)) *hogRig {
	tb.Helper()
	c := &hogRig{tb: tb, net: newMemNet(), stop: make(chan struct{})}
	c.net.tb = tb
	cfg.Simulation.Clock = c.net.Now
	cfg.Simulation.Seed = 3
	cfg.NoBundles = true
	open := func(cfg erpc.Config, host int, register bool) (*erpc.Rpc, *memEnd) {
		n, err := erpc.NewNexus(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		if register {
			c.register(n)
			for _, f := range more {
				f(n)
			}
		}
		end := c.net.end(true)
		end.addr.IP[7] = byte(host)
		r, err := n.NewRpc(end)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = n.Close() })
		return r, end
	}
	c.server, c.to = open(cfg, 200, true)
	c.to.memFaults = &memFaults{lose: func(pkt []byte) bool {
		return wire.Type(pkt[0]&0xF) == wire.TypeAck
	}}
	cfg.MemoryLimit, cfg.MaxSessions = 0, 0
	for host := range 1 + victims {
		r, _ := open(cfg, host, false)
		c.clients = append(c.clients, r)
	}
	return c
}

func (c *hogRig) register(n *erpc.Nexus) {
	echo := func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	for typ, f := range map[uint8]erpc.Handler{
		cEcho: echo, cPlain: echo,
		cBlock: func(h erpc.ReqHandle) {
			c.blocked.Add(1)
			<-c.stop
			_ = h.RespondBytes(nil)
		},
		cLarge: func(h erpc.ReqHandle) { _ = h.RespondBytes(make([]byte, 1<<20)) },
	} {
		mode := erpc.Background
		if typ >= cLarge {
			mode = erpc.Dispatch
		}
		if err := n.Register(typ, mode, f); err != nil {
			c.tb.Fatal(err)
		}
	}
}

// until runs all loops until cond holds. Handlers run in goroutines, so that steps are not
// counted; virtual time passes slowly, and no timer ends anything.
func (c *hogRig) until(cond func() bool) {
	c.tb.Helper()
	for !cond() {
		c.net.now += 1000
		for _, r := range append(c.clients, c.server) {
			if _, err := r.RunOnce(); err != nil {
				c.tb.Fatal(err)
			}
		}
		runtime.Gosched()
	}
}

// open opens n sessions of a client and returns those that the server took.
func (c *hogRig) open(client, n int) (open []*erpc.Session) {
	c.tb.Helper()
	var all []*erpc.Session
	for range n {
		s, err := c.clients[client].CreateSessionTo(c.to.addr)
		if err != nil {
			c.tb.Fatal(err)
		}
		all = append(all, s)
	}
	c.until(func() bool {
		for _, s := range all {
			if !s.Connected() && s.Err() == nil {
				return false
			}
		}
		return true
	})
	for _, s := range all {
		if s.Connected() {
			open = append(open, s)
		} else if !errors.Is(s.Err(), erpc.ErrRefused) {
			c.tb.Errorf("a session ended with %v", s.Err())
		}
	}
	return open
}

// outcomes counts how calls of a client ended.
type outcomes struct{ open, ok, exhausted, notRun int }

// call starts n calls of a type with size bytes in each of some sessions.
func (c *hogRig) call(client int, in []*erpc.Session, typ uint8, size, n int, o *outcomes) {
	c.tb.Helper()
	r := c.clients[client]
	for _, s := range in {
		for range n {
			req, err := r.Alloc(size)
			if err != nil {
				c.tb.Fatal(err)
			}
			o.open++
			if _, err = r.EnqueueRequest(s, erpc.Request{Type: typ, Req: req, Done: func(d erpc.Completion) {
				o.open--
				d.Req.Free()
				if d.Resp != nil {
					d.Resp.Free()
				}
				switch {
				case d.Err == nil:
					o.ok++
				case errors.Is(d.Err, erpc.ErrExhausted):
					o.exhausted++
					if errors.Is(d.Err, erpc.ErrNotRun) {
						o.notRun++
					}
				case !errors.Is(d.Err, erpc.ErrClosed):
					c.tb.Errorf("a call of client %d: %v", client, d.Err)
				}
			}}); err != nil {
				c.tb.Fatal(err)
			}
		}
	}
}

// serveVictims lets every victim make calls, eight at a time, and wants all of them answered.
func (c *hogRig) serveVictims(typ uint8, size, n int) {
	c.tb.Helper()
	var all [1 + victims]outcomes
	for v := 1; v <= victims; v++ {
		in := c.open(v, 1)
		if len(in) != 1 {
			c.tb.Fatalf("victim %d has %d sessions", v, len(in))
		}
		c.call(v, in, typ, size, n, &all[v])
	}
	c.until(func() bool {
		for v := range all {
			if all[v].open > 0 {
				return false
			}
		}
		return true
	})
	for v := 1; v <= victims; v++ {
		if all[v].ok != n {
			c.tb.Errorf("victim %d: %+v", v, all[v])
		}
	}
}

// end closes all. Nothing is left.
func (c *hogRig) end() {
	c.tb.Helper()
	close(c.stop)
	c.until(func() bool { return c.server.Running() == 0 })
	for _, r := range append(c.clients, c.server) {
		if err := r.Close(); err != nil {
			c.tb.Error(err)
		}
	}
}

// TestHogOfSessions: beside an address that has taken all sessions that it can, others open theirs.
func TestHogOfSessions(t *testing.T) {
	c := newHogRig(t, erpc.Config{MaxSessions: 200})
	if n := len(c.open(0, 300)); n != 150 {
		t.Errorf("the hog has %d sessions", n)
	}
	c.serveVictims(cPlain, 32, 20)
	c.until(func() bool { return c.server.Stats().SessionsOverShare >= 150 })
	c.end()
}

// TestHogOfHandlers: beside an address whose handlers block, in as many requests as it can have,
// others are served.
func TestHogOfHandlers(t *testing.T) {
	c := newHogRig(t, erpc.Config{Workers: 8, MaxBackground: 400})
	var hog outcomes
	c.call(0, c.open(0, 100), cBlock, 3000, 8, &hog)
	c.until(func() bool { return hog.exhausted == 500 })
	c.serveVictims(cEcho, 32, 20)
	c.serveVictims(cPlain, 32, 20)
	c.until(func() bool { return c.server.Stats().WorkOverShare == 500 })
	if hog.ok != 0 || hog.exhausted != 500 {
		t.Errorf("the hog: %+v", hog)
	}
	if _, n := c.server.Accounted(); n < 300*3000 {
		t.Errorf("the requests at work count as %d bytes", n)
	}
	close(c.stop)
	c.until(func() bool { return hog.open == 0 })
	if _, n := c.server.Accounted(); n != 0 {
		t.Errorf("without requests at work %d bytes count", n)
	}
	c.stop = make(chan struct{})
	c.end()
}

// TestHogOfMemory: beside an address that has the server keep as much as it can, others get
// buffers for large requests and responses.
func TestHogOfMemory(t *testing.T) {
	const limit = 160 << 20
	c := newHogRig(t, erpc.Config{MemoryLimit: limit, MaxMessage: 1 << 20})
	var hog outcomes
	c.call(0, c.open(0, 30), cLarge, 32, 8, &hog)
	c.until(func() bool { return hog.open == 0 })
	if hog.exhausted == 0 || hog.ok < limit/4>>20 {
		t.Errorf("the hog: %+v", hog)
	}
	if got := c.server.Stats().Memory; got > limit*7/8 {
		t.Errorf("the hog has %d of %d bytes", got, limit)
	}
	c.serveVictims(cPlain, 300_000, 2)
	c.serveVictims(cEcho, 300_000, 2)
	for _, r := range c.clients {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	c.clients = nil
	c.until(func() bool { return c.server.Sessions() == 0 })
	if all, address := c.server.Accounted(); all != 0 || address != 0 {
		t.Errorf("at the end %d bytes count, and of addresses %d", all, address)
	}
	c.end()
}

// TestMemoryIsNotShared: without shares one address can have the last quarter of the memory.
func TestMemoryIsNotShared(t *testing.T) {
	const limit = 48 << 20
	for _, off := range []bool{false, true} {
		c := newHogRig(t, erpc.Config{MemoryLimit: limit, MaxMessage: 1 << 20,
			Shares: erpc.Shares{Off: off}})
		var hog outcomes
		c.call(0, c.open(0, 10), cLarge, 32, 8, &hog)
		c.until(func() bool { return hog.open == 0 })
		got, _ := c.server.Accounted()
		if more := got > limit*3/4; hog.exhausted == 0 || more != off {
			t.Errorf("shares off: %v; one address has %d of %d bytes", off, got, limit)
		}
		c.end()
	}
}

// TestHogCancelled: requests whose clients have gone are still at work, until their handlers end.
// Those behind them, which would not run any more, count as long as no worker can look at them.
func TestHogCancelled(t *testing.T) {
	const share = 3 // of the workers, for one address
	c := newHogRig(t, erpc.Config{Workers: 4, MaxBackground: 400})
	for i := range 5 {
		wantRefused := 320
		if i == 0 {
			wantRefused = 20
		}
		var hog outcomes
		in := c.open(0, 40)
		c.call(0, in, cBlock, 32, 8, &hog)
		c.until(func() bool { return hog.exhausted == wantRefused && c.blocked.Load() == share })
		for _, s := range in {
			if err := c.clients[0].CloseSession(s); err != nil {
				t.Fatal(err)
			}
		}
		c.until(func() bool { return c.server.Sessions() == 0 })
		if n := c.server.Running(); n != 300 {
			t.Errorf("%d requests of the hog are at work", n)
		}
	}
	c.serveVictims(cEcho, 32, 20)
	c.end()
}
