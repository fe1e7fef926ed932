package erpc_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/security/sectest"
	"github.com/userspace-rpc/erpc/transport"
)

// memNet joins endpoints through memory: no system call, no allocation, no clock.
// A packet that does not fit a ring is dropped.
type memNet struct {
	now    erpc.Time     // the endpoints' clock
	shared bool          // transport.Path.Shared
	hosts  time.Duration // transport.Path.HostDelay
	batch  int           // Caps.TxBatch
	dear   bool          // Caps.TxCostly
	lends  bool          // not Caps.TxCopies; see loan
	ends   []*memEnd
	route  func(to int, pkt []byte) int  // changes which end gets a packet, if not nil; for tests
	tb     testing.TB                    // is told of broken loans and of what leaves unsealed
	clear  sectest.Clear[transport.Addr] // sees all that leaves, but in benchmarks
}

const (
	memMTU  = 1472
	memRing = 1024 // packets
)

// memEnd is one endpoint. It implements transport.Transport.
type memEnd struct {
	transport.Base
	net     *memNet
	addr    transport.Addr
	checked bool // transport.Path.Checksummed
	slots   [memRing]memPacket
	head    uint // next to receive
	held    uint // handed out by the last RxBurst, before head
	tail    uint
	// packets in the latest calls of TxBurst, the last one first
	bursts     [4]int
	tap        func(pkt []byte, from transport.Addr) // sees what arrives, if not nil
	*memFaults                                       // nil in benchmarks, which measure no test double
}

// rebornEnd is a memEnd of another process, after the one that had it went without a word.
type rebornEnd struct{ *memEnd }

// memFaults holds what tests ask of an endpoint beside carrying packets.
type memFaults struct {
	skew   erpc.Time                      // by which the end's clock differs
	paths  int                            // how often Path was asked
	inside func(from transport.Addr) bool // what IsPrivate says, if not nil
	lose   func(pkt []byte) bool          // says what does not arrive, if not nil
	takes  func(n int) int                // of n packets TxBurst takes so many, if not nil
	show   func(p *transport.RxPacket)    // changes what RxBurst hands out, if not nil
	left   func(head, data []byte)        // sees what TxBurst takes, if not nil
	stamps bool                           // Waited knows for how long packets have been here
	deaf   bool                           // RxBurst finds nothing
	delay  time.Duration                  // until RxBurst finds what was sent
	whole  []byte                         // the packet that leaves, in one piece
	record bool
	mapped atomic.Int64   // bytes of message memory
	calls  []byte         // 'T' for each TxBurst and 'R' for each RxBurst while record is set
	loans  []*loan        // of packets that this end sent
	owed   [memRing]*loan // of packets in slots, nil where nothing is lent
}

type memPacket struct {
	n    int
	at   erpc.Time // when it was sent
	from transport.Addr
	buf  [memMTU]byte
}

func (n *memNet) Now() erpc.Time { return n.now }

func (n *memNet) end(checked bool) *memEnd {
	e := &memEnd{net: n, checked: checked}
	e.addr.IP[15], e.addr.Port = 1, uint32(1+len(n.ends))
	if _, bench := n.tb.(*testing.B); !bench {
		e.memFaults = new(memFaults)
	}
	n.ends = append(n.ends, e)
	return e
}

// Waited implements transport.Transport: packets arrive when they are sent.
func (e *memEnd) Waited() time.Duration {
	if e.memFaults == nil || !e.stamps || e.held == 0 {
		return 0
	}
	return e.net.now.Sub(e.slots[(e.head-e.held)%memRing].at)
}

// Register counts memory, from any goroutine.
func (e *memEnd) Register(mem []byte) (uint32, error) {
	if e.memFaults != nil {
		e.mapped.Add(int64(len(mem)))
	}
	return 0, nil
}

// Unregister undoes Register.
func (e *memEnd) Unregister(mem []byte, _ uint32) {
	if e.memFaults != nil {
		e.mapped.Add(-int64(len(mem)))
	}
}

// put delivers a packet that consists of two parts, or says that it is lost.
func (e *memEnd) put(head, data []byte, from *transport.Addr) bool {
	if e.tail-e.head+e.held == memRing {
		return false
	}
	p := &e.slots[e.tail%memRing]
	p.n = copy(p.buf[:], head)
	p.n += copy(p.buf[p.n:], data)
	p.from, p.at = *from, e.net.now
	if e.memFaults != nil && e.lose != nil && e.lose(p.buf[:p.n]) {
		return false
	}
	e.tail++
	if e.tap != nil {
		e.tap(p.buf[:p.n], *from)
	}
	return true
}

func (e *memEnd) TxBurst(items []transport.TxItem) (int, error) {
	if e.memFaults != nil {
		return e.txFaulty(items)
	}
	copy(e.bursts[1:], e.bursts[:])
	e.bursts[0] = len(items)
	for i := range items {
		if to := int(items[i].Dst.Port) - 1; to >= 0 && to < len(e.net.ends) {
			e.net.ends[to].put(items[i].Head, items[i].Data, &e.addr)
		}
	}
	return len(items), nil
}

// txFaulty is TxBurst with all that tests ask for.
func (e *memEnd) txFaulty(items []transport.TxItem) (int, error) {
	if e.record {
		e.calls = append(e.calls, 'T')
	}
	if e.takes != nil {
		items = items[:e.takes(len(items))]
	}
	copy(e.bursts[1:], e.bursts[:])
	e.bursts[0] = len(items)
	for _, t := range items {
		e.watch(&t)
		if e.left != nil {
			e.left(t.Head, t.Data)
		}
		to := int(t.Dst.Port) - 1
		if to < 0 || to >= len(e.net.ends) {
			continue
		}
		if e.net.route != nil {
			to = e.net.route(to, t.Head)
		}
		if peer := e.net.ends[to]; peer.put(t.Head, t.Data, &e.addr) && e.net.lends {
			e.lendTo(peer, t.Data)
		}
	}
	return len(items), nil
}

// watch fails the test if a packet should be sealed and is not, or shows what fillPattern makes.
func (e *memEnd) watch(t *transport.TxItem) {
	pkt := append(append(e.whole[:0], t.Head...), t.Data...)
	e.whole = pkt
	switch err := e.net.clear.Left(e.addr, t.Dst, pkt, secret); {
	case err == nil:
	case e.net.tb == nil:
		panic(err)
	default:
		e.net.tb.Error(err)
	}
}

func (e *memEnd) RxBurst(pkts []transport.RxPacket) (int, error) {
	n := min(uint(len(pkts)), e.tail-e.head)
	if e.memFaults != nil {
		n = e.found(n)
	}
	for i := range n {
		p := &e.slots[(e.head+i)%memRing]
		pkts[i].Data, pkts[i].From = p.buf[:p.n:p.n], p.from
		pkts[i].Shared = e.net.shared && p.n > transport.PrivateBytes
		if e.memFaults != nil && e.show != nil {
			e.show(&pkts[i])
		}
	}
	e.head += n
	e.held = n
	return int(n), nil
}

// found returns how many of n packets RxBurst hands out.
func (e *memEnd) found(n uint) uint {
	if e.record {
		e.calls = append(e.calls, 'R')
	}
	if e.deaf {
		return 0
	}
	for i := range n {
		if e.delay > 0 && e.slots[(e.head+i)%memRing].at.Add(e.delay) > e.net.now {
			n = i
			break
		}
	}
	if e.net.lends {
		e.endLoans(n)
	}
	return n
}

// Now is the clock of an end that is not measured.
func (e *memEnd) Now() erpc.Time { return e.net.now + e.skew }

func (e *memEnd) Caps() transport.Caps {
	return transport.Caps{
		Name: "mem", MTU: memMTU, RxRing: memRing, TxCopies: !e.net.lends,
		TxBatch: e.net.batch, TxCostly: e.net.dear,
	}
}
func (e *memEnd) Path(transport.Addr) transport.Path {
	if e.memFaults != nil {
		e.paths++
	}
	return transport.Path{
		MTU: memMTU, HostDelay: e.net.hosts, Shared: e.net.shared, Checksummed: e.checked,
	}
}

// IsPrivate says what the test says.
func (e *memEnd) IsPrivate(from transport.Addr) bool {
	return e.memFaults != nil && e.inside != nil && e.inside(from)
}

func (e *memEnd) LocalAddr() transport.Addr              { return e.addr }
func (e *memEnd) Resolve(string) (transport.Addr, error) { return e.addr, nil }
func (e *memEnd) Wait(time.Duration) error               { return nil }
func (e *memEnd) Wake()                                  {}
func (e *memEnd) Stats() transport.Stats                 { return transport.Stats{} }

// memPair is a client and a server, stepped by hand.
type memPair struct {
	tb             testing.TB
	net            *memNet
	client, server *erpc.Rpc
	cend, send     *memEnd
	sess           *erpc.Session
	tick           erpc.Time // per step
}

// newMemNet returns a network whose clock has started.
func newMemNet() *memNet { return &memNet{now: 1e9} }

// newMemPair makes both with a session between them. Register adds handlers.
func newMemPair(tb testing.TB, cfg erpc.Config, register func(*erpc.Nexus)) *memPair {
	tb.Helper()
	return newMemPairOn(tb, newMemNet(), cfg, register)
}

// newMemPairOn is newMemPair on a given network.
func newMemPairOn(tb testing.TB, net *memNet, cfg erpc.Config,
	register func(*erpc.Nexus)) *memPair {
	tb.Helper()
	p := newMemEnds(tb, net, cfg, cfg, register)
	p.connect()
	return p
}

// newMemEnds is newMemPairOn for ends of two configurations, without a session.
func newMemEnds(
	tb testing.TB, net *memNet, client, server erpc.Config, register func(*erpc.Nexus),
) *memPair {
	p := &memPair{tb: tb, net: net, tick: 1000}
	net.tb = tb
	p.cend, p.send = p.net.end(!client.Checksum), p.net.end(!server.Checksum)
	open := func(cfg erpc.Config, end *memEnd) *erpc.Rpc {
		if cfg.Simulation.Seed == 0 {
			cfg.Simulation.Seed = 7
		}
		if (cfg.PSK != nil || cfg.TLS != nil) && !cfg.TrustLocal {
			net.clear.Demand(end.addr)
		}
		if cfg.Simulation.Clock = p.net.Now; end.memFaults != nil {
			cfg.Simulation.Clock = end.Now
		}
		n, err := erpc.NewNexus(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		if register != nil {
			register(n)
		}
		r, err := n.NewRpc(end)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = n.Close() })
		return r
	}
	p.client, p.server = open(client, p.cend), open(server, p.send)
	return p
}

// connect opens a new session.
func (p *memPair) connect() {
	p.tb.Helper()
	s, err := p.client.CreateSessionTo(p.send.addr)
	if err != nil {
		p.tb.Fatal(err)
	}
	p.sess = s
	p.until(func() bool { return s.Connected() || s.Err() != nil })
	if !s.Connected() {
		p.tb.Fatal(s.Err())
	}
}

// step runs both loops once.
func (p *memPair) step() {
	p.net.now += p.tick
	if p.net.lends {
		p.run(p.client)
		p.run(p.server)
		return
	}
	if _, err := p.client.RunOnce(); err != nil {
		p.tb.Fatal(err)
	}
	if _, err := p.server.RunOnce(); err != nil {
		p.tb.Fatal(err)
	}
}

// run makes one pass of a loop. Memory that it has freed is written over if the network lends.
func (p *memPair) run(r *erpc.Rpc) {
	if _, err := r.RunOnce(); err != nil {
		p.tb.Helper()
		p.tb.Fatal(err)
	}
	if p.net.lends {
		r.SpoilFree()
	}
}

// until steps until cond holds, at most for 30 s of virtual time.
func (p *memPair) until(cond func() bool) {
	p.tb.Helper()
	for end := p.net.now + 30e9; !cond(); p.step() {
		if p.net.now > end {
			p.tb.Fatal("it never happened")
		}
	}
}

// close closes both and wants nothing left.
func (p *memPair) close() {
	p.tb.Helper()
	for _, r := range []*erpc.Rpc{p.client, p.server} {
		if err := r.Close(); err != nil {
			p.tb.Error(err)
		}
	}
}
