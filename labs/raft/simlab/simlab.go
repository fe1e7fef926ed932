package simlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/erpc/simhost"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// Model holds processor times.
type Model struct {
	Name string
	// Run is the time of a pass of an event loop, Packet that of each packet in it, either way.
	Run, Packet time.Duration
	// Propose, Append, Ack and Answer are Raft's steps on the way of a PUT: node.StepPropose and so
	// on. The leader has an Ack more for each further follower, behind its answer.
	Propose, Append, Ack, Answer time.Duration
	// Rest is the work that follows when the packets of a step have left.
	Rest time.Duration
}

// Raft is the time of Raft's steps on the way of a PUT.
func (m *Model) Raft() time.Duration { return m.Propose + m.Append + m.Ack + m.Answer }

// hosts returns the hosts' part of a plain RPC: the client's passes that send and receive, the
// server's, and four packets.
func (m *Model) hosts() time.Duration { return 3*m.Run + 4*m.Packet }

// Paper has the paper's figures for ConnectX-5: hosts take 850 ns at each end of an RPC of 2.3 us,
// and what its PUT of 5.5 us has above two of them is divided among LibRaft's steps.
var Paper = Model{Name: "the paper's C library", Run: 100, Packet: 350, Propose: 300, Append: 300,
	Ack: 100, Answer: 200}

// Here has the steps of this Raft as BenchmarkPut of package replica measures them, with everything
// in the cache. The hosts are the paper's.
var Here = Model{Name: "etcd raft in Go", Run: 100, Packet: 350, Propose: 2200, Append: 1400,
	Ack: 450, Answer: 1350, Rest: 100}

// Trips are the round trips of the curve.
var Trips = []time.Duration{2300, 3 * us, 4 * us, 5 * us, 7 * us, 10 * us, 14 * us, 20 * us}

const us = time.Microsecond

// Config describes a run.
type Config struct {
	Model     Model
	RoundTrip time.Duration // of a plain RPC; at least what the hosts take
	Replicas  int
	Keys      int // chosen from, at random
	Requests  int // of each kind
	Seed      uint64
}

// Latency is a median and a 99th percentile.
type Latency struct {
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
}

// Point is a point of the curve.
type Point struct {
	Plain    Latency `json:"plain"`
	Put      Latency `json:"put"`
	Get      Latency `json:"get"`      // linearizable, without a lease
	Ratio    float64 `json:"ratio"`    // of the medians of Put and Plain
	Expected float64 `json:"expected"` // by the arithmetic
}

// The errors of Run.
var (
	ErrConfig = errors.New("simlab: bad configuration")
	ErrStuck  = errors.New("simlab: a request has no end")
)

const (
	cluster    = 1
	putSize    = 32 + kv.MaxKey + kv.MaxValue // of a PUT's request, and so of the plain RPC's
	echoAnswer = 16                           // and of the answers
)

// bounds of a Config.
const (
	maxReplicas  = 9
	maxRoundTrip = time.Millisecond
	maxRequests  = 1_000_000
)

func (c *Config) check() error {
	m := &c.Model
	for _, d := range []time.Duration{m.Run, m.Packet, m.Propose, m.Append, m.Ack, m.Answer,
		m.Rest} {
		if d < 0 || d > time.Millisecond {
			return fmt.Errorf("%w: a time of %v, want 0 to 1ms", ErrConfig, d)
		}
	}
	switch least := m.hosts(); {
	case c.RoundTrip < least || c.RoundTrip > maxRoundTrip:
		return fmt.Errorf("%w: a round trip of %v, want %v, which hosts take, to %v",
			ErrConfig, c.RoundTrip, least, maxRoundTrip)
	case c.Replicas < 1 || c.Replicas > maxReplicas:
		return fmt.Errorf("%w: %d replicas, want 1 to %d", ErrConfig, c.Replicas, maxReplicas)
	case c.Keys < 1 || c.Keys > maxRequests || c.Requests < 1 || c.Requests > maxRequests:
		return fmt.Errorf("%w: %d keys, %d requests, want 1 to %d", ErrConfig, c.Keys, c.Requests,
			maxRequests)
	}
	return nil
}

// lab is a cluster, a server of plain RPCs, and a client.
type lab struct {
	Config
	net    *sim.Network
	procs  []*simhost.Process
	nodes  []*node.Node
	lone   *simhost.Loop // the server of plain RPCs
	user   *simhost.Loop
	cl     *client.Client
	plain  *erpc.Session
	leader string
	err    error
}

// Run measures one point. Errors: ErrConfig, ErrStuck, those of the parts.
func Run(ctx context.Context, c Config) (*Point, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	way := (c.RoundTrip - c.Model.hosts()) / 4 // to the switch and from there, for two packets
	net, err := sim.New(sim.Config{Seed: c.Seed, PropDelay: way})
	if err != nil {
		return nil, err
	}
	l := &lab{Config: c, net: net}
	defer l.close()
	if err := errors.Join(l.servers(), l.client()); err != nil {
		return nil, err
	}
	return l.measure(ctx)
}

// polls is how all threads wait.
var polls = sim.Waiting{SpinFor: sim.SpinForever}

// loop makes a process with a loop on a core of its own, on the machine of that number.
func (l *lab) loop(machine int, register func(*simhost.Process) error) (*simhost.Loop, error) {
	election := replica.Config{ID: 1}.ElectionTimeout()
	p, err := simhost.New(simhost.Config{Net: l.net,
		Erpc: node.ErpcConfig(erpc.Config{NoHugepages: true}, election)})
	if err != nil {
		return nil, err
	}
	l.procs = append(l.procs, p)
	if register != nil {
		if err := register(p); err != nil {
			return nil, err
		}
	}
	core, err := l.net.NewProcessor(sim.ProcessorConfig{Cores: 1})
	if err != nil {
		return nil, err
	}
	return p.Loop(sim.EndpointConfig{Node: machine, Processor: core, Wait: polls,
		RunCost: l.Model.Run, PacketCost: l.Model.Packet})
}

// servers starts the replicas, of which the first shall lead, and the server of plain RPCs.
func (l *lab) servers() (err error) {
	late := make([]*node.Node, l.Replicas) // handlers find their node here: addresses come first
	loops := make([]*simhost.Loop, l.Replicas)
	members := map[uint64]string{}
	for i := range loops {
		loops[i], err = l.loop(i, func(p *simhost.Process) error {
			return node.RegisterLate(p, func() *node.Node { return late[i] })
		})
		if err != nil {
			return err
		}
		members[uint64(i+1)] = loops[i].Rpc().LocalAddr().String()
	}
	l.leader = members[1]
	for i, loop := range loops {
		n, err := node.New(node.Config{Config: replica.Config{Cluster: cluster, ID: uint64(i + 1),
			Incarnation: uint64(i + 1)}, Log: uint64(i + 1), Start: replica.Boot(members),
			Clock: l.net.Now, Charge: l.charge})
		if err != nil {
			return err
		}
		n.Attach(loop.Rpc())
		late[i], l.nodes = n, append(l.nodes, n)
		loop.After, loop.Next = n.Poll, n.NextWake
	}
	loops[0].Do(l.nodes[0].Replica().Campaign)
	l.lone, err = l.loop(l.Replicas, func(p *simhost.Process) error {
		return p.Register(node.TypeEcho, erpc.Dispatch, func(r erpc.ReqHandle) {
			l.fail(r.RespondBytes(r.Data()[:echoAnswer]))
		})
	})
	return err
}

// charge takes a step's time.
func (l *lab) charge(s node.Step, n int) {
	m := &l.Model
	each := [...]time.Duration{node.StepPropose: m.Propose, node.StepAppend: m.Append,
		node.StepAck: m.Ack, node.StepAnswer: m.Answer, node.StepRest: m.Rest}[s]
	if s == node.StepRest {
		n = 1 // for all events together
	}
	l.net.Charge(each * time.Duration(n))
}

// client starts the client.
func (l *lab) client() (err error) {
	if l.user, err = l.loop(l.Replicas+1, nil); err != nil {
		return err
	}
	l.cl, err = client.New(l.user.Rpc(), client.Config{Cluster: cluster, Servers: []string{l.leader},
		Clock: l.net.Now})
	if err != nil {
		return err
	}
	l.user.After, l.user.Next = l.cl.Poll, l.cl.NextWake
	l.user.Do(func() {
		l.plain, err = l.user.Rpc().CreateSessionTo(l.lone.Endpoint().LocalAddr())
		l.fail(err)
	})
	return nil
}

func (l *lab) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

// failed returns the first error of any part.
func (l *lab) failed() error {
	err := l.err
	for _, p := range l.procs {
		err = errors.Join(err, p.Err())
	}
	for _, n := range l.nodes {
		err = errors.Join(err, n.Err())
	}
	return err
}

// measure makes the requests, kind after kind.
func (l *lab) measure(ctx context.Context) (*Point, error) {
	if _, err := l.phase(ctx, 10, l.put); err != nil { // a leader is elected, a session opened
		return nil, err
	}
	if !l.nodes[0].Replica().Leads() {
		return nil, fmt.Errorf("%w: another replica leads", ErrStuck)
	}
	if _, err := l.phase(ctx, 10, l.echo); err != nil {
		return nil, err
	}
	p := &Point{}
	for _, k := range []struct {
		to *Latency
		do func(func(error))
	}{{&p.Plain, l.echo}, {&p.Put, l.put}, {&p.Get, l.get}} {
		list, err := l.phase(ctx, l.Requests, k.do)
		if err != nil {
			return nil, err
		}
		slices.Sort(list)
		*k.to = Latency{list[len(list)/2], list[len(list)*99/100]}
	}
	p.Ratio = float64(p.Put.P50) / float64(p.Plain.P50)
	p.Expected = 2 + float64(l.Model.Raft())/float64(p.Plain.P50)
	return p, nil
}

// stuck is how much virtual time a request may take.
const stuck = 5 * time.Second

// phase makes requests, one after the other, and returns how long each took.
func (l *lab) phase(ctx context.Context, count int, do func(done func(error))) ([]time.Duration,
	error,
) {
	list := make([]time.Duration, 0, count)
	var began sim.Time
	var next func()
	next = func() {
		began = l.net.Now()
		l.user.Do(func() {
			do(func(err error) {
				l.fail(err)
				l.net.Then(func() { // what has come is the client's when its pass has taken its time
					list = append(list, l.net.Now().Sub(began))
					if len(list) < count {
						next()
					}
				})
			})
		})
	}
	next()
	for len(list) < count {
		had := len(list)
		l.net.RunUntil(l.net.Now().Add(time.Millisecond))
		switch err := errors.Join(l.failed(), ctx.Err()); {
		case err != nil:
			return nil, err
		case len(list) == had && l.net.Now() > began.Add(stuck):
			return nil, ErrStuck
		}
	}
	return list, nil
}

// echo makes a plain RPC.
func (l *lab) echo(done func(error)) {
	rpc := l.user.Rpc()
	req, err := rpc.Alloc(putSize)
	if err != nil {
		done(err)
		return
	}
	_, err = rpc.EnqueueRequest(l.plain, erpc.Request{Type: node.TypeEcho, Req: req,
		Done: func(c erpc.Completion) {
			c.Req.Free()
			if c.Err == nil {
				c.Resp.Free()
			}
			done(c.Err)
		}})
	if err != nil {
		req.Free()
		done(err)
	}
}

func (l *lab) key() (k kv.Key) {
	k, _ = kv.MakeKey(fmt.Appendf(nil, "key-%012d", l.net.Rand().IntN(l.Keys)))
	return k
}

func (l *lab) put(done func(error)) {
	v, _ := kv.MakeValue(make([]byte, kv.MaxValue))
	l.do(kv.Command{Op: kv.Put, Key: l.key(), Value: v}, done)
}

func (l *lab) get(done func(error)) { l.do(kv.Command{Op: kv.Get, Key: l.key()}, done) }

func (l *lab) do(cmd kv.Command, done func(error)) {
	l.cl.Do(cmd, l.net.Now().Add(stuck), func(r client.Result) { done(r.Err) })
}

func (l *lab) close() {
	for _, p := range l.procs {
		p.Crash()
	}
}
