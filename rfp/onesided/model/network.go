package model

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Time is a point in virtual time.
type Time = monotime.Time

// Network is a set of machines with one clock. One goroutine uses it with all that belongs to it.
type Network struct {
	p      Params
	oneway time.Duration
	now    Time
	events events
	made   uint64 // events
	rng    *rand.Rand
	torn   bool
}

// New returns a network without machines, at time 1.
func New(p Params, seed uint64) *Network {
	return &Network{p: p, oneway: p.Oneway(), now: 1, rng: rand.New(rand.NewPCG(seed, 1))}
}

// Tear makes each WRITE visible in two steps from now on, and each READ see two moments, as far
// as the contract of package onesided allows.
func (n *Network) Tear() { n.torn = true }

// Params returns what the network was made with.
func (n *Network) Params() *Params { return &n.p }

// Now returns the virtual time.
func (n *Network) Now() Time { return n.now }

// Rand returns the source of everything that is random in this network.
func (n *Network) Rand() *rand.Rand { return n.rng }

// At runs fn at time t, or now if that is later.
func (n *Network) At(t Time, fn func()) {
	n.made++
	heap.Push(&n.events, event{max(t, n.now), n.made, fn})
}

// Step runs the next event. It reports false if there is none.
func (n *Network) Step() bool {
	if len(n.events) == 0 {
		return false
	}
	e := heap.Pop(&n.events).(event)
	n.now = e.at
	e.fn()
	return true
}

// RunUntil runs all events up to time t, and sets the clock to it.
func (n *Network) RunUntil(t Time) {
	for len(n.events) > 0 && n.events[0].at <= t {
		n.Step()
	}
	n.now = max(n.now, t)
}

type event struct {
	at  Time
	seq uint64
	fn  func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1].fn = nil
	*q = old[:len(old)-1]
	return e
}

// picos is a time in picoseconds. Stages count in it, so that they have the rates of their inputs:
// 11.26 million a second are 88.81 ns each.
type picos int64

func (d picos) duration() time.Duration { return time.Duration((d + 500) / 1000) }

// server is something that serves one at a time.
type server struct{ free picos }

// serve returns when that which comes at t and takes d is done.
func (s *server) serve(t Time, d picos) Time {
	s.free = max(s.free, 1000*picos(t)) + d
	return s.ready()
}

// ready returns when the stage is free.
func (s *server) ready() Time { return Time(s.free.duration()) }

// Machine is a host with one adapter.
type Machine struct {
	net     *Network
	nic     NIC
	pio     server // what processors write to the adapter
	out, in server // engines
	tx, rx  server // directions of the wire
	held    contexts
	dead    bool
	links   []*Link
	stats   Stats
}

// Stats counts what an adapter has served and issued.
type Stats struct{ In, Out, InBytes, OutBytes uint64 }

// Machine adds a machine.
func (n *Network) Machine(nic NIC) *Machine {
	return &Machine{net: n, nic: nic, held: contexts{most: nic.Contexts}}
}

// Stats returns the counters of the adapter.
func (m *Machine) Stats() Stats { return m.stats }

// Kill ends the machine: it neither issues nor serves any more, and its threads stand still. Its
// peers learn it after a while.
func (m *Machine) Kill() {
	m.dead = true
	for _, l := range m.links {
		m.net.At(m.net.now.Add(gone), func() { l.peer.fail(onesided.ErrPeer) })
	}
}

// wire is the time of so many payload bytes on the link.
func (n *Network) wire(bytes int) picos {
	return picos(float64(8*(bytes+n.p.Header)) / n.p.Bandwidth * 1e12)
}

// Thread is a processor that runs one function.
type Thread struct {
	m       *Machine
	step    func(now Time) time.Duration
	clock   Time // where it stands: not before the network's time while it runs
	free    Time // busy until then
	planned Time // next step, 0: none
	busy    time.Duration
}

// Thread adds a thread. It runs step when it is woken and has nothing else to do. The step returns
// after how long it wants to run again, the time that it has spent included; 0: not before it is
// woken. Operations that it posts leave when the spent time is over.
func (m *Machine) Thread(step func(now Time) time.Duration) *Thread {
	return &Thread{m: m, step: step}
}

// Wake makes the thread run as soon as it is free.
func (t *Thread) Wake() { t.plan(t.m.net.now) }

func (t *Thread) plan(at Time) {
	at = max(at, t.free)
	if t.planned != 0 && t.planned <= at {
		return
	}
	t.planned = at
	t.m.net.At(at, func() { t.run(at) })
}

// run is the step planned for time at, unless another took its place.
func (t *Thread) run(at Time) {
	if t.planned != at || t.m.dead {
		return
	}
	t.planned = 0
	if t.free > at {
		t.plan(t.free)
		return
	}
	t.clock = at
	again := t.step(at)
	t.free = t.clock
	if again > 0 {
		t.plan(max(at.Add(again), t.free))
	}
}

// Spend counts processor time. It is for the running step.
func (t *Thread) Spend(d time.Duration) {
	t.clock = t.clock.Add(d)
	t.busy += d
}

// Busy returns the processor time that the thread has spent.
func (t *Thread) Busy() time.Duration { return t.busy }

// Clock returns the time where the running step stands.
func (t *Thread) Clock() Time { return t.clock }
