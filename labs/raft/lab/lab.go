package lab

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport"
)

// Placement says which threads step the replicas.
type Placement string

// The placements, on two cores: the client has the first.
const (
	// Together: all replicas in one thread on the second core.
	Together Placement = "together"
	// Spread: the leader alone on the second core, the followers in the client's thread. The
	// first follower makes the majority and is stepped whenever the client is. The others are
	// stepped when the client has just sent, while the leader is at work, so that they do not
	// stand between the client and the answer that it waits for.
	Spread Placement = "spread"
)

// Config says what to measure.
type Config struct {
	Transport string
	Listen    func() (transport.Transport, error)
	Replicas  int
	Placement Placement
	Keys      int // chosen from, and stored before
	Clients   int // of full load; 0: that is not measured
	Rounds    int
	Each      time.Duration // of one round of one kind; at most a second
	Cores     []int         // of the client and the replicas; empty: not pinned
	Pin       func(core int) error
	Progress  func(string)
	// Secure adds keys or certificates to the configuration of all endpoints; nil: none.
	Secure func(*erpc.Config)
}

// Latency is a p50 and a p99 in us: medians over the rounds.
type Latency struct {
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
}

// Report has the results of a measurement.
type Report struct {
	Transport string  `json:"transport"`
	Replicas  int     `json:"replicas"`
	Placement string  `json:"placement"`
	Rounds    int     `json:"rounds"`
	Keys      int     `json:"keys"`
	Plain     Latency `json:"plain"`  // RPC to a server that does nothing else
	Shared    Latency `json:"shared"` // RPC to the leader's endpoint, in its loop
	Chain     Latency `json:"chain"`  // RPC whose answer waits for one of the leader to a follower
	Bare      Latency `json:"bare"`   // the same with bare RawNodes that step in between
	Put       Latency `json:"put"`    // at the client
	Get       Latency `json:"get"`    // at the client, linearizable
	Commit    Latency `json:"commit"` // PUT at the leader
	Ratio     Ratio   `json:"ratio"`  // of the p50 of Put and Plain: the paper's is 2.4
	OfChain   Ratio   `json:"chain_ratio"`
	OfBare    Ratio   `json:"bare_ratio"`
	LoadPut   *Load   `json:"load_put,omitempty"`
	LoadGet   *Load   `json:"load_get,omitempty"`
	Puts      uint64  `json:"puts"`
}

// slots are the requests that a session may have under way.
const slots = 32

// deadline is that of each request.
const deadline = 10 * time.Second

// valueSize is the size in bytes of the value that a PUT stores.
const valueSize = kv.MaxValue

// lab is a cluster and a client in two threads.
type lab struct {
	cfg    Config
	nodes  []*node.Node
	nexus  []*erpc.Nexus
	lone   *erpc.Rpc // the plain server
	rpc    *erpc.Rpc // the client's
	cl     *client.Client
	chains []*chain // of the replicas
	plain  *erpc.Session
	shared *erpc.Session
	here   []*node.Node // stepped by the client's thread
	sent   bool         // the client has something to send
	idle   int          // turns since the other followers were stepped
	mode   atomic.Uint32
	over   atomic.Bool
	failed error // the first request's under load that did
	rng    *rand.Rand
	buf    [2]*erpc.MsgBuffer
}

// The endpoints that the servers' thread steps.
const (
	stepReplicas = iota
	stepLone
)

const benchCluster = 1

// tick makes an election timeout of a second: nothing fails here, and a machine that stands still
// for a moment shall not get another leader.
const tick = 100 * time.Millisecond

// Run measures. The calling goroutine becomes the client's thread.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	l := &lab{cfg: cfg, rng: rand.New(rand.NewPCG(1, 2))}
	if err := l.build(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	ended := make(chan error, 1)
	go func() { ended <- l.serve() }()
	var rep *Report
	var err error
	done := make(chan struct{})
	go func() { // a pinned thread is not given back
		defer close(done)
		runtime.LockOSThread()
		if err = l.pin(0); err == nil {
			rep, err = l.measure(ctx)
		}
	}()
	<-done
	l.over.Store(true)
	return rep, errors.Join(err, <-ended, l.close())
}

func (l *lab) pin(i int) error {
	if len(l.cfg.Cores) == 0 {
		return nil
	}
	return l.cfg.Pin(l.cfg.Cores[i%len(l.cfg.Cores)])
}

// endpoint makes a Nexus and an Rpc of its own.
func (l *lab) endpoint(register func(*erpc.Nexus) error) (*erpc.Rpc, error) {
	ec := erpc.Config{Wait: erpc.WaitSpin, Slots: slots}
	if l.cfg.Secure != nil {
		l.cfg.Secure(&ec)
	}
	// Threads stop in turns.
	ec.Timing.FailureTimeout, ec.Timing.Heartbeat = 30*time.Second, 10*time.Second
	x, err := erpc.NewNexus(ec)
	if err != nil {
		return nil, err
	}
	l.nexus = append(l.nexus, x)
	if register != nil {
		if err := register(x); err != nil {
			return nil, err
		}
	}
	tr, err := l.cfg.Listen()
	if err != nil {
		return nil, err
	}
	return x.NewRpc(tr)
}

func (l *lab) build() error {
	bares, err := newBares(l.cfg.Replicas)
	if err != nil {
		return err
	}
	members := map[uint64]string{}
	var rpcs []*erpc.Rpc
	var late []*node.Node // handlers find their node here: addresses come before nodes
	for i := range l.cfg.Replicas {
		late = append(late, nil)
		r, err := l.endpoint(func(x *erpc.Nexus) error {
			l.chains = append(l.chains, &chain{raft: bares[i]})
			return errors.Join(l.chains[i].register(x),
				node.RegisterLate(x, func() *node.Node { return late[i] }))
		})
		if err != nil {
			return err
		}
		l.chains[i].rpc = r
		rpcs = append(rpcs, r)
		members[uint64(i+1)] = r.LocalAddr().String()
	}
	for i, r := range rpcs {
		n, err := node.New(node.Config{
			Config: replica.Config{Cluster: benchCluster, ID: uint64(i + 1), Keys: l.cfg.Keys,
				Tick: tick},
			Log: node.NewLogID(), Start: replica.Boot(members)})
		if err != nil {
			return err
		}
		n.Attach(r)
		late[i] = n
		l.nodes = append(l.nodes, n)
	}
	l.nodes[0].Replica().Campaign()
	l.nodes[0].MeasureCommits()
	if l.cfg.Placement == Spread {
		l.here = l.nodes[1:]
	}
	echo := func(x *erpc.Nexus) error {
		return x.Register(node.TypeEcho, erpc.Dispatch,
			func(r erpc.ReqHandle) { _ = r.RespondBytes(r.Data()[:echoAnswer]) })
	}
	if l.lone, err = l.endpoint(echo); err != nil {
		return err
	}
	if l.rpc, err = l.endpoint(nil); err != nil {
		return err
	}
	l.cl, err = client.New(l.rpc, client.Config{Cluster: benchCluster,
		Servers: []string{members[1], members[2]}})
	for i := range l.buf {
		if err == nil {
			l.buf[i], err = l.rpc.Alloc(putSize)
		}
	}
	return err
}

// The sizes of a PUT's request and answer, and so of the plain RPC's.
const (
	putSize    = 32 + kv.MaxKey + valueSize
	echoAnswer = 16
)

// serve is the servers' thread.
func (l *lab) serve() error {
	runtime.LockOSThread() // for good: it may be pinned
	if err := l.pin(1); err != nil {
		return err
	}
	order := l.turns()
	for !l.over.Load() {
		if l.mode.Load() == stepLone {
			if _, err := l.lone.RunOnce(); err != nil {
				return err
			}
			continue
		}
		if err := node.Turn(order); err != nil {
			return err
		}
	}
	return nil
}

// turns is the order of the replicas in the servers' thread: the leader after each follower,
// since what a follower answers is for it.
func (l *lab) turns() (order []*node.Node) {
	for _, f := range l.nodes[1+len(l.here):] {
		order = append(order, l.nodes[0], f)
	}
	if len(order) == 0 {
		return l.nodes[:1]
	}
	return order
}

// idleTurns is after how many turns without a request of the client's the other followers are
// stepped all the same.
const idleTurns = 64

// step runs the client's thread once: the client and the followers that are there.
func (l *lab) step() error {
	if _, err := l.rpc.RunOnce(); err != nil {
		return err
	}
	l.cl.Poll()
	if len(l.here) == 0 || l.mode.Load() == stepLone {
		return nil
	}
	if l.idle++; l.sent || l.idle >= idleTurns {
		l.sent, l.idle = false, 0
		if err := node.Turn(l.here[1:]); err != nil {
			return err
		}
	}
	return node.Turn(l.here[:1])
}

func (l *lab) close() (err error) {
	for _, b := range l.buf {
		if b != nil {
			b.Free()
		}
	}
	for _, n := range l.nodes {
		err = errors.Join(err, n.Rpc().Close())
	}
	for _, r := range []*erpc.Rpc{l.lone, l.rpc} {
		if r != nil {
			err = errors.Join(err, r.Close())
		}
	}
	for _, x := range l.nexus {
		err = errors.Join(err, x.Close())
	}
	return err
}

// until steps the client's thread until ok.
func (l *lab) until(ctx context.Context, ok func() bool) error {
	for i := 0; !ok(); i++ {
		l.sent = true
		if err := l.step(); err != nil {
			return err
		}
		if i&1023 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
