package simtest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/history"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

const testCluster = 77

const tick = 5 * time.Millisecond // an election timeout is 50 to 100 ms

// shape describes a cluster.
type shape struct {
	replicas    int
	durable     bool
	tick        time.Duration
	keep, every uint64        // KeepEntries, SnapshotEvery
	disk        time.Duration // the longest that a disk takes for one write
	steady      bool          // it always takes that long
	lease       time.Duration // replica.Config.Lease
	attempt     time.Duration // client.Config.Attempt
	refresh     time.Duration // client.Config.Refresh
	sessions    int           // client.Config.Sessions
	gather      int           // node.Config.Gather
	psk         [][]byte      // erpc.Config.PSK
	anywhere    bool          // half of the clients read at any replica
	joint       bool          // members are replaced by joint consensus, up to two at once
}

// cluster is a simulated cluster with its clients.
type cluster struct {
	shape
	t       testing.TB
	r       *rand.Rand
	net     *sim.Network
	members map[uint64]string // of the first configuration
	servers []*server
	clients []*user
	hist    history.Recorder
	nextSim int // number of the next machine
}

// server is a replica, in its present incarnation.
type server struct {
	c       *cluster
	id      uint64
	machine int
	addr    string
	boot    replica.Start
	log     uint64
	ep      *sim.Endpoint
	nexus   *erpc.Nexus
	rpc     *erpc.Rpc
	n       *node.Node
	disk    *disk
	skew    time.Duration // of its clock
	tick    time.Duration // by its flags, as lease
	lease   time.Duration
	down    bool
	gone    bool // removed for good
	paused  bool
	leaves  bool        // its process was asked to end
	old     bool        // it acts as a program of commit 4085675
	ends    func(error) // takes an end that a test expects
}

func newCluster(t testing.TB, r *rand.Rand, cfg sim.Config, sh shape) *cluster {
	net, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{shape: sh, t: t, r: r, net: net, members: map[uint64]string{}, nextSim: 1}
	for range c.replicas {
		c.machine()
	}
	for _, s := range c.servers {
		c.members[s.id] = s.addr
	}
	for _, s := range c.servers {
		s.boot = replica.Boot(c.members)
		s.start()
	}
	return c
}

// machine adds a server that is not started yet; its id is one that was never used.
func (c *cluster) machine() *server {
	i := c.nextSim
	c.nextSim++
	s := &server{c: c, id: uint64(i), machine: i, log: c.r.Uint64() | 1,
		addr: fmt.Sprintf("[fd00::%x]:%d", i, sim.FirstPort), down: true,
		tick: c.tick, lease: c.lease}
	c.servers = append(c.servers, s)
	return s
}

func (c *cluster) endpoint(machine int) (*sim.Endpoint, *erpc.Config) {
	ep, err := c.net.NewEndpoint(sim.EndpointConfig{Node: machine, Port: sim.FirstPort, RunCost: 500})
	if err != nil {
		c.t.Fatal(err)
	}
	ec := node.ErpcConfig(erpc.Config{NoHugepages: true, Simulation: erpc.Simulation{
		Clock: c.net.Now, Seed: c.r.Uint64() | 1, Executor: noExecutor{},
	}}, 10*c.tick)
	ec.PSK = c.psk
	return ep, &ec
}

// noExecutor: there are no background handlers.
type noExecutor struct{}

func (noExecutor) Submit(erpc.Task) bool { return false }

// start starts the process, the first time or again.
func (s *server) start() {
	c := s.c
	ep, ec := c.endpoint(s.machine)
	if got := ep.LocalAddr().String(); got != s.addr {
		c.t.Fatalf("machine %d has the address %s", s.machine, got)
	}
	cfg := node.Config{Config: replica.Config{Cluster: testCluster, ID: s.id, Tick: s.tick,
		KeepEntries: c.keep, SnapshotEvery: c.every, Lease: s.lease, Incarnation: c.r.Uint64() | 1},
		Log: s.log, Gather: c.gather, Start: s.boot, Silent: s.old,
		Clock: func() sim.Time { return c.net.Now().Add(s.skew) }}
	if c.durable {
		if s.disk == nil {
			s.disk = newDisk(s)
		}
		cfg.Start = s.disk.open()
		cfg.Disk, cfg.Peers = s.disk, s.disk.peers
	}
	var err error
	if s.n, err = node.New(cfg); err != nil {
		c.t.Fatal(err)
	}
	if s.nexus, err = erpc.NewNexus(*ec); err == nil {
		err = s.n.Register(registrar{s.nexus, s.old})
	}
	if err == nil {
		s.rpc, err = s.nexus.NewRpc(transportOf(s, ep))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	s.n.Attach(s.rpc)
	s.ep, s.down, s.paused, s.leaves = ep, false, false, false
	c.net.Attach(ep, serverDriver{s, s.rpc, s.n})
}

// crash ends the process as kill -9 does.
func (s *server) crash() {
	if s.down {
		return
	}
	s.down = true
	s.ep.Crash()
	if s.disk != nil {
		s.disk.crash()
	}
	_ = s.rpc.Close() // frees its memory; nobody hears of it
	_ = s.nexus.Close()
}

type serverDriver struct {
	s *server
	r *erpc.Rpc
	n *node.Node
}

func (d serverDriver) RunOnce() {
	if d.s.n != d.n || d.s.down {
		return
	}
	d.pass()
	if d.n.Poll() {
		d.pass()
	}
	if d.s.leaves && d.n.Leave() {
		d.s.crash()
		return
	}
	if err := d.n.Err(); err != nil && d.s.ends != nil {
		d.s.ends(err)
		d.s.crash()
	} else if err != nil {
		d.s.c.t.Errorf("at %v: replica %d: %v", time.Duration(d.s.c.net.Now()), d.s.id, err)
		d.s.crash()
	}
}

func (d serverDriver) pass() {
	if _, err := d.r.RunOnce(); err != nil && !errors.Is(err, transport.ErrClosed) &&
		!errors.Is(err, erpc.ErrClosed) {
		d.s.c.t.Errorf("replica %d: %v", d.s.id, err)
	}
}

func (d serverDriver) NextWake() sim.Time {
	return min(d.r.NextWake(), d.n.NextWake().Add(-d.s.skew))
}

// user is a client that makes one request after the other.
type user struct {
	c       *cluster
	id      int
	machine int
	ep      *sim.Endpoint
	rpc     *erpc.Rpc
	nexus   *erpc.Nexus
	cl      *client.Client
	count   int
	until   sim.Time
	busy    bool
	wait    time.Duration // deadline of a request
	keys    int
}

func (c *cluster) user(keys int) *user {
	u := &user{c: c, id: len(c.clients), machine: c.nextSim,
		wait: time.Duration(100+c.r.IntN(900)) * time.Millisecond, keys: keys}
	ep, ec := c.endpoint(c.nextSim)
	c.nextSim++
	u.ep = ep
	if c.psk != nil {
		ec.Timing = erpc.Timing{} // a client's own, which outlasts the replicas'
	}
	var err error
	if u.nexus, err = erpc.NewNexus(*ec); err == nil {
		u.rpc, err = u.nexus.NewRpc(ep)
	}
	if err == nil {
		var addrs []string
		for _, s := range c.servers {
			addrs = append(addrs, s.addr)
		}
		u.cl, err = client.New(u.rpc, client.Config{Cluster: testCluster, Servers: addrs,
			Attempt: cmp.Or(c.attempt, 40*time.Millisecond+4*c.disk), Backoff: 2 * time.Millisecond,
			Anywhere: c.anywhere && c.r.IntN(2) == 0, Clock: c.net.Now,
			Refresh: cmp.Or(c.refresh, 500*time.Millisecond), Sessions: c.sessions})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.net.Attach(ep, userDriver{u})
	c.clients = append(c.clients, u)
	return u
}

type userDriver struct{ u *user }

func (d userDriver) RunOnce() {
	_, _ = d.u.rpc.RunOnce() // it is closed at the end only
	if d.u.cl.Poll() {
		_, _ = d.u.rpc.RunOnce()
	}
}

func (d userDriver) NextWake() sim.Time {
	return min(d.u.rpc.NextWake(), d.u.cl.NextWake())
}

// do makes one request, and records it.
func (u *user) do(cmd kv.Command, wait time.Duration, then func(client.Result)) {
	call := u.c.net.Now()
	u.busy = true
	u.cl.Do(cmd, call.Add(wait), func(r client.Result) {
		u.busy = false
		u.c.hist.Add(u.id, cmd, call, u.c.net.Now(), r.Answer, r.Err)
		if then != nil {
			then(r)
		}
	})
	u.ep.Wake()
}

// loop makes random requests until the time is over.
func (u *user) loop() {
	c := u.c
	c.net.After(c.below(8*time.Millisecond), func() {
		if c.net.Now() >= u.until {
			return
		}
		u.count++
		u.do(u.random(), u.wait, func(client.Result) { u.loop() })
	})
}

// random makes a request. Values tell who wrote them and when.
func (u *user) random() kv.Command {
	r := u.c.r
	ops := []kv.Op{kv.Put, kv.Put, kv.Get, kv.Get, kv.Get, kv.CAS, kv.CAS, kv.Delete}
	cmd := kv.Command{Op: ops[r.IntN(8)]}
	cmd.Key, _ = kv.MakeKey(fmt.Sprint("key", r.IntN(u.keys)))
	value, _ := kv.MakeValue(fmt.Sprintf("%d.%d", u.id, u.count))
	switch cmd.Op {
	case kv.Put:
		cmd.Value = value
	case kv.CAS:
		cmd.Value = value
		if cmd.Absent = r.IntN(3) == 0; !cmd.Absent { // a guess that is sometimes right
			other := u.c.clients[r.IntN(len(u.c.clients))]
			cmd.Old, _ = kv.MakeValue(fmt.Sprintf("%d.%d", other.id, max(1, other.count-r.IntN(3))))
		}
	}
	return cmd
}

// below returns a random duration from 0 to d, without d.
func (c *cluster) below(d time.Duration) time.Duration {
	return time.Duration(c.r.Int64N(int64(d)))
}

// run lets virtual time pass.
func (c *cluster) run(d time.Duration) { c.net.RunUntil(c.net.Now().Add(d)) }

// leader returns the live server that leads with the highest term, or nil.
func (c *cluster) leader() *server {
	var list []*server
	for _, s := range c.servers {
		if !s.down && s.n.Replica().Leads() {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *server) int {
		return cmp.Compare(a.n.Replica().Status().Term, b.n.Replica().Status().Term)
	})
}

// await lets time pass until ok, at most d.
func (c *cluster) await(d time.Duration, what string, ok func() bool) bool {
	c.t.Helper()
	end := c.net.Now().Add(d)
	for c.net.Now() < end {
		if ok() {
			return true
		}
		c.run(time.Millisecond)
	}
	if !ok() {
		c.t.Errorf("after %v: %s", d, what)
		return false
	}
	return true
}

func (c *cluster) close() {
	for _, u := range c.clients {
		u.cl.Close()
		if err := errors.Join(u.rpc.Close(), u.nexus.Close()); err != nil {
			c.t.Error(err)
		}
	}
	for _, s := range c.servers {
		s.crash()
	}
}
