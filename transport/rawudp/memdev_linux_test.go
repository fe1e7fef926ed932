package rawudp

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// wire joins devices in memory, so that the Conn can be tested without privileges, and with
// devices of all kinds.
type wire struct {
	mu   sync.Mutex
	ends map[MAC]*memDev
	last byte
	free [][]byte // memory of frames, used again
}

// memory returns memory for a frame. The caller holds w.mu.
func (w *wire) memory() []byte {
	if n := len(w.free); n > 0 {
		p := w.free[n-1]
		w.free = w.free[:n-1]
		return p
	}
	return make([]byte, 0, 1<<16)
}

// memKind holds the properties of a device in memory.
type memKind struct {
	caps    DeviceCaps
	lend    int  // most frames that Reserve lends
	take    int  // most frames that a Send takes
	refuse  bool // trains
	offline error
}

// memDev is a Device that keeps received frames in memory of its own, like a UMEM.
type memDev struct {
	w      *wire
	kind   memKind
	mac    MAC
	fd     int
	tx     []TxFrame
	queue  []RxFrame
	lent   []RxFrame
	stats  DeviceStats
	trains int // frames sent that were trains
	word   [8]byte
}

func (w *wire) device(tb testing.TB, kind memKind) *memDev {
	w.mu.Lock()
	defer w.mu.Unlock()
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	w.last++
	d := &memDev{w: w, kind: kind, mac: MAC{2, 5: w.last}, fd: fd}
	d.tx = make([]TxFrame, 64)
	for i := range d.tx {
		d.tx[i].Mem = make([]byte, max(kind.caps.FrameSize, kind.caps.TrainSize))
		d.tx[i].Pieces = make([][]byte, 0, kind.caps.Gather)
	}
	w.ends[d.mac] = d
	return d
}

func (d *memDev) Caps() DeviceCaps { return d.kind.caps }
func (d *memDev) Flush()           {}
func (d *memDev) FD() int          { return d.fd }
func (d *memDev) Fault() error     { return nil }
func (d *memDev) Attach(Link) error {
	return nil
}

func (d *memDev) Reserve(n int) []TxFrame {
	n = min(n, len(d.tx), d.kind.lend)
	for i := range d.tx[:n] {
		d.tx[i].Pieces = d.tx[i].Pieces[:0]
	}
	return d.tx[:n]
}

func (d *memDev) Send(n int) (int, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.stats.TxCalls++
	if d.kind.offline != nil {
		return 0, d.kind.offline
	}
	n = min(n, d.kind.take)
	for i := range d.tx[:n] {
		f := &d.tx[i]
		if f.Segment > 0 {
			d.trains++
			f.Refused = d.kind.refuse
		}
		if f.Refused {
			continue
		}
		if to := d.w.ends[MAC(f.Mem)]; to != nil && len(to.queue) < to.kind.caps.RxRing {
			data := append(d.w.memory(), f.Mem[:f.Len]...)
			for _, p := range f.Pieces {
				data = append(data, p...)
			}
			in := RxFrame{Data: data, Segment: f.Segment, VLAN: NoVLAN}
			if f.Partial {
				in.Checksum = ChecksumPartial
			}
			to.queue = append(to.queue, in)
			to.ring()
		}
	}
	return n, nil
}

// ring makes FD readable.
func (d *memDev) ring() {
	binary.NativeEndian.PutUint64(d.word[:], 1)
	_, _ = unix.Write(d.fd, d.word[:])
}

func (d *memDev) Receive(frames []RxFrame) (int, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.stats.RxCalls++
	for i := range d.lent { // code that still looks at them must notice
		p := d.lent[i].Data
		clear(p)
		d.w.free = append(d.w.free, p[:0])
	}
	n := copy(frames, d.queue)
	d.lent = append(d.lent[:0], d.queue[:n]...)
	d.queue = append(d.queue[:0], d.queue[n:]...)
	if len(d.queue) == 0 {
		_, _ = unix.Read(d.fd, d.word[:])
	}
	return n, nil
}

func (d *memDev) Pending() bool {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return len(d.queue) > 0
}

func (d *memDev) Stats() DeviceStats { return d.stats }

func (d *memDev) Close() error {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	delete(d.w.ends, d.mac)
	return unix.Close(d.fd)
}

// memNet is a Network in which the neighbour 10.0.0.n has the MAC address 02::n. Its answers
// can be changed.
type memNet struct {
	mu     sync.Mutex
	link   Link
	fd     int
	moved  map[netip.Addr]MAC // neighbours with another MAC address
	hide   map[netip.Addr]bool
	asked  int
	inUse  []netip.Addr // confirmed
	routes int
	news   []func(tell func(netip.Addr, MAC, bool)) (routes, link bool)
}

func newMemNet(tb testing.TB, mac MAC, mtu int) *memNet {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		tb.Fatal(err)
	}
	return &memNet{fd: fd, link: Link{Name: "mem0", Index: 1, MAC: mac, MTU: mtu, Up: true},
		moved: map[netip.Addr]MAC{}, hide: map[netip.Addr]bool{}}
}

// tell queues news for Poll and makes FD readable.
func (n *memNet) tell(f func(tell func(netip.Addr, MAC, bool)) (routes, link bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.news = append(n.news, f)
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(n.fd, one[:])
}

func (n *memNet) Link() Link { return n.link }
func (n *memNet) FD() int    { return n.fd }

func (n *memNet) NextHop(ip netip.Addr) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.routes++
	if !netip.MustParsePrefix("10.0.0.0/24").Contains(ip) {
		return ip, &NeighbourError{Link: n.link.Name, IP: ip, Err: ErrNoRoute}
	}
	return ip, nil
}

func (n *memNet) Neighbour(hop netip.Addr) (MAC, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if n.hide[hop] {
		return MAC{}, &NeighbourError{Link: n.link.Name, IP: hop, Err: ErrPending}
	}
	if mac, ok := n.moved[hop]; ok {
		return mac, nil
	}
	return MAC{2, 5: hop.As4()[3]}, nil
}

func (n *memNet) Await(ip netip.Addr, _ time.Duration) (MAC, error) {
	if _, err := n.NextHop(ip); err != nil {
		return MAC{}, err
	}
	return n.Neighbour(ip)
}

func (n *memNet) Confirm(ip netip.Addr) { n.inUse = append(n.inUse, ip) }

func (n *memNet) Poll(neighbour func(netip.Addr, MAC, bool)) (routes, link bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var count [8]byte
	_, _ = unix.Read(n.fd, count[:])
	for _, f := range n.news {
		r, l := f(neighbour)
		routes, link = routes || r, link || l
	}
	n.news = nil
	return routes, link
}

func (n *memNet) Close() error { return unix.Close(n.fd) }

// memEnd is a Conn over a memDev and a memNet.
type memEnd struct {
	*Conn
	dev *memDev
	net *memNet
}

func (w *wire) open(tb testing.TB, kind memKind, cfg Config) *memEnd {
	tb.Helper()
	d := w.device(tb, kind)
	n := newMemNet(tb, d.mac, 1500)
	c, err := New(d, n, Local{IP: netip.AddrFrom4([4]byte{10, 0, 0, d.mac[5]}), Port: 700}, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return &memEnd{c, d, n}
}

func newWire() *wire { return &wire{ends: map[MAC]*memDev{}} }

var (
	plainCaps = DeviceCaps{Name: "mem", FrameSize: 2048, RxRing: 512, Segments: 1, TxCopies: true}
	trainCaps = DeviceCaps{Name: "mem", FrameSize: 65535, TrainSize: 65535, RxRing: 512, Segments: 64,
		Checksum: true, TxCopies: true}
	gatherCaps = DeviceCaps{Name: "mem", FrameSize: 65535, TrainSize: 65535, RxRing: 512, Segments: 64,
		Gather: 128, Checksum: true, TxCopies: true}

	plainKind  = memKind{caps: plainCaps, lend: 64, take: 64}
	stingyKind = memKind{caps: plainCaps, lend: 5, take: 3}
	trainKind  = memKind{caps: trainCaps, lend: 64, take: 64}
	gatherKind = memKind{caps: gatherCaps, lend: 64, take: 64}
	refuseKind = memKind{caps: gatherCaps, lend: 64, take: 64, refuse: true}
)

var _ transport.Transport = (*memEnd)(nil)
