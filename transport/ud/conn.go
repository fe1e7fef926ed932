package ud

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
)

// Conn is an endpoint over an Unreliable Datagram queue pair: a transport.Transport.
type Conn struct {
	transport.Base
	h       *hardware
	cfg     Config
	caps    transport.Caps
	local   transport.Addr
	peers   peers
	handles handles
	meet    meeting
	tx      transmitter
	rx      receiver
	waiter

	polls  uint32
	resets uint64
	fault  error                       // why the endpoint cannot be used any more
	failed atomic.Pointer[DeviceError] // the same, for Resolve
	closed atomic.Bool
}

var _ transport.Transport = (*Conn)(nil)

// Listen opens an endpoint. addr is "host:port" of its meeting socket, see the package
// comment: over RoCE v2 the host is an address of the device's network interface, and an empty one
// takes the address that goes with the chosen GID. Port 0 lets the system pick. Errors match
// transport.ErrBadAddress, transport.ErrUnsupported, are a *ConfigError, or those of
// the system. The caller must Close the Conn.
func Listen(addr string, cfg Config) (*Conn, error) {
	local, err := parse(addr)
	if err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if err := verbs.Available(); err != nil {
		return nil, unsupported(err)
	}
	all, err := sites()
	if err != nil {
		return nil, err
	}
	p, err := choose(all, &cfg, local.Addr())
	if err != nil {
		return nil, err
	}
	cfg.complete()
	limit := int(p.attr.ActiveMTU)
	if cfg.MTU > limit {
		return nil, &ConfigError{"MTU", cfg.MTU,
			fmt.Sprintf("%s port %d carries %d bytes", p.device, p.port, limit), ErrMTU}
	}
	if cfg.MTU == 0 {
		cfg.MTU = limit
	}
	h, err := open(p, &cfg)
	if err != nil {
		return nil, err
	}
	c, err := listen(h, local, cfg)
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	return c, nil
}

// listen makes a Conn of hardware that is ready.
func listen(h *hardware, local netip.AddrPort, cfg Config) (*Conn, error) {
	if ip := local.Addr(); !ip.IsValid() || ip.IsUnspecified() {
		if h.attr.LinkLayer == verbs.Ethernet && kind(h.attr.LinkLayer, h.gid) != kindRoCE1 {
			ip = h.gid.GID.Addr()
			if ip.IsLinkLocalUnicast() {
				ip = ip.WithZone(h.gid.Iface)
			}
		}
		local = netip.AddrPortFrom(ip, local.Port())
	}
	sock, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(local))
	if err != nil {
		return nil, fmt.Errorf("ud: meeting socket: %w", err)
	}
	at := sock.LocalAddr().(*net.UDPAddr).AddrPort()
	c := &Conn{h: h, cfg: cfg, local: addrOf(at)}
	c.peers.init(cfg.MaxPeers)
	c.handles = handles{pd: h.pd, attr: h.toPeers(&cfg), made: map[way]*handle{}}
	own := card{kind: cardAnswer, layer: byte(h.attr.LinkLayer),
		gidKind: kind(h.attr.LinkLayer, h.gid), lid: uint16(h.attr.LID),
		port: at.Port(), gid: h.gid.GID, qpn: h.qp.Num(), qkey: h.qkey, mtu: uint32(cfg.MTU)}
	c.meet = meeting{conn: sock, own: own, handles: &c.handles, limit: cfg.MaxPeers}
	c.tx.init(h, &c.peers, &c.meet, &cfg)
	c.rx.init(h, &c.peers, cfg.ECN)
	c.caps = transport.Caps{Name: "ud", MTU: cfg.MTU, RxRing: c.rx.room(), TxCopies: cfg.Copy,
		TxBatch: txBatch, TxCostly: true, ECN: c.rx.ecn}
	if h.info.VendorID != verbs.SoftVendor { // which reports a rate at random
		c.caps.LinkRate = h.attr.Rate()
	}
	self := way{gid: h.gid.GID}
	if own.gidKind == kindIB {
		self = way{lid: own.lid}
	}
	if err = c.begin(self); err != nil {
		sock.Close()
		c.handles.close()
		return nil, err
	}
	c.meet.start()
	return c, nil
}

// begin does what can fail.
func (c *Conn) begin(self way) error {
	me, err := c.handles.get(self)
	if err != nil {
		return fmt.Errorf("ud: %w", err)
	}
	c.tx.self = me.ah.Handle()
	if err := c.rx.fill(); err != nil {
		return fmt.Errorf("ud: %w", err)
	}
	return c.waiter.init(c.h, &c.closed)
}

// Caps returns what the transport can do.
func (c *Conn) Caps() transport.Caps { return c.caps }

// LocalAddr returns the address of the meeting socket.
func (c *Conn) LocalAddr() transport.Addr { return c.local }

// Device returns the device, its port and the index of the GID that are used.
func (c *Conn) Device() (name string, port, gid int) { return c.h.device, c.h.port, c.h.gid.Index }

// Resolve turns "host:port" into an address and meets the endpoint there. Errors match
// transport.ErrBadAddress, are the resolver's, a *PeerError or a *DeviceError.
func (c *Conn) Resolve(text string) (transport.Addr, error) {
	if c.closed.Load() {
		return transport.Addr{}, transport.ErrClosed
	}
	a, err := resolvePeer(text)
	if err != nil {
		return transport.Addr{}, err
	}
	if fault := c.failed.Load(); fault != nil {
		return transport.Addr{}, fault
	}
	if err := c.meet.call(text, a, c.cfg.MeetTimeout); err != nil {
		if c.closed.Load() {
			err = transport.ErrClosed
		}
		return transport.Addr{}, err
	}
	return a, nil // the using goroutine will welcome it
}

// welcome puts those who were introduced into the table.
func (c *Conn) welcome() {
	for _, p := range c.meet.collect() {
		for _, old := range c.peers.add(p) {
			c.meet.forget(old)
			if c.handles.put(old.handle) {
				c.settle() // no request may refer to it
				c.handles.drop(old.handle)
			}
		}
	}
}

// TxBurst sends items, see transport.Transport. A packet to somebody who was not met is dropped,
// while he is asked.
func (c *Conn) TxBurst(items []transport.TxItem) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	if c.fault != nil {
		return 0, c.fault
	}
	if c.meet.some.Load() {
		c.welcome()
	}
	n, broken, err := c.tx.burst(items)
	if broken && err == nil {
		err = c.reset()
	}
	return n, err
}

// tendEvery is after how many calls of RxBurst the device is looked after: an endpoint
// that spins never sleeps on its descriptors.
const tendEvery = 4096

// RxBurst receives packets, see transport.Transport.
func (c *Conn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	if c.polls++; c.polls%tendEvery == 0 {
		c.tend()
	}
	if c.fault != nil {
		return 0, c.fault
	}
	if len(pkts) == 0 {
		return 0, nil
	}
	c.peers.clock++
	broken, err := c.rx.prepare(len(pkts))
	if err != nil {
		return 0, c.broken(err)
	}
	// After polling: who sent what was polled has been introduced before.
	if c.meet.some.Load() {
		c.welcome()
	}
	n, flushed := c.rx.split(pkts)
	if (broken || flushed) && n == 0 { // not while packets of this burst are in the ring
		err = c.reset()
	}
	return n, err
}

// Flush returns when the adapter refers to no buffer given to TxBurst.
func (c *Conn) Flush() {
	if c.tx.direct > c.tx.done { // else everything was copied, or has left
		c.settle()
	}
}

// settle returns when no request is on the send queue.
func (c *Conn) settle() {
	if c.closed.Load() || c.fault != nil {
		return
	}
	if !c.tx.flush() {
		_ = c.reset() // the next call returns the error
	}
}

// reset takes a queue pair out of an error state. Packets in its queues are lost.
func (c *Conn) reset() error {
	c.resets++
	if c.tend(); c.fault != nil {
		return c.fault
	}
	err := c.h.qp.Modify(verbs.QPAttr{State: verbs.StateReset})
	if err != nil {
		return c.broken(err)
	}
	// Entries left in the completion queues belong to requests that are gone.
	for {
		if err := c.rx.poll(rxBurst); err != nil {
			return c.broken(err)
		}
		if c.rx.got == 0 {
			break
		}
	}
	for {
		n, err := c.h.sendCQ.Poll(c.tx.wc[:])
		if err != nil {
			return c.broken(err)
		}
		if n == 0 {
			break
		}
	}
	c.tx.done = c.tx.posted
	c.rx.release()
	if err := c.h.ready(); err != nil {
		return c.broken(err)
	}
	if err := c.rx.fill(); err != nil {
		return c.broken(err)
	}
	return nil
}

// broken makes err, of the device, the endpoint's end.
func (c *Conn) broken(err error) error {
	if c.fault == nil {
		if errors.Is(err, syscall.EIO) || errors.Is(err, syscall.ENODEV) {
			err = fmt.Errorf("%w (%w)", ErrDeviceGone, err)
		}
		fault := &DeviceError{c.h.device, c.h.port, err}
		c.fault = fault
		c.failed.Store(fault)
	}
	return c.fault
}

// Path describes the way to dst. The MTU is the largest that both sides take if they have
// met, else Caps.MTU.
func (c *Conn) Path(dst transport.Addr) transport.Path {
	path := transport.Path{MTU: c.cfg.MTU, HostDelay: hostDelay(c.h.info), Checksummed: true}
	if c.closed.Load() {
		return path
	}
	if c.meet.some.Load() {
		c.welcome()
	}
	if p := c.peers.byAddr[dst]; p != nil {
		path.MTU = p.mtu
	}
	return path
}

// Register lets the adapter read mem where it is, which must not be of the Go heap and
// stay mapped until Unregister. Packets in other memory are copied, also if the limit on
// locked memory forbids it: then key is 0. There is no error. Safe from any goroutine.
func (c *Conn) Register(mem []byte) (key uint32, err error) { return c.tx.regions.add(mem), nil }

// Unregister undoes Register with the same memory. No packet in it may be on its way, see
// Flush. Safe from any goroutine.
func (c *Conn) Unregister(mem []byte, _ uint32) {
	if mr := c.tx.regions.remove(mem); mr != nil {
		mr.Close()
	}
}

// Stats returns counters since the start. An adapter does not
// count packets that it drops for lack of buffers.
func (c *Conn) Stats() transport.Stats {
	t, r := &c.tx, &c.rx
	return transport.Stats{TxPackets: t.packets, TxBytes: t.bytes, TxDropped: t.dropped,
		TxStalls: t.stalls, TxCalls: t.calls,
		RxPackets: r.packets, RxBytes: r.bytes, RxDropped: r.rejects.Failed, RxCalls: r.calls}
}

// Rejects returns how many datagrams reached the queue pair that were no packets for the library.
// Only for the using goroutine.
func (c *Conn) Rejects() Rejects { return c.rx.rejects }

// Resets returns how often the queue pair was reset after an error. Only for the using goroutine.
func (c *Conn) Resets() uint64 { return c.resets }

// Close frees everything, see transport.Transport. Packets that were taken are sent before.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.waiter.stop() // a blocked Wait has returned now
	defer c.waiter.free()
	c.meet.stop()
	if c.fault == nil {
		c.tx.flush()
	}
	err := c.h.closeQP()
	c.handles.close()
	c.tx.regions.close()
	if err = errors.Join(err, c.h.close()); err != nil && c.fault == nil {
		return fmt.Errorf("ud: %w", err)
	}
	return nil
}
