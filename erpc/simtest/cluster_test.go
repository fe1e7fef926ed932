package simtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// The request types of the cluster's handlers.
const (
	typeEcho       = 1  // answers inside the handler
	typeBackground = 2  // runs in the executor
	typeNested     = 3  // asks a third node, answers from the continuation
	typeLate       = 4  // answers from a timer
	typeFail       = 5  // answers with an application error
	typeNone       = 99 // has no handler
)

// cluster is a simulated network, its nodes, and what is known of all their RPCs.
type cluster struct {
	t        testing.TB
	net      *sim.Network
	nodes    []*node
	calls    []*call // by id
	pending  int
	served   map[uint64]int // handler runs by request id
	ended    map[endKey]int // end events by session
	slow     time.Duration  // most virtual time that slow handlers take
	wrap     func(transport.Transport) transport.Transport
	lender   lender
	bad      int
	steps    int                 // of clocks
	refusing bool                // somebody refuses sessions or requests
	onServed func(*erpc.Session) // called with sessions that servers accept
	// Called with each request that reaches a handler; nil: nobody looks who asked.
	onAsked func(n *node, h erpc.ReqHandle, k *call)
	also    []error // that RPCs may end with beside those that are named
	// Seed of the endpoints of nodes that are added; 0 for another one each time.
	nodeSeed uint64
	// As wrap, for a node.
	wrapFor func(n *node, tr transport.Transport) transport.Transport
	clear   sectest.Clear[transport.Addr] // sees what leaves processes with keys
	whole   []byte                        // a datagram that leaves, in one piece
	secrets [][]byte                      // of the calls that have not ended
}

type endKey struct {
	rpc *erpc.Rpc
	s   *erpc.Session
}

// node is one process of the cluster, in its present incarnation.
type node struct {
	c        *cluster
	id       int
	cfg      erpc.Config
	epc      sim.EndpointConfig
	clock    *clock
	ep       *sim.Endpoint
	nexus    *erpc.Nexus
	rpc      *erpc.Rpc
	sessions map[int]*erpc.Session // client sessions; see session
	events   []erpc.SessionEvent
	down     bool
	seed     uint64 // of its endpoint; 0 for another one each time
}

// call is one RPC of the cluster.
type call struct {
	id       uint64
	from     *node
	to       int
	typ      uint8
	reqSize  int
	respSize int
	respMax  int // of the response buffer; -1 if the library makes it
	timeout  time.Duration
	rpcID    erpc.RequestID
	ends     int
	err      error
	then     func(*call)
	issuedAt sim.Time
	endedAt  sim.Time
	nested   bool
	secrets  [2][]byte // how the bytes of request and response begin
}

func newCluster(t testing.TB, cfg sim.Config) *cluster {
	t.Helper()
	net, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, net: net, served: map[uint64]int{}, ended: map[endKey]int{},
		slow: 500 * time.Microsecond, lender: newLender(cfg.Seed)}
}

// fail reports a broken promise; a few are enough.
func (c *cluster) fail(format string, args ...any) {
	if c.bad++; c.bad <= 10 {
		c.t.Errorf("at %v: "+format, append([]any{time.Duration(c.net.Now())}, args...)...)
	}
}

// add starts a node.
func (c *cluster) add(cfg erpc.Config, epc sim.EndpointConfig) *node {
	c.t.Helper()
	n := &node{c: c, id: len(c.nodes), cfg: cfg, epc: epc, clock: newClock(c.net), seed: c.nodeSeed}
	n.epc.Node = n.id
	n.epc.Name = fmt.Sprintf("node%d", n.id)
	n.epc.Port = sim.FirstPort
	c.nodes = append(c.nodes, n)
	n.start()
	return n
}

// start opens the node's endpoint, the first time or after a crash.
func (n *node) start() {
	c := n.c
	c.t.Helper()
	ep, err := c.net.NewEndpoint(n.epc)
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := n.cfg
	cfg.Simulation = erpc.Simulation{
		Clock: n.clock.now, Seed: c.net.Rand().Uint64() | 1, Executor: executor{c.net, ep, c},
	}
	if n.seed != 0 {
		cfg.Simulation.Seed = n.seed
	}
	cfg.OnSession = n.onSession
	n.ep, n.down, n.sessions = ep, false, map[int]*erpc.Session{}
	if n.nexus, err = erpc.NewNexus(cfg); err != nil {
		c.t.Fatal(err)
	}
	n.register()
	var tr transport.Transport = ep
	if c.lender.on {
		tr = c.lend(n, ep)
	}
	if c.wrap != nil {
		tr = c.wrap(tr)
	}
	if c.wrapFor != nil {
		tr = c.wrapFor(n, tr)
	}
	if n.rpc, err = n.nexus.NewRpc(c.overhear(&cfg, tr)); err != nil {
		c.t.Fatal(err)
	}
	c.net.Attach(ep, driver{n, n.rpc})
}

// crash ends the process without a word to anybody. Its own RPCs end too.
func (n *node) crash() {
	if n.down {
		return
	}
	n.ep.Crash()
	n.down = true
	n.close()
}

// hangUp closes the node's client sessions, or all of the process. RPCs are under way.
func (n *node) hangUp(process bool) {
	switch {
	case n.down:
	case process:
		n.close()
	default:
		for _, to := range slices.Sorted(maps.Keys(n.sessions)) {
			if s := n.sessions[to]; s != nil {
				if err := n.rpc.CloseSession(s); err != nil {
					n.c.fail("node %d: close session: %v", n.id, err)
				}
			}
		}
		n.ep.Wake()
	}
}

// close frees what the process held and checks that all of it came back.
func (n *node) close() {
	n.down = true
	running := n.rpc.Running()
	if err := n.rpc.Close(); err != nil && running == 0 {
		n.c.fail("node %d: close: %v", n.id, err)
	}
	if err := n.nexus.Close(); err != nil {
		n.c.fail("node %d: nexus: %v", n.id, err)
	}
}

func (n *node) onSession(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
	if r == n.rpc {
		n.events = append(n.events, ev)
	}
	if ev == erpc.SessionConnected {
		if n.c.onServed != nil && !s.IsClient() {
			n.c.onServed(s)
		}
		return
	}
	if ev == erpc.SessionDraining {
		return // its requests go on
	}
	k := endKey{r, s}
	if n.c.ended[k]++; n.c.ended[k] > 1 {
		n.c.fail("node %d: session ended %d times, last %v", n.id, n.c.ended[k], ev)
	}
	if s.Err() == nil {
		n.c.fail("node %d: session %v without an error", n.id, ev)
	}
	for to, mine := range n.sessions {
		if mine == s {
			delete(n.sessions, to)
		}
	}
}

// session returns the client session to a node, opening one if need be. Nested RPCs
// have sessions of their own: if handlers that wait for each other's answers held
// all slots, no answer could ever come.
func (n *node) session(to int, nested bool) (*erpc.Session, error) {
	key := to
	if nested {
		key += len(n.c.nodes)
	}
	if s := n.sessions[key]; s != nil && s.Err() == nil {
		return s, nil
	}
	s, err := n.rpc.CreateSessionTo(n.c.nodes[to].ep.LocalAddr())
	if err == nil {
		n.sessions[key] = s
	}
	return s, err
}

// driver makes a node run in the network.
type driver struct {
	n *node
	r *erpc.Rpc
}

func (d driver) RunOnce() {
	if _, err := d.r.RunOnce(); err != nil && !errors.Is(err, transport.ErrClosed) &&
		!errors.Is(err, erpc.ErrClosed) {
		d.n.c.fail("node %d: RunOnce: %v", d.n.id, err)
	}
}

func (d driver) NextWake() sim.Time { return d.n.clock.networks(d.r.NextWake()) }

// executor runs background handlers after a virtual delay, on the one goroutine.
type executor struct {
	net *sim.Network
	ep  *sim.Endpoint
	c   *cluster
}

func (x executor) Submit(task erpc.Task) bool {
	x.net.After(time.Duration(x.net.Rand().Int64N(int64(x.c.slow)+1)), func() {
		task.Run()
		x.ep.Wake() // the loop of a simulation never sleeps in its transport
	})
	return true
}

// Every message starts with these fields; what follows is a function of them.
//
//	0 id u64 · 8 response size u32 · 12 node to ask u16 · 14 zero u16
const minRequest = 16

func fill(b []byte, id uint64) {
	x := id*0x9E3779B97F4A7C15 + uint64(len(b))
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, x)
		x = x*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(x >> (8 * i))
	}
}

// filled reports whether b has the bytes that fill makes.
func filled(b []byte, id uint64) bool {
	x := id*0x9E3779B97F4A7C15 + uint64(len(b))
	for len(b) >= 8 {
		if binary.LittleEndian.Uint64(b) != x {
			return false
		}
		x = x*6364136223846793005 + 1442695040888963407
		b = b[8:]
	}
	for i := range b {
		if b[i] != byte(x>>(8*i)) {
			return false
		}
	}
	return true
}

const respSalt = 0xA5A5_5A5A_0000_0000 // tells responses from requests

// tracer returns where the network's trace goes.
func tracer(t testing.TB) io.Writer {
	if *traceFlag {
		return t.Output()
	}
	return nil
}

// pick returns one of its arguments.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
