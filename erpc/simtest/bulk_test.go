package simtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
	"github.com/userspace-rpc/erpc/wire"
	"go.uber.org/goleak"
)

// TestLargeMessages: 8 MiB, the default limit, and 16 MiB, both ways.
func TestLargeMessages(t *testing.T) {
	for _, size := range []int{8 << 20, 16 << 20} {
		c, _, _ := pair(t, sim.Config{LinkBitsPerSec: 25e9}, erpc.Config{MaxMessage: size})
		there, back := echo(c), echo(c)
		there.reqSize, back.respSize = size, size
		c.must(10*time.Second, there, back)
		want(t, nil, there, back)
		if st := c.nodes[0].rpc.Stats().Protocol; st.Retransmits != 0 {
			t.Errorf("%d MiB: %d packets sent again without loss", size>>20, st.Retransmits)
		}
		c.closeAll()
	}
}

// TestLargeMessageUnderLoss: go-back-N brings it over all the same.
func TestLargeMessageUnderLoss(t *testing.T) {
	c, _, _ := pair(t, sim.Config{LinkBitsPerSec: 25e9,
		Faults: sim.Faults{Loss: 0.01, Corrupt: 0.01, Duplicate: 0.01}}, erpc.Config{})
	k := echo(c)
	k.reqSize, k.respSize, k.typ = 1<<20, 1<<20, typeBackground
	c.must(time.Minute, k)
	want(t, nil, k)
	c.closeAll()
}

// TestTooManyPackets: request and response together take more packets than packet
// numbers can count. The call fails with a name, the session lives on.
func TestTooManyPackets(t *testing.T) {
	const size = 40 << 20 // 40961 packets of 1024 bytes each way
	c, _, _ := pair(t, sim.Config{MTU: 1048}, erpc.Config{MaxMessage: size})
	k := echo(c)
	k.reqSize, k.respSize = size, size
	k.respMax = 10 // so that ErrTooLarge is an error that the call may have
	c.must(10*time.Second, k)
	want(t, erpc.ErrTooLarge, k)
	k = echo(c)
	c.must(time.Second, k)
	want(t, nil, k)
	c.closeAll()
}

// TestChain: each continuation starts the next RPC.
func TestChain(t *testing.T) {
	c, _, _ := pair(t, sim.Config{}, erpc.Config{})
	left := 1000
	var next func(k *call)
	next = func(k *call) {
		want(t, nil, k)
		if left--; left > 0 {
			k := echo(c)
			k.respSize = left * 7
			k.then = next
			if err := c.issue(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	k := echo(c)
	k.then = next
	c.must(time.Second, k)
	if left != 0 {
		t.Errorf("%d RPCs of the chain were not made", left)
	}
	c.closeAll()
}

// TestManySessions: 20,000 sessions on one endpoint, one RPC each.
func TestManySessions(t *testing.T) {
	count := 20_000
	if testing.Short() || invariants.Enabled {
		count = 2000
	}
	const clients = 4
	c := newCluster(t, sim.Config{PropDelay: 5000, RxRing: 1 << 16, Trace: tracer(t)})
	cfg := erpc.Config{Checksum: true, Slots: 2, Credits: 4}
	for range clients + 1 {
		c.add(cfg, sim.EndpointConfig{})
	}
	server := c.nodes[clients]
	var all []*erpc.Session
	for i := range count {
		client := c.nodes[i%clients]
		delete(client.sessions, clients)
		k := echo(c)
		k.from, k.to = client, clients
		if err := c.issue(k); err != nil {
			t.Fatal(err)
		}
		all = append(all, client.sessions[clients])
	}
	c.must(30 * time.Second)
	want(t, nil, c.calls...)
	if server.rpc.Sessions() != count {
		t.Errorf("%d sessions at the server", server.rpc.Sessions())
	}
	c.run(5 * time.Second) // heartbeats of all of them
	for i, s := range all {
		k := echo(c)
		k.from, k.to = c.nodes[i%clients], clients
		if err := c.issueOn(s, k); err != nil {
			t.Fatal(err)
		}
	}
	c.must(time.Second)
	want(t, nil, c.calls...)
	c.closeAll()
}

// ceSpy counts CE marks of packets received, and the echoes of them.
type ceSpy struct {
	transport.Transport
	marked, echoed *int
}

func (s ceSpy) RxBurst(pkts []transport.RxPacket) (int, error) {
	n, err := s.Transport.RxBurst(pkts)
	for i := range pkts[:n] {
		if pkts[i].CE {
			*s.marked++
		}
		*s.echoed += echoes(pkts[i].Data)
	}
	return n, err
}

// echoes counts the packets in a datagram that echo a CE mark.
func echoes(p []byte) (n int) {
	var h wire.Header
	var b wire.Bundle
	if b.Parse(p) != nil {
		if h.Parse(p) == nil && h.Type != wire.TypeMgmt && h.Flags&wire.FlagCE != 0 {
			n++
		}
		return n
	}
	for {
		if _, ok := b.Next(&h); !ok {
			return n
		}
		if h.Flags&wire.FlagCE != 0 {
			n++
		}
	}
}

// TestCE: the server echoes each mark of a client's packet, and no other.
func TestCE(t *testing.T) {
	for _, kmax := range []int{0, 3000} {
		c := newCluster(t, sim.Config{PropDelay: 1000, LinkBitsPerSec: 10e9, Trace: tracer(t),
			Checksum: true,
			ECN:      sim.ECN{Kmin: kmax, Kmax: kmax, Pmax: 1}})
		var marked, echoed, m, e int
		cfg := erpc.Config{Credits: 64}
		c.wrap = func(tr transport.Transport) transport.Transport { return ceSpy{tr, &m, &echoed} }
		c.add(cfg, sim.EndpointConfig{})
		c.add(cfg, sim.EndpointConfig{})
		c.wrap = func(tr transport.Transport) transport.Transport { return ceSpy{tr, &marked, &e} }
		server := c.add(cfg, sim.EndpointConfig{})
		for _, from := range c.nodes[:2] { // two senders, one link
			k := echo(c)
			k.from, k.to, k.reqSize, k.respSize = from, server.id, 1<<20, 100
			if err := c.issue(k); err != nil {
				t.Fatal(err)
			}
		}
		c.must(time.Second)
		want(t, nil, c.calls...)
		if (marked > 0) != (kmax > 0) || marked != echoed {
			t.Errorf("kmax %d: %d packets marked, %d echoes", kmax, marked, echoed)
		}
		c.closeAll()
	}
}

// TestCloseInTraffic: every RPC under way ends, at both sides, whatever its
// continuation does then.
func TestCloseInTraffic(t *testing.T) {
	for after := range 40 {
		for side := range 2 {
			c, client, _ := pair(t, sim.Config{Seed: uint64(after), Faults: sim.Faults{Loss: 0.05}},
				erpc.Config{})
			c.must(time.Second, echo(c))
			for _, k := range several(c, 40) {
				k.then = func(k *call) {
					if k.err != nil && !client.down || len(c.calls) < 200 {
						k := echo(c)
						k.typ = typeEcho
						_ = c.issue(k) // once more, on a new session if need be
					}
				}
				if err := c.issue(k); err != nil {
					t.Fatal(err)
				}
			}
			c.run(time.Duration(after) * 5 * time.Microsecond)
			c.nodes[side].close()
			if side == 0 {
				if c.pending != 0 {
					t.Errorf("%d RPCs have not ended when Close returned", c.pending)
				}
			} else if !c.settle(8*time.Second) && c.pending > 0 {
				t.Errorf("%d RPCs have not ended", c.pending)
			}
			c.closeAll()
			if t.Failed() {
				t.Fatalf("closing node %d after %d steps", side, after)
			}
		}
	}
}

// TestCallAfterClose: a closed endpoint says so.
func TestCallAfterClose(t *testing.T) {
	c, client, _ := pair(t, sim.Config{}, erpc.Config{})
	c.must(time.Second, echo(c))
	s := client.sessions[1]
	client.close()
	for name, err := range map[string]error{
		"EnqueueRequest": c.issueOn(s, echo(c)), "Post": client.rpc.Post(func(*erpc.Rpc) {}),
		"Cancel":          client.rpc.Cancel(1),
		"CloseSession":    client.rpc.CloseSession(s),
		"CreateSessionTo": second(client.rpc.CreateSessionTo(s.Peer())),
		"RunOnce":         second(client.rpc.RunOnce()), "Alloc": second(client.rpc.Alloc(1)),
		"Refuse": client.rpc.Refuse(),
	} {
		if !errors.Is(err, erpc.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := client.rpc.Close(); err != nil {
		t.Error(err)
	}
	c.closeAll()
}

func second[T any](_ T, err error) error { return err }

// TestMemoryReturns: what large messages took is not kept for ever, and many runs
// leave nothing behind.
func TestMemoryReturns(t *testing.T) {
	notRaced(t)
	c, client, server := pair(t, sim.Config{LinkBitsPerSec: 25e9}, erpc.Config{Slots: 8})
	k := echo(c)
	c.must(time.Second, k)
	run := func(n int) {
		for range n {
			var calls []*call
			for range 8 {
				k := echo(c)
				k.reqSize, k.respSize = 300_000, 300_000
				calls = append(calls, k)
			}
			c.must(time.Second, calls...)
			want(t, nil, calls...)
		}
	}
	run(3)
	before := []int64{client.rpc.Stats().Memory, server.rpc.Stats().Memory}
	running := goleak.IgnoreCurrent()
	run(30)
	after := []int64{client.rpc.Stats().Memory, server.rpc.Stats().Memory}
	if !slices.Equal(before, after) {
		t.Errorf("memory of client and server was %d, is %d", before, after)
	}
	if err := goleak.Find(running); err != nil {
		t.Error(err)
	}
	c.closeAll()
}
