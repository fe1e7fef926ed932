package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// portableConn is the implementation on package net. A goroutine reads packets
// into a ring; RxBurst takes them out. The ring has one writer and one reader.
type portableConn struct {
	transport.Base
	conn *net.UDPConn
	caps transport.Caps
	net  string // for resolve

	slots []slot
	mem   []byte
	step  int // bytes a slot
	// tail is written by the goroutine that reads, head by RxBurst. Slots from
	// head to tail are full; those from freed to head are lent out by RxBurst.
	tail, freed atomic.Uint64
	head        uint64
	oversize    atomic.Uint64

	full   atomic.Bool   // the reader waits for space
	space  chan struct{} // RxBurst tells it that there is some
	ready  chan struct{} // the reader tells Wait that there are packets
	woken  chan struct{} // Wake tells Wait
	closed chan struct{}
	done   chan struct{} // the reader has ended
	shut   atomic.Bool
	timer  *time.Timer

	stage []byte
	stats transport.Stats
	soft  uint64
	read  atomic.Uint64 // errors that the reader saw
}

// slot is one received packet; its bytes are in mem.
type slot struct {
	from transport.Addr
	size int
}

func listenPortable(l listenAddr, cfg Config) (implementation, error) {
	if cfg.ReusePort {
		return nil, &ConfigError{"ReusePort", 1, "the portable implementation lacks it: leave it off",
			transport.ErrUnsupported}
	}
	if cfg.ECN {
		return nil, &ConfigError{"ECN", 1, "the portable implementation lacks it: leave it off",
			transport.ErrUnsupported}
	}
	local := net.UDPAddrFromAddrPort(l.ap)
	if l.scope != 0 {
		local.Zone = fmt.Sprint(l.scope)
	}
	if l.any {
		local.IP = nil // package net then prefers a dual-stack socket
	}
	conn, err := net.ListenUDP("udp", local)
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	setPortableBuffer(conn.SetReadBuffer, cfg.RecvBuffer)
	setPortableBuffer(conn.SetWriteBuffer, cfg.SendBuffer)
	const memory = 8 << 20
	count := 64
	for count < 1024 && 2*count*cfg.MTU <= memory {
		count *= 2
	}
	c := &portableConn{
		conn: conn, slots: make([]slot, count), step: cfg.MTU + 1,
		mem: make([]byte, count*(cfg.MTU+1)), stage: make([]byte, cfg.MTU),
		space: make(chan struct{}, 1), ready: make(chan struct{}, 1), woken: make(chan struct{}, 1),
		closed: make(chan struct{}), done: make(chan struct{}), timer: time.NewTimer(0),
		caps: transport.Caps{Name: "udp", MTU: cfg.MTU, RxRing: count, TxCopies: true},
	}
	ip := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	c.net = networkOf(ip, ip.IsUnspecified())
	go c.reader()
	return c, nil
}

// setPortableBuffer asks for less and less: some systems refuse what they would
// not grant, instead of granting what they can.
func setPortableBuffer(set func(int) error, size int) {
	for size > 1<<16 && set(size) != nil {
		size /= 2
	}
}

func (c *portableConn) Caps() transport.Caps { return c.caps }
func (c *portableConn) Flush()               {}
func (c *portableConn) softErrors() uint64   { return c.soft + c.read.Load() }

func (c *portableConn) refused() []string { return nil }

func (c *portableConn) renew(*transport.Addr) error { return transport.ErrUnsupported }

// namespace: only Linux has more networks than one.
func (c *portableConn) namespace() (uint64, bool) { return 0, !haveKernel && !c.shut.Load() }

func (c *portableConn) opening(*transport.Addr, monotime.Time) {}

func (c *portableConn) LocalAddr() transport.Addr {
	a := c.conn.LocalAddr().(*net.UDPAddr)
	scope, _ := scopeOf(a.Zone)
	return transport.AddrFrom(netip.AddrPortFrom(a.AddrPort().Addr().WithZone(""), uint16(a.Port)),
		scope)
}

func (c *portableConn) resolve(text string) ([]transport.Addr, error) {
	if c.shut.Load() {
		return nil, transport.ErrClosed
	}
	return peers(c.net, text, c.LocalAddr().AddrPort().Addr())
}

func (c *portableConn) TxBurst(items []transport.TxItem) (int, error) {
	if c.shut.Load() {
		return 0, transport.ErrClosed
	}
	for i := range items {
		it := &items[i]
		size := len(it.Head) + len(it.Data)
		if size > c.caps.MTU || it.Dst.Port == 0 || it.Dst.Port > 65535 {
			c.stats.TxDropped++
			continue
		}
		p := it.Head
		if len(it.Data) > 0 {
			copy(c.stage, it.Head)
			copy(c.stage[len(it.Head):], it.Data)
			p = c.stage[:size]
		}
		if err := c.send(p, it.Dst.AddrPort()); errors.Is(err, net.ErrClosed) {
			return i, transport.ErrClosed
		} else if err != nil {
			c.stats.TxDropped++
			continue
		}
		c.stats.TxPackets++
		c.stats.TxBytes += uint64(size)
	}
	return len(items), nil
}

// send sends p. A first error may be about an earlier packet.
func (c *portableConn) send(p []byte, to netip.AddrPort) error {
	c.stats.TxCalls++
	_, err := c.conn.WriteToUDPAddrPort(p, to)
	if err == nil || errors.Is(err, net.ErrClosed) {
		return err
	}
	c.soft++
	c.stats.TxCalls++
	_, err = c.conn.WriteToUDPAddrPort(p, to)
	return err
}

func (c *portableConn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.shut.Load() {
		return 0, transport.ErrClosed
	}
	c.stats.RxCalls++
	if c.freed.Load() != c.head { // the packets of the call before end here
		c.freed.Store(c.head)
		if c.full.Load() {
			signal(c.space)
		}
	}
	n := min(int(c.tail.Load()-c.head), len(pkts))
	for i := range n {
		at := int(c.head) & (len(c.slots) - 1)
		s := &c.slots[at]
		p := c.mem[at*c.step:][:s.size:s.size]
		pkts[i] = transport.RxPacket{Data: p, From: s.from}
		c.stats.RxPackets++
		c.stats.RxBytes += uint64(s.size)
		c.head++
	}
	return n, nil
}

// reader fills the ring until the socket is closed. When the ring is full it
// leaves packets to the kernel's buffer.
func (c *portableConn) reader() {
	defer close(c.done)
	for tail := uint64(0); ; {
		if !c.room(tail) {
			return
		}
		at := int(tail) & (len(c.slots) - 1)
		n, from, err := c.conn.ReadFromUDPAddrPort(c.mem[at*c.step:][:c.step])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil && n == 0 {
			c.read.Add(1)
			continue
		}
		if n > c.caps.MTU {
			c.oversize.Add(1)
			continue
		}
		scope := uint32(0)
		if zone := from.Addr().Zone(); zone != "" {
			scope, _ = scopeOf(zone)
		}
		c.slots[at] = slot{transport.AddrFrom(netip.AddrPortFrom(from.Addr().WithZone(""), from.Port()),
			scope), n}
		tail++
		c.tail.Store(tail)
		signal(c.ready)
	}
}

// room waits until slot tail is free. It returns false after Close.
func (c *portableConn) room(tail uint64) bool {
	for tail-c.freed.Load() == uint64(len(c.slots)) {
		c.full.Store(true)
		if tail-c.freed.Load() < uint64(len(c.slots)) { // it changed before RxBurst saw full
			break
		}
		select {
		case <-c.space:
		case <-c.closed:
			return false
		}
	}
	c.full.Store(false)
	return true
}

// signal makes the next receive from ch succeed.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (c *portableConn) Wait(timeout time.Duration) error {
	if c.shut.Load() {
		return transport.ErrClosed
	}
	if c.tail.Load() != c.head {
		select { // this return consumes a wake-up too
		case <-c.woken:
		default:
		}
		return nil
	}
	var expired <-chan time.Time
	if timeout >= 0 {
		c.timer.Reset(timeout)
		expired = c.timer.C
	}
	select {
	case <-c.ready:
	case <-c.woken:
	case <-expired:
	case <-c.closed:
		return transport.ErrClosed
	}
	return nil
}

func (c *portableConn) Wake() { signal(c.woken) }

func (c *portableConn) Stats() transport.Stats {
	s := c.stats
	s.RxDropped = c.oversize.Load()
	return s
}

func (c *portableConn) Close() error {
	if c.shut.Swap(true) {
		return nil
	}
	close(c.closed)
	err := c.conn.Close()
	<-c.done
	return err
}
