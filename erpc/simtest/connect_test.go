package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// pair makes a cluster of a client, node 0, and a server, node 1.
func pair(t *testing.T, net sim.Config, cfg erpc.Config) (c *cluster, client, server *node) {
	t.Helper()
	if net.PropDelay == 0 {
		net.PropDelay = 5000
	}
	net.Trace = tracer(t)
	cfg.Checksum = true
	c = newCluster(t, net)
	return c, c.add(cfg, sim.EndpointConfig{}), c.add(cfg, sim.EndpointConfig{})
}

// echo is a small call from node 0 to node 1.
func echo(c *cluster) *call {
	return &call{from: c.nodes[0], to: 1, typ: typeEcho, reqSize: 64, respSize: 64, respMax: -1}
}

// must issues calls, and waits for their ends at most for bound.
func (c *cluster) must(bound time.Duration, calls ...*call) {
	c.t.Helper()
	for _, k := range calls {
		if err := c.issue(k); err != nil {
			c.t.Fatal(err)
		}
	}
	if !c.settle(bound) && c.pending > 0 {
		c.t.Fatalf("%d RPCs have not ended after %v: %+v", c.pending, bound, c.nodes[0].rpc.Stats())
	}
}

// want checks that the calls ended with an error that is, or with none if want is nil.
func want(t *testing.T, want error, calls ...*call) {
	t.Helper()
	for _, k := range calls {
		if k.ends != 1 || !errors.Is(k.err, want) {
			t.Errorf("request %d ended %d times with %v, want %v", k.id, k.ends, k.err, want)
		}
	}
}

// TestConnectUnderLoss: with 30 % loss each way sessions open all the same.
func TestConnectUnderLoss(t *testing.T) {
	for seed := range uint64(200) {
		c, _, _ := pair(t, sim.Config{Seed: seed, Faults: sim.Faults{Loss: 0.3}}, erpc.Config{})
		k := echo(c)
		c.must(3*time.Second, k)
		want(t, nil, k)
		c.closeAll()
	}
}

// TestConnectTimeout: nobody there.
func TestConnectTimeout(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{})
	server.crash()
	k := echo(c)
	c.must(4*time.Second, k)
	want(t, erpc.ErrConnect, k)
	if d := k.endedAt.Sub(k.issuedAt); d < 3*time.Second || d > 3500*time.Millisecond {
		t.Errorf("it took %v, ConnectTimeout is 3 s", d)
	}
	if len(client.events) != 1 || client.events[0] != erpc.SessionRefused {
		t.Errorf("events %v", client.events)
	}
	c.closeAll()
}

// TestRefused: the server has no room for the session, later it has.
func TestRefused(t *testing.T) {
	c, client, server := pair(t, sim.Config{}, erpc.Config{MaxSessions: 2})
	var held []*erpc.Session
	for range 2 {
		k := echo(c)
		c.must(time.Second, k)
		want(t, nil, k)
		held = append(held, client.sessions[1])
		delete(client.sessions, 1)
	}
	if k := echo(c); !errors.Is(c.issue(k), erpc.ErrExhausted) {
		t.Error("the client opened more sessions than MaxSessions")
	}
	other := c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
	k := echo(c)
	k.from = other
	c.must(time.Second, k)
	want(t, erpc.ErrRefused, k)
	want(t, erpc.ErrExhausted, k)
	if err := client.rpc.CloseSession(held[0]); err != nil {
		t.Error(err)
	}
	client.ep.Wake()
	c.run(time.Second)
	if server.rpc.Sessions() != 1 || client.rpc.Sessions() != 1 {
		t.Errorf("sessions: server %d, client %d; want 1", server.rpc.Sessions(), client.rpc.Sessions())
	}
	k = echo(c)
	k.from = other
	c.must(time.Second, k)
	want(t, nil, k)
	c.closeAll()
}

// TestShutdownRefuses: an endpoint that refuses ends neither sessions nor requests under way.
func TestShutdownRefuses(t *testing.T) {
	c, _, server := pair(t, sim.Config{}, erpc.Config{})
	first := echo(c)
	c.must(time.Second, first)
	late := echo(c)
	late.typ = typeLate
	if err := c.issue(late); err != nil {
		t.Fatal(err)
	}
	c.net.RunWhile(func() bool { return server.rpc.Running() == 0 }, c.net.Now()+1e9)
	c.refusing = true
	if err := server.rpc.Refuse(); err != nil {
		t.Fatal(err)
	}
	k := echo(c)
	c.must(time.Second, k)
	want(t, nil, late)
	want(t, erpc.ErrDraining, k)
	other := c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
	k = echo(c)
	k.from = other
	c.must(time.Second, k)
	want(t, erpc.ErrRefused, k)
	c.closeAll()
}

// narrow drops what is larger than the path carries, both ways.
type narrow struct {
	*sim.Endpoint
	mtu int
}

func (n narrow) RxBurst(pkts []transport.RxPacket) (int, error) {
	got, err := n.Endpoint.RxBurst(pkts)
	kept := 0
	for i := range got {
		if len(pkts[i].Data) <= n.mtu {
			pkts[kept] = pkts[i]
			kept++
		}
	}
	return kept, err
}

// TestPathMTU: a path that carries less than was offered is noticed while connecting.
func TestPathMTU(t *testing.T) {
	for _, tt := range []struct{ path, agreed int }{{8972, 8972}, {8000, 1452}, {1472, 1452},
		{1300, 1232}, {1024, 1024}} {
		t.Run(fmt.Sprint(tt.path), func(t *testing.T) {
			c := newCluster(t, sim.Config{MTU: 8972, PropDelay: 5000, Trace: tracer(t)})
			c.wrap = func(tr transport.Transport) transport.Transport {
				return narrow{tr.(*sim.Endpoint), tt.path}
			}
			c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
			c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
			k := echo(c)
			k.reqSize, k.respSize = 50_000, 70_000
			c.must(3*time.Second, k)
			want(t, nil, k)
			if p := c.nodes[0].sessions[1].Params(); p.PerPacket != tt.agreed-24 {
				t.Errorf("packets of %d bytes, want %d", p.PerPacket+24, tt.agreed)
			}
			c.closeAll()
		})
	}
}

// TestOfferedMTU: the smaller of two endpoints' limits holds.
func TestOfferedMTU(t *testing.T) {
	for _, small := range []int{0, 1} {
		c := newCluster(t, sim.Config{MTU: 8972, PropDelay: 5000, Trace: tracer(t)})
		for i := range 2 {
			cfg := erpc.Config{Checksum: true, Credits: 10 + i, Slots: 4 << i, MaxMessage: 100_000 << i}
			if i == small {
				cfg.MTU = 1300
			}
			c.add(cfg, sim.EndpointConfig{})
		}
		k := echo(c)
		k.reqSize, k.respSize = 50_000, 70_000
		c.must(3*time.Second, k)
		want(t, nil, k)
		p := c.nodes[0].sessions[1].Params()
		if p.PerPacket != 1300-24 || p.Credits != 10 || p.Slots != 4 || p.MaxMessage != 100_000 ||
			!p.Checksum {
			t.Errorf("agreed on %+v", p)
		}
		c.closeAll()
	}
}

// recorder keeps a copy of each packet sent.
type recorder struct {
	transport.Transport
	sent *[][]byte
}

func (r recorder) TxBurst(items []transport.TxItem) (int, error) {
	for i := range items {
		*r.sent = append(*r.sent, append(bytes.Clone(items[i].Head), items[i].Data...))
	}
	return r.Transport.TxBurst(items)
}

// TestLateConnect: packets of an earlier process at the client's address, its
// Connect with a good cookie above all, do not end the sessions of the present one.
func TestLateConnect(t *testing.T) {
	c := newCluster(t, sim.Config{PropDelay: 5000, Trace: tracer(t)})
	var sent [][]byte
	c.wrap = func(tr transport.Transport) transport.Transport { return recorder{tr, &sent} }
	client := c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
	c.wrap = nil
	server := c.add(erpc.Config{Checksum: true}, sim.EndpointConfig{})
	c.must(time.Second, echo(c))
	client.crash()
	client.start()
	calls := several(c, 30)
	c.must(time.Second, echo(c))
	c.issueAll(calls)
	for _, p := range sent {
		if _, err := client.ep.TxBurst([]transport.TxItem{{Dst: server.ep.LocalAddr(),
			Head: p}}); err != nil {
			t.Fatal(err)
		}
	}
	c.must(time.Second)
	want(t, nil, calls...)
	c.run(5 * time.Second)
	// connected, closed by the crash, connected
	if len(client.events) != 3 || server.rpc.Sessions() != 1 {
		t.Errorf("events %v, %d sessions at the server", client.events, server.rpc.Sessions())
	}
	c.closeAll()
}
