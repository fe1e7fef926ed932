package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// FirstPort is where ports are counted from that the network chooses.
const FirstPort = 31850

// EndpointConfig describes an endpoint.
type EndpointConfig struct {
	// Name is for the trace and for errors.
	Name string
	// Node is the machine, from 0. Nodes come into being when they are named.
	Node int
	// Port is the port in the node, 1 to 65535; 0 takes the first free one from FirstPort.
	Port int
	// RxRing is the receive ring in packets; 0 means the network's.
	RxRing int
	// RxBuffer is the receive buffer of the endpoint's socket in bytes as Linux counts them, see
	// DefaultRxBuffer: a packet that comes while more are in use is dropped. 0 is no limit but RxRing.
	RxBuffer int
	// Stamps has the kernel note when packets come, for Endpoint.Waited.
	Stamps bool
	// TxRing limits the packets that wait in the node's output queue, those of
	// its other endpoints included; beyond it TxBurst takes no more. 0 is no limit.
	TxRing int
	// RunCost and PacketCost are the processor time that a run of the driver
	// takes, for itself and for each packet received or sent in it.
	RunCost, PacketCost time.Duration
	// Processor has the cores on which the driver runs, as a thread that waits as Wait says.
	// Nil: a core of its own, and packets leave before the run's time has passed.
	Processor *Processor
	Wait      Waiting
}

// Endpoint is one end of a simulated network. It implements transport.Transport.
type Endpoint struct {
	transport.Base
	net    *Network
	node   *node
	name   string
	index  int // endpoints made before it
	addr   transport.Addr
	caps   transport.Caps
	cfg    EndpointConfig
	stats  transport.Stats
	ring   ring
	queued int      // bytes in the ring, as RxBuffer counts them
	stamp  Time     // when the first packet of the last RxBurst came; 0 if there was none
	held   []uint32 // packets handed out by the last RxBurst
	closed atomic.Bool
	gone   bool // nothing of it is left in the network
	woken  atomic.Bool

	driver  Driver
	runAt   Time
	runSeq  uint64
	runPos  int // place in Network.runs, -1 if not queued
	lastRun Time
	busy    Time // the processor is taken until then
	paused  bool
	stalled bool // the last TxBurst took less than all

	thread *Thread // nil without a Processor
	unsent int     // packets of the thread's burst that have not left yet
}

// NewEndpoint makes an endpoint. An address whose endpoint was closed or crashed
// can be used again.
func (n *Network) NewEndpoint(c EndpointConfig) (*Endpoint, error) {
	d, err := n.node(c.Node)
	if err != nil {
		return nil, err
	}
	if c.Port < 0 || c.Port > 65535 || c.RxRing < 0 || c.RxBuffer < 0 || c.TxRing < 0 ||
		c.RunCost < 0 || c.PacketCost < 0 {
		return nil, fmt.Errorf("%w: %+v: Port must be 0 to 65535, nothing negative",
			errConfig, c)
	}
	for p := FirstPort; c.Port == 0; p++ {
		if p > 65535 {
			return nil, fmt.Errorf("%w: no free port on node %d", errConfig, c.Node)
		}
		if d.isFree(uint32(p)) {
			c.Port = p
		}
	}
	if !d.isFree(uint32(c.Port)) {
		return nil, fmt.Errorf("%w: port %d of node %d is in use", errConfig, c.Port, c.Node)
	}
	setDefault(&c.RxRing, n.cfg.RxRing)
	e := &Endpoint{net: n, node: d, name: c.Name, index: n.opened,
		addr: nodeAddr(c.Node, uint32(c.Port)), cfg: c,
		ring: newRing(c.RxRing), runPos: -1, lastRun: -1}
	e.caps = transport.Caps{Name: "sim", MTU: n.cfg.MTU, RxRing: c.RxRing, TxCopies: true, ECN: true,
		LinkRate: n.cfg.LinkBitsPerSec}
	if p := c.Processor; p != nil {
		if p.net != n {
			return nil, fmt.Errorf("%w: the Processor is of another network", errConfig)
		}
		if e.thread, err = p.newThread(c.Wait, e.drive); err != nil {
			return nil, err
		}
	}
	n.opened++
	n.endpoints = append(n.endpoints, e)
	n.bind(d, e)
	n.noteEndpoint(trOpen, e)
	return e, nil
}

func (d *node) isFree(port uint32) bool {
	b := d.binds[port]
	return b == nil || b.ep == nil || b.ep.closed.Load()
}

func (n *Network) bind(d *node, e *Endpoint) {
	b := d.binds[e.addr.Port]
	if b == nil {
		b = &binding{}
		d.binds[e.addr.Port] = b
	}
	if b.ep != nil {
		b.ep.vanish(trClose)
	}
	b.ep = e
}

// Name returns the name given in the configuration.
func (e *Endpoint) Name() string { return e.name }

// Node returns the number of the endpoint's node.
func (e *Endpoint) Node() int { return e.node.id }

// Thread returns the endpoint's thread, nil without a Processor.
func (e *Endpoint) Thread() *Thread { return e.thread }

// Caps implements transport.Transport.
func (e *Endpoint) Caps() transport.Caps { return e.caps }

// Path implements transport.Transport. An endpoint does not know what the links on the way
// carry, so it is the same for all destinations.
func (e *Endpoint) Path(transport.Addr) transport.Path {
	return transport.Path{MTU: e.caps.MTU, Checksummed: e.net.cfg.Checksum}
}

// LocalAddr implements transport.Transport.
func (e *Endpoint) LocalAddr() transport.Addr { return e.addr }

// Stats implements transport.Transport. RxDropped is exact.
func (e *Endpoint) Stats() transport.Stats { return e.stats }

// Resolve reads an address as LocalAddr prints it, "[fd00::2]:31850". It does
// not ask whether anybody is there.
func (e *Endpoint) Resolve(text string) (transport.Addr, error) {
	if e.closed.Load() {
		return transport.Addr{}, transport.ErrClosed
	}
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return transport.Addr{}, fmt.Errorf("%w: %w", transport.ErrBadAddress, err)
	}
	if a := transport.AddrFrom(ap, 0); ap.Addr().Zone() == "" && isSimAddr(&a) {
		return a, nil
	}
	return transport.Addr{},
		fmt.Errorf("%w: %q is not in the simulated network", transport.ErrBadAddress, text)
}

// TxBurst implements transport.Transport. It copies; packets leave at the
// present virtual time, in order, or as the thread of a Processor has time for them.
func (e *Endpoint) TxBurst(items []transport.TxItem) (int, error) {
	if e.closed.Load() {
		return 0, transport.ErrClosed
	}
	n := e.net
	e.stats.TxCalls++
	e.stalled = false
	for i := range items {
		it := &items[i]
		dst := n.nodeOf(&it.Dst)
		if dst == nil || len(it.Head)+len(it.Data) > n.cfg.MTU {
			e.stats.TxDropped++
			continue
		}
		if dst != e.node && e.txFull() {
			e.stalled = true
			e.stats.TxStalls++
			return i, nil
		}
		e.stats.TxPackets++
		e.stats.TxBytes += uint64(len(it.Head) + len(it.Data))
		if e.thread.inBurst() {
			e.txLater(dst, it)
			continue
		}
		k, _ := n.pack(e, dst, it)
		n.launch(e, k)
	}
	return len(items), nil
}

// txFull reports whether the node's output queue takes no more packets.
func (e *Endpoint) txFull() bool {
	if e.cfg.TxRing == 0 {
		return false
	}
	nic := &e.node.nic
	nic.drain(e.net.now)
	return nic.length+e.unsent >= e.cfg.TxRing
}

// Flush implements transport.Transport. There is nothing to do.
func (e *Endpoint) Flush() {}

// RxBurst implements transport.Transport.
func (e *Endpoint) RxBurst(pkts []transport.RxPacket) (int, error) {
	if e.closed.Load() {
		return 0, transport.ErrClosed
	}
	e.release()
	e.stats.RxCalls++
	n := min(len(pkts), e.ring.length)
	e.stamp = 0
	for k := range n {
		i, p := e.dequeue()
		if k == 0 {
			e.stamp = p.stamp
		}
		pkts[k] = transport.RxPacket{Data: p.buf[:len(p.buf):len(p.buf)], From: p.from, CE: p.ce}
		e.stats.RxBytes += uint64(len(p.buf))
		e.held = append(e.held, i)
	}
	e.stats.RxPackets += uint64(n)
	if e.thread.inBurst() {
		e.thread.spent += time.Duration(n) * e.cfg.PacketCost
	}
	return n, nil
}

// release takes back the packets of the last RxBurst.
func (e *Endpoint) release() {
	for _, i := range e.held {
		e.net.pool.put(i)
	}
	e.held = e.held[:0]
}

// Wait implements transport.Transport. It returns at once, since only the
// goroutine that would wait can make anything happen: see Driver.
func (e *Endpoint) Wait(time.Duration) error {
	if e.closed.Load() {
		return transport.ErrClosed
	}
	return nil // the woken flag stays for the network to see
}

// Wake implements transport.Transport. It makes the network run the driver at
// the next step. From another goroutine than the network's it is safe, but when
// the step comes is then no longer decided by the seed.
func (e *Endpoint) Wake() {
	e.woken.Store(true)
	e.net.awake.Store(true)
}

// Close implements transport.Transport, as a process that ends would: the endpoint
// that is bound to the address when packets under way arrive receives them.
func (e *Endpoint) Close() error {
	if !e.closed.Swap(true) {
		e.net.awake.Store(true)
	}
	return nil
}

// vanish removes what is left of a closed endpoint from the network.
func (e *Endpoint) vanish(kind traceKind) {
	if e.gone {
		return
	}
	e.gone = true
	n := e.net
	e.release()
	for e.ring.length > 0 {
		i, _ := e.dequeue()
		n.pool.put(i)
	}
	n.runs.remove(e)
	e.driver = nil
	if e.thread != nil {
		e.thread.end()
	}
	if b := e.node.binds[e.addr.Port]; b.ep == e {
		b.ep = nil
	}
	if i := slices.Index(n.endpoints, e); i >= 0 {
		n.endpoints = slices.Delete(n.endpoints, i, i+1)
	}
	n.noteEndpoint(kind, e)
}

// ring is a bounded queue of packets.
type ring struct {
	slots        []uint32
	head, length int
}

func newRing(size int) ring { return ring{slots: make([]uint32, size)} }

func (r *ring) full() bool { return r.length == len(r.slots) }

func (r *ring) push(i uint32) {
	at := r.head + r.length
	if at >= len(r.slots) {
		at -= len(r.slots)
	}
	r.slots[at] = i
	r.length++
}

func (r *ring) pop() uint32 {
	i := r.slots[r.head]
	r.head++
	if r.head == len(r.slots) {
		r.head = 0
	}
	r.length--
	return i
}
