package rawudp

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/transport"
)

// hostDelay is two hosts' part of a round trip without any congestion: see package udp.
const hostDelay = 100 * time.Microsecond

// txBatch is half of what is usually in flight: see package udp.
const txBatch = 32

// Conn is an endpoint over a frame device: a transport.Transport.
type Conn struct {
	transport.Base
	dev   Device
	net   Network
	codec *Codec
	cfg   Config
	caps  transport.Caps
	local transport.Addr

	tx     transmitter
	rx     receiver
	link   linkState
	errors errorQueue

	sleeper poll.Sleeper

	polls  uint32 // calls of RxBurst
	closed atomic.Bool
}

var _ transport.Transport = (*Conn)(nil)

// New returns a Conn that owns dev and n from now on, also if there is an error. dev is
// attached to the link of n.
func New(dev Device, n Network, local Local, cfg Config) (c *Conn, err error) {
	c = &Conn{dev: dev, net: n, cfg: cfg}
	defer func() {
		if err != nil {
			dev.Close()
			n.Close()
		}
	}()
	link := n.Link()
	local.MAC = link.MAC
	if c.codec, err = NewCodec(local); err != nil {
		return nil, err
	}
	if c.cfg.LinkGrace == 0 {
		c.cfg.LinkGrace = defaultGrace
	}
	if c.cfg.NeighbourTimeout == 0 {
		c.cfg.NeighbourTimeout = defaultNeighbour
	}
	dc := dev.Caps()
	fits := min(c.codec.MaxPayload(link.MTU), dc.FrameSize-c.codec.HeaderSize())
	mtu := cfg.MTU
	if mtu == 0 {
		mtu = min(DefaultMTU, fits)
	}
	if mtu = min(mtu, fits); mtu < MinMTU {
		return nil, fmt.Errorf("rawudp: %s: %w: packets of %d bytes, at least %d are needed",
			link.Name, transport.ErrUnsupported, mtu, MinMTU)
	}
	local = c.codec.Local()
	c.local = transport.AddrFrom(netip.AddrPortFrom(local.IP, local.Port), local.Scope)
	c.caps = transport.Caps{Name: dc.Name, MTU: mtu, RxRing: dc.RxRing, TxCopies: dc.TxCopies,
		TxBatch: txBatch, TxCostly: true, ECN: local.ECN}
	c.tx.init(c, dc)
	c.rx.init(c)
	c.errors.init(dev, local)
	c.link.set(link, 0)
	if err = c.initWait(); err != nil {
		return nil, err
	}
	return c, nil
}

// Caps returns what the transport can do.
func (c *Conn) Caps() transport.Caps { return c.caps }

// LocalAddr returns the address that peers send to.
func (c *Conn) LocalAddr() transport.Addr { return c.local }

// Resolve turns "host:port" into an address of the endpoint's IP version, and waits until the
// neighbour on the way there is known. Errors match transport.ErrBadAddress, are the
// resolver's, or are a *NeighbourError.
func (c *Conn) Resolve(text string) (transport.Addr, error) {
	if c.closed.Load() {
		return transport.Addr{}, transport.ErrClosed
	}
	a, err := resolve(text, c.codec.v6, c.local.Scope)
	if err != nil {
		return transport.Addr{}, err
	}
	if a.IP != c.local.IP { // frames to oneself never come back: nobody to look for
		if _, err := c.net.Await(a.AddrPort().Addr(), c.cfg.NeighbourTimeout); err != nil {
			return transport.Addr{}, err
		}
	}
	return a, nil
}

// TxBurst sends items, see transport.Transport. A packet to an address whose neighbour is not
// known is dropped, while the kernel looks for the neighbour. Errors are a *LinkError.
func (c *Conn) TxBurst(items []transport.TxItem) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	if c.link.sick {
		if err := c.linkErr(); err != nil {
			return 0, err
		}
		c.tx.dropped += uint64(len(items))
		return len(items), nil
	}
	n, err := c.tx.burst(items)
	if err != nil {
		if err = c.fault(err); err == nil { // the link's grace begins
			c.tx.dropped += uint64(len(items) - n)
			n = len(items)
		}
	}
	return n, err
}

// Link returns the state of the link, as last seen. Only for the using goroutine.
func (c *Conn) Link() Link { return c.link.Link }

// Flush returns when the device refers to no packet any more.
func (c *Conn) Flush() {
	if !c.caps.TxCopies && !c.closed.Load() {
		c.dev.Flush()
	}
}

// How often RxBurst looks after the link and the neighbours, and after what the network says of
// packets: a spinning endpoint never sleeps on their descriptors. A look costs a system call or
// two.
const (
	tendEvery     = 4096
	tendEveryBusy = 64 // while something is expected
	heedEvery     = 512
)

// RxBurst receives packets, see transport.Transport. Errors are a *LinkError.
func (c *Conn) RxBurst(pkts []transport.RxPacket) (int, error) {
	if c.closed.Load() {
		return 0, transport.ErrClosed
	}
	c.polls++
	if c.polls%tendEveryBusy == 0 && (c.polls%tendEvery == 0 || c.link.sick || c.tx.pending > 0) {
		c.tend()
	}
	if c.polls%heedEvery == 0 {
		c.errors.read()
	}
	if c.link.sick {
		if err := c.linkErr(); err != nil {
			return 0, err
		}
	}
	n, err := c.rx.burst(pkts)
	if err != nil {
		err = c.fault(err)
	}
	return n, err
}

// Stats returns counters since the start. It may make a system call.
func (c *Conn) Stats() transport.Stats {
	d := c.dev.Stats()
	t, r := &c.tx, &c.rx
	return transport.Stats{
		TxPackets: t.packets, TxBytes: t.bytes, TxDropped: t.dropped, TxStalls: t.stalls,
		TxCalls:   d.TxCalls,
		RxPackets: r.packets, RxBytes: r.bytes, RxDropped: r.dropped + d.RxDropped, RxCalls: d.RxCalls,
	}
}

// Rejects returns how many frames reached the endpoint that were not for it, by reason.
// Only for the using goroutine.
func (c *Conn) Rejects() Rejects { return c.rx.rejects }

// Path describes the way to any destination: all of them lead over one link. The MTU follows
// that of the link.
func (c *Conn) Path(transport.Addr) transport.Path {
	// A link may have an MTU that is less than the headers.
	return transport.Path{
		MTU: max(1, c.tx.limit), HostDelay: hostDelay, Checksummed: !c.codec.local.NoChecksum,
	}
}

// Close frees everything, see transport.Transport.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	c.sleeper.Stop() // a blocked Wait has returned now
	defer c.sleeper.Free()
	c.net.Close()
	if err := c.dev.Close(); err != nil {
		return fmt.Errorf("%s: %w", c.caps.Name, err)
	}
	return nil
}

// linkState is the Conn's view of its link.
type linkState struct {
	Link
	sick  bool
	since monotime.Time // when it became sick
	err   *LinkError    // while sick
}

// set takes note of the state that the link has now.
func (s *linkState) set(l Link, now monotime.Time) {
	why := error(nil)
	switch {
	case l.Index == 0:
		why = ErrLinkGone
	case !l.Up:
		why = ErrLinkDown
	}
	s.Link = l
	if why == nil {
		s.sick, s.err = false, nil
		return
	}
	if !s.sick {
		s.since = now
	}
	if !s.sick || s.err.Err != why {
		s.err = &LinkError{Link: l.Name, Err: why}
	}
	s.sick = true
}

// linkErr returns the error that bursts return while the link is sick, nil while it is
// given time. It looks first whether that still holds.
func (c *Conn) linkErr() error {
	s := &c.link
	grace := c.cfg.LinkGrace
	if s.err.Err == ErrLinkDown && grace > 0 && monotime.Now().Sub(s.since) < grace {
		return nil
	}
	if c.tend(); !s.sick {
		return nil
	}
	return s.err
}

// fault deals with an error of the device: those of the link are given time.
func (c *Conn) fault(err error) error {
	if err != ErrLinkDown && err != ErrLinkGone {
		return fmt.Errorf("%s: %s: %w", c.caps.Name, c.link.Name, err)
	}
	c.tend()
	if !c.link.sick {
		// The kernel has not announced the change yet, or it is over already: the device's
		// word counts, and the next look takes it back.
		l := c.link.Link
		l.Up = false
		c.link.set(l, monotime.Now())
	}
	return c.linkErr()
}

// confirmEvery is how often the kernel hears which neighbours are in use.
const confirmEvery = 10 * time.Second

// tend looks after the link and the neighbours.
func (c *Conn) tend() {
	now := monotime.Now()
	routes, changed := c.net.Poll(c.tx.onNeighbour)
	if routes {
		c.tx.forget()
	}
	if l := c.net.Link(); changed || c.link.sick && l != c.link.Link {
		c.relink(l, now)
	}
	_ = c.dev.Fault() // the network says the same with more to it
	if now.Sub(c.tx.confirmed) > confirmEvery {
		c.tx.confirmed = now
		c.tx.confirm()
	}
}

// relink follows a change of the link.
func (c *Conn) relink(l Link, now monotime.Time) {
	old := c.link.Link
	if l.Index != 0 && (l.Index != old.Index || l.Up && c.link.sick) {
		if err := c.dev.Attach(l); err != nil {
			l.Up = false // gone or down again; another change will tell
		}
	}
	c.link.set(l, now)
	if l.Index == 0 {
		return
	}
	if l.MAC != c.codec.local.MAC {
		local := c.codec.local
		local.MAC = l.MAC
		c.codec, _ = NewCodec(local) // it was right before
	}
	c.tx.limit = min(c.caps.MTU, c.codec.MaxPayload(l.MTU))
	c.tx.forget()
}
