package node_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/udp"
)

const testCluster = 0xC1

// group is a cluster in this process, on UDP, each replica in a goroutine.
type group struct {
	t     *testing.T
	nodes []*node.Node
	addrs []string
	nexus []*erpc.Nexus
	stop  atomic.Bool
	gone  atomic.Int64 // the number of one that has ended before
	ended chan error
}

// startGroup starts n replicas in memory.
func startGroup(t *testing.T, n int) *group { return startTrusting(t, n, node.Trust{}) }

// startTrusting likewise, with what they trust.
func startTrusting(t *testing.T, n int, trust node.Trust) *group {
	t.Helper()
	return startChanged(t, n, func(cfg *node.Config) { cfg.Trust = trust })
}

// startChanged likewise, with changes to their configurations.
func startChanged(t *testing.T, n int, change func(cfg *node.Config)) *group {
	t.Helper()
	g := &group{t: t, ended: make(chan error, n)}
	var conns []*udp.Conn
	members := map[uint64]string{}
	for i := range n {
		conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		g.addrs = append(g.addrs, conn.LocalAddr().String())
		members[uint64(i+1)] = g.addrs[i]
	}
	for i := range n {
		cfg := node.Config{Config: replica.Config{Cluster: testCluster, ID: uint64(i + 1)},
			Log: uint64(100 + i), Start: replica.Boot(members)}
		change(&cfg)
		x, err := erpc.NewNexus(node.ErpcConfig(erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true},
			cfg.ElectionTimeout()))
		if err != nil {
			t.Fatal(err)
		}
		nd, err := node.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := nd.Register(x); err != nil {
			t.Fatal(err)
		}
		r, err := x.NewRpc(conns[i])
		if err != nil {
			t.Fatal(err)
		}
		nd.Attach(r)
		g.nodes, g.nexus = append(g.nodes, nd), append(g.nexus, x)
	}
	for i, nd := range g.nodes {
		go func() {
			g.ended <- nd.Run(func() bool { return g.stop.Load() || g.gone.Load() == int64(i+1) })
		}()
	}
	t.Cleanup(g.close)
	return g
}

func (g *group) close() {
	g.stop.Store(true)
	for _, n := range g.nodes {
		n.Rpc().Wake()
	}
	for range g.nodes {
		if err := <-g.ended; err != nil {
			g.t.Error(err)
		}
	}
	for i, n := range g.nodes {
		if err := errors.Join(n.Rpc().Close(), g.nexus[i].Close()); err != nil {
			g.t.Error(err)
		}
	}
}

func (g *group) dial() *client.Blocking {
	g.t.Helper()
	return g.dialWith(client.Config{Servers: g.addrs})
}

func (g *group) dialWith(cfg client.Config) *client.Blocking {
	g.t.Helper()
	cfg.Cluster = testCluster
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		g.t.Fatal(err)
	}
	c, err := client.Dial(conn, cfg, erpc.Config{Wait: erpc.WaitSleep, NoHugepages: true})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// TestThree: three replicas on UDP replicate writes, and reads see them.
func TestThree(t *testing.T) {
	g := startGroup(t, 3)
	c, ctx := g.dial(), testContext(t)
	for i := range 100 {
		if err := c.Put(ctx, fmt.Sprint("key", i%10), []byte(fmt.Sprint("value", i))); err != nil {
			t.Fatal(err)
		}
	}
	v, found, err := c.Get(ctx, "key9")
	if err != nil || !found || string(v) != "value99" {
		t.Fatalf("%q %v %v", v, found, err)
	}
	swapped, now, err := c.CAS(ctx, "key9", []byte("value98"), []byte("x"))
	if err != nil || swapped || string(now) != "value99" {
		t.Errorf("%v %q %v", swapped, now, err)
	}
	if swapped, _, err = c.CAS(ctx, "key9", []byte("value99"), []byte("x")); err != nil || !swapped {
		t.Errorf("%v %v", swapped, err)
	}
	if swapped, _, err = c.CAS(ctx, "new", nil, []byte("y")); err != nil || !swapped {
		t.Errorf("%v %v", swapped, err)
	}
	if found, err = c.Delete(ctx, "key9"); err != nil || !found {
		t.Errorf("%v %v", found, err)
	}
	if _, found, err = c.Get(ctx, "key9"); err != nil || found {
		t.Errorf("%v %v", found, err)
	}
	if err := c.Put(ctx, "12345678901234567", nil); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("long key: %v", err)
	}
}

// TestBadPeers: messages of no member, another cluster or another log are refused by name, and the
// cluster goes on. A replica that knows a sender's log takes no other from it: one that lost its
// log could vote twice. From an address that is no member's nothing is taken at all.
func TestBadPeers(t *testing.T) {
	for _, trust := range []node.Trust{{Anywhere: true}, {}} {
		t.Run(trust.String(), func(t *testing.T) { badPeers(t, trust) })
	}
}

func badPeers(t *testing.T, trust node.Trust) {
	g := startTrusting(t, 3, trust)
	ctx := testContext(t)
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := erpc.Dial(ctx, conn, g.addrs[0], erpc.Config{NoHugepages: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const taken, wrongCluster, wrongReplica, foreignLog, malformed, stranger = 0, 1, 2, 3, 4, 6
	message := func(cluster, from, to, log uint64, body string) []byte {
		var b []byte
		for _, v := range []uint64{0, cluster, from, to, log} {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return append(b, body...)
	}
	for i, m := range []struct {
		b    []byte
		want uint64
	}{
		{message(testCluster, 2, 1, 101, ""), taken}, // replica 2's own log
		{message(testCluster, 2, 1, 999, ""), foreignLog},
		{message(testCluster+1, 2, 1, 101, ""), wrongCluster},
		{message(testCluster, 2, 3, 101, ""), wrongReplica},
		{message(testCluster, 1, 1, 100, ""), wrongReplica}, // from itself
		{message(testCluster, 0, 1, 101, ""), wrongReplica},
		{message(testCluster, 2, 1, 101, "no message"), malformed},
		{[]byte("short"), malformed},
		{message(testCluster, 2, 1, 101, ""), taken},
	} {
		named := m.want == wrongCluster || m.want == wrongReplica || len(m.b) < 40
		if !trust.Anywhere && !named {
			m.want = stranger
		}
		resp, err := c.Call(ctx, node.TypeRaft, m.b)
		if err != nil || len(resp) < 8 || binary.LittleEndian.Uint64(resp) != m.want {
			t.Errorf("message %d: %x, %v, want verdict %d", i, resp, err, m.want)
		}
	}
	if err := g.dial().Put(ctx, "k", []byte("v")); err != nil {
		t.Error(err)
	}
}

// TestResolver: a client that knows no server, or only one that does not answer, asks its
// resolver, learns the members from the cluster, and tells its program.
func TestResolver(t *testing.T) {
	g := startGroup(t, 3)
	dead, err := udp.Listen("127.0.0.1:0", udp.Config{}) // takes packets and answers none
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	for _, servers := range [][]string{nil, {dead.LocalAddr().String()}} {
		told := make(chan []string, 10)
		asked := 0
		c := g.dialWith(client.Config{Servers: servers, Attempt: 100 * time.Millisecond,
			Members: func(a []string) { told <- a },
			Resolver: func(context.Context) ([]string, error) {
				if asked++; asked == 1 {
					return nil, errors.New("no such name")
				}
				return g.addrs[:1], nil
			}})
		ctx := testContext(t)
		if err := c.Put(ctx, "k", []byte("v")); err != nil {
			t.Fatal(err)
		}
		if got := <-told; !slices.Equal(got, g.addrs) {
			t.Errorf("the members are %v, want %v", got, g.addrs)
		}
		if got, err := c.Members(ctx); err != nil || !slices.Equal(got, g.addrs) {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// FuzzMembers: a list that is taken is appended as it was.
func FuzzMembers(f *testing.F) {
	f.Add((&node.Members{Cluster: 1, Index: 2, Addrs: []string{"10.0.0.1:31850", "b"}}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := node.ParseMembers(b)
		if err == nil && !bytes.Equal(m.Append(nil), b) {
			t.Errorf("%x is appended as %x", b, m.Append(nil))
		}
	})
}
