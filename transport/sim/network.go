package sim

import (
	"hash/crc32"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Network is a simulated network. It is used by one goroutine at a time.
type Network struct {
	cfg    Config
	now    Time
	seq    uint64
	events eventHeap
	runs   runQueue
	awake  atomic.Bool // some endpoint's woken flag is set

	pool   pool
	lastID uint64
	timers []func()
	freeTm []uint32

	cores   []*core
	threads []*Thread
	running *Thread   // whose burst this is
	runner  *Endpoint // whose run this is, of those without a thread

	nodes     []*node
	racks     []*rack
	spines    []fabric    // the upper switches: one, or as many as a rack has uplinks
	endpoints []*Endpoint // open ones, and closed ones not yet seen to be so
	opened    int         // endpoints ever made

	faults   *faults
	cuts     bool
	random   source
	scenario *rand.Rand
	flowSeed uint64
	redSpan  float64
	hash     uint64
	stats    Stats
}

// Stats counts what happened to packets in a whole network.
type Stats struct {
	Sent       uint64 // packets taken from endpoints and put on the way
	Duplicated uint64 // further copies put on the way
	Delivered  uint64 // packets put into a receive ring
	Lost       uint64 // vanished by Faults.Loss
	Corrupted  uint64 // damaged, whether delivered or not
	Reordered  uint64 // held by Faults.Reorder
	Cut        uint64 // vanished at a cut
	TailDrops  uint64 // dropped by a full switch
	Marked     uint64 // marks put on packets by switches
	Checksum   uint64 // damaged and for that reason dropped by the receiver
	NoEndpoint uint64 // nobody was bound to the port, or it crashed meanwhile
	Overflow   uint64 // dropped by a full receive ring or buffer
	Events     uint64 // events processed, runs of drivers included
}

// New returns a network without nodes.
func New(cfg Config) (*Network, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	f, err := cfg.Faults.compile()
	if err != nil {
		return nil, err
	}
	n := &Network{cfg: cfg, now: StartTime, faults: f, hash: mix(cfg.Seed, 1),
		flowSeed: mix(cfg.Seed, 2)}
	n.random.pcg.Seed(cfg.Seed, 3)
	n.scenario = rand.New(rand.NewPCG(cfg.Seed, 4))
	n.redSpan = float64(max(1, cfg.ECN.Kmax-cfg.ECN.Kmin))
	n.spines = make([]fabric, 1)
	if cfg.Spines {
		n.spines = make([]fabric, cfg.Uplinks)
	}
	for i := range n.spines {
		n.spines[i] = fabric{buffer: cfg.SwitchBuffer, alpha: cfg.Alpha}
	}
	for range cfg.Racks {
		n.racks = append(n.racks, newRack(&n.cfg, n.spines))
	}
	return n, nil
}

// Now returns the virtual time. It starts at StartTime. In a burst of a thread it includes what
// the thread has been charged so far.
func (n *Network) Now() Time {
	if n.running != nil {
		return n.now.Add(n.running.spent)
	}
	return n.now
}

// Rand returns a random source for the use of the scenario: seeded by the same
// seed, but not the one that decides the faults.
func (n *Network) Rand() *rand.Rand { return n.scenario }

// Stats returns the counters since the start.
func (n *Network) Stats() Stats { return n.stats }

// After calls f, on the goroutine that steps the network, when d has passed. A
// negative d counts as 0.
func (n *Network) After(d time.Duration, f func()) {
	var i uint32
	if k := len(n.freeTm); k > 0 {
		i = n.freeTm[k-1]
		n.freeTm = n.freeTm[:k-1]
		n.timers[i] = f
	} else {
		i = uint32(len(n.timers))
		n.timers = append(n.timers, f)
	}
	n.push(n.Now().Add(max(d, 0)), evTimer, i)
}

// Step moves the time to the next event and processes it. It returns false if
// there is none.
func (n *Network) Step() bool { return n.step(Never) }

// RunUntil processes all events up to and including time t, then sets the time to t.
func (n *Network) RunUntil(t Time) {
	for n.step(t) {
	}
	n.now = max(n.now, t)
}

// RunWhile processes events while cond holds, up to and including time t. It
// returns false if cond still holds when there is nothing left to process by then.
func (n *Network) RunWhile(cond func() bool, t Time) bool {
	for cond() {
		if !n.step(t) {
			return false
		}
	}
	return true
}

// step processes the next event if it is not later than limit.
func (n *Network) step(limit Time) bool {
	if n.awake.Load() {
		n.noteWakes()
	}
	run := n.runIsNext()
	switch {
	case run && n.runs[0].runAt <= limit:
		n.now = n.runs[0].runAt
		n.stats.Events++
		n.runs[0].run()
	case !run && len(n.events) > 0 && n.events[0].at <= limit:
		e := n.events.pop()
		n.now = e.at
		n.stats.Events++
		n.process(e)
	default:
		return false
	}
	return true
}

// runIsNext reports whether the next event is a driver's run.
func (n *Network) runIsNext() bool {
	if len(n.runs) == 0 {
		return false
	}
	if len(n.events) == 0 {
		return true
	}
	r, e := n.runs[0], &n.events[0]
	return r.runAt < e.at || r.runAt == e.at && r.runSeq < e.seq
}

func (n *Network) process(e event) {
	switch e.kind {
	case evHop:
		n.passPort(e.arg, n.pool.all[e.arg])
	case evDeliver:
		n.deliver(e.arg, n.pool.all[e.arg])
	case evTimer:
		f := n.timers[e.arg]
		n.timers[e.arg] = nil
		n.freeTm = append(n.freeTm, e.arg)
		n.noteTimer(e.arg)
		f()
	case evCore:
		n.cores[e.arg].onEvent()
	case evThread:
		if t := n.threads[e.arg]; t.state == isWaking {
			t.proc.enqueue(t)
		}
	}
}

func (n *Network) push(at Time, kind eventKind, arg uint32) {
	n.events.push(event{at, n.newSeq(), kind, arg})
}

func (n *Network) newSeq() uint64 {
	n.seq++
	return n.seq
}

func (n *Network) newID() uint64 {
	n.lastID++
	return n.lastID
}

// pack makes a packet that e will send to a port of dst.
func (n *Network) pack(e *Endpoint, dst *node, it *transport.TxItem) (uint32, *packet) {
	i, p := n.pool.get(len(it.Head) + len(it.Data))
	copy(p.buf[copy(p.buf, it.Head):], it.Data)
	p.from, p.src, p.dst, p.port = e.addr, e.node, dst, it.Dst.Port
	p.hop, p.ce, p.damaged = 1, false, false
	p.wire = int32(max(len(p.buf)+n.cfg.WireOverhead, n.cfg.MinWire))
	if n.cfg.Racks > 1 {
		p.flow = n.flowHash(e, dst, it.Dst.Port)
	}
	return i, p
}

// launch puts a packet of e on the way.
func (n *Network) launch(e *Endpoint, i uint32) {
	p := n.pool.all[i]
	dst := p.dst
	p.id = n.newID()
	n.stats.Sent++
	n.hash = mix(n.hash, uint64(crc32.Checksum(p.buf, castagnoli))<<32|uint64(len(p.buf)))
	n.hash = mix(n.hash, uint64(e.index)<<48^uint64(dst.id)<<24^uint64(p.port))
	n.notePacket(trSend, p)

	t := n.now.Add(n.cfg.LoopDelay)
	if p.src != dst {
		t = n.leave(p)
	}
	if n.isCut(p.src, dst) {
		n.drop(i, p, trCut, &n.stats.Cut)
		return
	}
	if f := n.faultsOf(p.src, dst); f.any {
		n.suffer(i, p, f, t)
		return
	}
	n.forward(i, p, t)
}

// castagnoli is the CRC that processors have instructions for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// leave sends a packet through its node's link, and returns when it is at the switch.
func (n *Network) leave(p *packet) Time {
	nic := &p.src.nic
	if nic.rate == 0 {
		return n.now.Add(nic.delay)
	}
	nic.drain(n.now)
	first, last := nic.join(n.now, int(p.wire))
	return n.arrival(p, nic, first, last)
}

// arrival returns when a packet, sent through q from first to last, is at the
// next hop: with its last bit, or with its first if it may cut through.
func (n *Network) arrival(p *packet, q *port, first, last Time) Time {
	if n.cfg.CutThrough {
		if to := n.next(p); to != nil && to.rate != 0 && to.rate <= q.rate {
			return first.Add(q.delay)
		}
	}
	return last.Add(q.delay)
}

// forward schedules what comes next for a packet that is at its next hop at time
// t. Queues that do not exist are passed at once.
func (n *Network) forward(i uint32, p *packet, t Time) {
	for {
		q := n.next(p)
		if q == nil {
			n.push(t, evDeliver, i)
			return
		}
		if q.rate != 0 {
			n.push(t, evHop, i)
			return
		}
		t = t.Add(q.delay)
		p.hop++
	}
}

// passPort lets a packet join an output queue of a switch.
func (n *Network) passPort(i uint32, p *packet) {
	q := n.next(p)
	size := int(p.wire)
	if q.rate == 0 { // the link became infinitely fast meanwhile
		n.forward(i, p, n.now)
		return
	}
	if !q.admits(n.now, size) {
		q.stats.Drops++
		n.drop(i, p, trTail, &n.stats.TailDrops)
		return
	}
	first, last := q.join(n.now, size)
	if n.marks(q.depth) {
		p.ce = true
		q.stats.Marks++
		n.stats.Marked++
		n.notePacket(trMark, p)
	}
	n.notePacket(trHop, p)
	p.hop++
	n.forward(i, p, n.arrival(p, q, first, last))
}

// marks decides whether a packet in a queue of that depth is marked.
func (n *Network) marks(depth int) bool {
	c := &n.cfg.ECN
	if c.Kmax == 0 || depth <= c.Kmin {
		return false
	}
	if depth > c.Kmax {
		return true
	}
	return n.random.hit(chanceOf(c.Pmax * (float64(depth-c.Kmin) / n.redSpan)))
}

func (n *Network) drop(i uint32, p *packet, kind traceKind, counter *uint64) {
	*counter++
	n.notePacket(kind, p)
	n.pool.put(i)
}

// deliver puts a packet that has arrived into the ring of its endpoint.
func (n *Network) deliver(i uint32, p *packet) {
	b := p.dst.binds[p.port]
	switch {
	case n.isCut(p.src, p.dst):
		n.drop(i, p, trCut, &n.stats.Cut)
	case b == nil || b.ep == nil || b.ep.closed.Load() || p.id <= b.crashID:
		n.drop(i, p, trGone, &n.stats.NoEndpoint)
	case p.damaged && n.cfg.Checksum:
		n.drop(i, p, trDamaged, &n.stats.Checksum)
	case !b.ep.takes():
		b.ep.stats.RxDropped++
		n.drop(i, p, trOverflow, &n.stats.Overflow)
	default:
		n.stats.Delivered++
		n.notePacket(trDeliver, p)
		b.ep.enqueue(i, p)
		b.ep.wantRun(n.now)
	}
}
