package simtest

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// several makes n calls of every kind from node 0 to node 1, some large.
func several(c *cluster, n int) (calls []*call) {
	for i := range n {
		k := echo(c)
		k.typ = []uint8{typeEcho, typeBackground, typeLate}[i%3]
		if i%4 == 0 {
			k.reqSize, k.respSize = 20_000, 30_000
		}
		calls = append(calls, k)
	}
	return calls
}

func (c *cluster) issueAll(calls []*call) {
	c.t.Helper()
	for _, k := range calls {
		if err := c.issue(k); err != nil {
			c.t.Fatal(err)
		}
	}
}

// TestServerRestart: a new process at the old address.
func TestServerRestart(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	c.must(time.Second, echo(c))
	server.crash()
	calls := several(c, 30) // more than slots
	c.issueAll(calls)
	c.run(20 * time.Millisecond)
	server.start()
	at := c.net.Now()
	c.must(time.Second)
	want(t, erpc.ErrPeerRestarted, calls...)
	if d := c.net.Now().Sub(at); d > 250*time.Millisecond {
		t.Errorf("the restart was noticed after %v", d)
	}
	if ev := client.events; len(ev) != 2 || ev[1] != erpc.SessionRestarted {
		t.Errorf("events %v", ev)
	}
	k := echo(c)
	c.must(time.Second, k)
	want(t, nil, k)
	c.closeAll()
}

// TestIdleServerRestart: without requests the heartbeat notices.
func TestIdleServerRestart(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	c.must(time.Second, echo(c))
	server.crash()
	server.start()
	c.run(2 * time.Second)
	if ev := client.events; len(ev) != 2 || ev[1] != erpc.SessionRestarted {
		t.Errorf("events %v", ev)
	}
	c.closeAll()
}

// TestClientRestart: the server drops the sessions of the process that was.
func TestClientRestart(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	for range 10 {
		c.must(time.Second, echo(c))
		delete(client.sessions, 1)
	}
	if server.rpc.Sessions() != 10 {
		t.Fatalf("%d sessions", server.rpc.Sessions())
	}
	client.crash()
	client.start()
	k := echo(c)
	c.must(time.Second, k)
	c.run(20 * time.Millisecond) // sweeps have a least interval
	want(t, nil, k)
	if server.rpc.Sessions() != 1 {
		t.Errorf("%d sessions at the server, want that of the new process", server.rpc.Sessions())
	}
	c.closeAll()
}

// TestClientGone: a client that never comes back.
func TestClientGone(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	c.must(time.Second, echo(c))
	client.crash()
	c.run(6 * time.Second)
	if server.rpc.Sessions() != 0 || server.events[len(server.events)-1] != erpc.SessionLost {
		t.Errorf("%d sessions, events %v", server.rpc.Sessions(), server.events)
	}
	c.closeAll()
}

// TestServerCrash: each pending RPC ends in time, whatever it waits for.
func TestServerCrash(t *testing.T) {
	const failure = 3 * time.Second // the default
	for _, busy := range []bool{true, false} {
		c, client, server := pair(t, sim.Config{}, erpc.Config{})
		c.must(time.Second, echo(c))
		calls := several(c, 30)
		if busy {
			c.issueAll(calls)
			c.net.RunWhile(func() bool { return server.rpc.Running() == 0 }, c.net.Now()+1e9)
		}
		server.crash()
		at := c.net.Now()
		if !busy {
			c.issueAll(calls)
		}
		c.must(failure + 2*time.Second)
		for _, k := range calls {
			if k.endedAt >= at.Add(failure/2) {
				want(t, erpc.ErrPeerLost, k)
			}
		}
		if d := c.net.Now().Sub(at); d < failure || d > failure+1250*time.Millisecond {
			t.Errorf("given up after %v, FailureTimeout is %v", d, failure)
		}
		if ev := client.events; ev[len(ev)-1] != erpc.SessionLost {
			t.Errorf("events %v", ev)
		}
		c.closeAll()
	}
}

// TestServerPause: a server that stops for less than FailureTimeout loses nothing.
func TestServerPause(t *testing.T) {
	c, client, server := pair(t, sim.Config{},
		erpc.Config{Timing: erpc.Timing{FailureTimeout: 30 * time.Second}})
	c.must(time.Second, echo(c))
	calls := several(c, 30)
	c.issueAll(calls)
	c.run(15 * time.Microsecond)
	server.ep.Pause()
	c.run(10 * time.Second)
	server.ep.Resume()
	c.must(2 * time.Second)
	want(t, nil, calls...)
	if len(client.events) != 1 {
		t.Errorf("events %v", client.events)
	}
	c.closeAll()
}

// TestServerPauseTooLong: it counts as lost, and can be called again later.
func TestServerPauseTooLong(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	c.must(time.Second, echo(c))
	calls := several(c, 30)
	server.ep.Pause()
	c.issueAll(calls)
	c.must(5 * time.Second)
	want(t, erpc.ErrPeerLost, calls...)
	server.ep.Resume()
	c.run(time.Second)
	k := echo(c)
	c.must(time.Second, k)
	want(t, nil, k)
	if ev := client.events; len(ev) != 3 || ev[1] != erpc.SessionLost ||
		ev[2] != erpc.SessionConnected {
		t.Errorf("events %v", ev)
	}
	c.run(6 * time.Second)
	if server.rpc.Sessions() != 1 {
		t.Errorf("the server has %d sessions, want the new one", server.rpc.Sessions())
	}
	c.closeAll()
}

// TestDisconnectLost: the Disconnect is repeated, and the session's end does not
// depend on its answer.
func TestDisconnectLost(t *testing.T) {
	for _, loss := range []float64{0.5, 1} {
		c, client, server := pair(t, sim.Config{Seed: 3}, erpc.Config{})
		for range 20 {
			c.must(time.Second, echo(c))
			s := client.sessions[1]
			if err := c.net.SetFaults(sim.Faults{Loss: loss}); err != nil {
				t.Fatal(err)
			}
			if err := client.rpc.CloseSession(s); err != nil {
				t.Fatal(err)
			}
			client.ep.Wake()
			c.run(400 * time.Millisecond) // DisconnectLinger is 200 ms
			if n := client.rpc.Sessions(); n != 0 {
				t.Errorf("loss %v: %d sessions at the client", loss, n)
			}
			if n := server.rpc.Sessions(); loss < 1 && n != 0 {
				t.Errorf("loss %v: %d sessions at the server", loss, n)
			}
			if err := c.net.SetFaults(sim.Faults{}); err != nil {
				t.Fatal(err)
			}
		}
		c.run(5 * time.Second) // the server asks, and learns that the sessions are gone
		if n := server.rpc.Sessions(); n != 0 {
			t.Errorf("loss %v: %d sessions at the server", loss, n)
		}
		c.closeAll()
	}
}

// TestOwnPause: a client that was itself stopped does not take its own silence for
// the server's, idle or at work.
func TestOwnPause(t *testing.T) {
	for _, busy := range []bool{false, true} {
		c := newCluster(t, sim.Config{PropDelay: 5000, Trace: tracer(t)})
		client := c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
		c.add(erpc.Config{Checksum: true,
			Timing: erpc.Timing{FailureTimeout: time.Hour, Heartbeat: time.Hour}}, sim.EndpointConfig{})
		c.must(time.Second, echo(c))
		calls := several(c, 30)
		for range 5 {
			if busy {
				c.issueAll(calls)
			}
			c.run(12 * time.Microsecond)
			client.ep.Pause()
			c.run(time.Minute)
			client.ep.Resume()
			c.must(time.Second)
			if busy {
				want(t, nil, calls...)
			}
			calls = several(c, 30)
		}
		if len(client.events) != 1 {
			t.Errorf("events %v", client.events)
		}
		c.closeAll()
	}
}

// TestIdle: heartbeats keep an idle session, at two packets each way a second.
func TestIdle(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	k := echo(c)
	c.must(time.Second, k)
	sent := c.net.Stats().Sent
	c.run(10 * time.Minute)
	perSecond := float64(c.net.Stats().Sent-sent) / 600
	if perSecond < 1 || perSecond > 5 {
		t.Errorf("%.2f packets a second", perSecond)
	}
	if client.rpc.Sessions() != 1 || server.rpc.Sessions() != 1 {
		t.Error("the session is gone")
	}
	k = echo(c)
	c.must(time.Millisecond, k)
	want(t, nil, k)
	c.closeAll()
}

// TestBothHangUp: each side hears one end of the session, at the same time too.
func TestBothHangUp(t *testing.T) {
	c := newCluster(t, sim.Config{PropDelay: 5000, Trace: tracer(t)})
	var served []*erpc.Session
	cfg := erpc.Config{Checksum: true}
	c.add(cfg, sim.EndpointConfig{})
	c.add(cfg, sim.EndpointConfig{})
	server := c.nodes[1]
	c.onServed = func(s *erpc.Session) { served = append(served, s) }
	k := echo(c)
	c.must(time.Second, k)
	if err := c.nodes[0].rpc.CloseSession(c.nodes[0].sessions[1]); err != nil {
		t.Error(err)
	}
	if err := server.rpc.CloseSession(served[0]); err != nil {
		t.Error(err)
	}
	c.nodes[0].ep.Wake()
	server.ep.Wake()
	c.run(time.Second)
	for _, n := range c.nodes {
		if len(n.events) != 2 || n.events[1] != erpc.SessionClosed || n.rpc.Sessions() != 0 {
			t.Errorf("node %d: events %v, %d sessions", n.id, n.events, n.rpc.Sessions())
		}
	}
	c.closeAll()
}
