package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// implementation is common to both implementations: the contract but for what Conn does
// itself, and the errors that the network reported about packets sent earlier.
type implementation interface {
	Caps() transport.Caps
	LocalAddr() transport.Addr
	resolve(text string) ([]transport.Addr, error)
	TxBurst(items []transport.TxItem) (int, error)
	RxBurst(pkts []transport.RxPacket) (int, error)
	Wait(timeout time.Duration) error
	Nap(timeout time.Duration) error
	Wake()
	Stats() transport.Stats
	Close() error
	WaitFDs() []int
	PrepareWait() (idle bool, err error)
	FinishWait(ready uint32) error
	Waited() time.Duration
	Hints(hints []transport.Hint) int
	renew(dst *transport.Addr) error
	softErrors() uint64
	// refused names the options that the socket lacks.
	refused() []string
	// namespace returns a number of the network that the socket is in; ok is false if that cannot be
	// told, or it is closed.
	namespace() (id uint64, ok bool)
	// opening says that a session with dst opens now, on this side or the other.
	opening(dst *transport.Addr, now monotime.Time)
}

// Conn is a UDP socket as a transport.Transport.
type Conn struct {
	transport.Base
	impl implementation
	path pathMTU
	// What the system refuses, so that impl is the portable implementation.
	without []string
	names   nameBook
	kind    *kind // nil with a port of one's own; see Kind
	// Another Conn has the socket; see Detach.
	detached atomic.Bool
}

// kind is what two sockets have in common that differ in a port which the system chose. The network
// is filled in when it is asked for.
type kind struct {
	network uint64
	local   listenAddr
	cfg     Config
}

// pathMTU is the last answer of PathMTU, cached because sessions with the processes of one host
// repeat the query. Routes do not depend on ports.
type pathMTU struct {
	dst   transport.Addr
	mtu   int
	local bool // this machine has that address
	at    monotime.Time
}

// of reports whether the answer is that for the host of dst too.
func (p *pathMTU) of(dst *transport.Addr) bool {
	return p.dst.IP == dst.IP && p.dst.Scope == dst.Scope
}

// pathFor is how long the last answer holds.
const pathFor = time.Second

var _ transport.Transport = (*Conn)(nil)

// Listen opens a socket on addr: "host:port", where an empty host means every
// address, of both families where the system can, and port 0 one that the
// system picks. Errors match transport.ErrBadAddress, are a *ConfigError, or
// are those of the system. The caller must Close the Conn.
func Listen(addr string, cfg Config) (*Conn, error) {
	local, err := parseListen(addr)
	if err != nil {
		return nil, err
	}
	asked := cfg
	cfg, err = cfg.complete(!local.any && isIPv4(local.ap.Addr()))
	if err != nil {
		return nil, err
	}
	listen := listenKernel
	if cfg.Portable || !haveKernel {
		listen = listenPortable
	}
	impl, err := listen(local, cfg)
	if r := (*refusedError)(nil); errors.As(err, &r) {
		return listenWithout(local, asked, r)
	}
	if err != nil {
		return nil, err
	}
	c := &Conn{impl: impl}
	if local.ap.Port() == 0 && !cfg.ReusePort {
		c.kind = &kind{local: local, cfg: cfg}
	}
	return c, nil
}

// refusedError says that the system refuses a call that the implementation for Linux needs.
type refusedError struct {
	call string
	err  error
}

// Error implements error.
func (e *refusedError) Error() string {
	return fmt.Sprintf("udp: the system refuses %s: %v", e.call, e.err)
}

// Unwrap returns e.err.
func (e *refusedError) Unwrap() error { return e.err }

// listenWithout opens a socket by package net, since the system refuses another way.
func listenWithout(local listenAddr, cfg Config, why *refusedError) (*Conn, error) {
	cfg.Portable, cfg.ECN = true, false
	cfg, err := cfg.complete(!local.any && isIPv4(local.ap.Addr()))
	if err != nil {
		return nil, err
	}
	impl, err := listenPortable(local, cfg)
	if err != nil {
		return nil, errors.Join(why, err)
	}
	return &Conn{impl: impl, without: []string{why.call}}, nil
}

// Refused names the system calls and socket options that the system refused, as sandboxes do, and
// that this socket does without. One call is enough to make it that of package net, as with
// Config.Portable. Without IP_MTU_DISCOVER packets have 1232 bytes at most, without IP_RECVERR it
// hears no ICMP errors, and without IP_PKTINFO answers of a socket on all addresses leave from the
// one that the kernel chooses.
func (c *Conn) Refused() []string { return slices.Concat(c.impl.refused(), c.without) }

// Kind is that of all sockets in the same network which were opened with the same host, the same
// Config and port 0, see transport.Transport. Linux before 5.14 does not tell networks apart, so
// there it is nil, as it always is of the portable implementation on Linux.
func (c *Conn) Kind(self transport.Transport) any {
	if c.kind == nil || self != transport.Transport(c) {
		return nil
	}
	k, ok := *c.kind, false
	if k.network, ok = c.impl.namespace(); !ok {
		return nil
	}
	return k
}

// Caps returns what the transport can do.
func (c *Conn) Caps() transport.Caps { return c.impl.Caps() }

// LocalAddr returns the address of the socket. Its IP is zero if the socket
// listens on all addresses; peers then use any address of the machine, and on Linux each is
// answered from the one it used last.
func (c *Conn) LocalAddr() transport.Addr { return c.impl.LocalAddr() }

// Resolve turns "host:port" into an address that this socket can send to: of several one of IPv4,
// if there is a route.
func (c *Conn) Resolve(text string) (transport.Addr, error) {
	all, err := c.impl.resolve(text)
	if err != nil {
		return transport.Addr{}, err
	}
	c.names.note(text, all)
	return preferred(all), nil
}

// Addrs returns all addresses of "host:port" that this socket can send to, as Resolve has found
// them last: as the resolver sorts them (RFC 6724), with the families in turns.
func (c *Conn) Addrs(text string) []transport.Addr { return c.names.find(text) }

// TxBurst sends items, see transport.Transport.
func (c *Conn) TxBurst(items []transport.TxItem) (int, error) { return c.impl.TxBurst(items) }

// Flush does nothing: the kernel has copied every packet when TxBurst returns.
func (c *Conn) Flush() {}

// RxBurst receives packets, see transport.Transport.
func (c *Conn) RxBurst(pkts []transport.RxPacket) (int, error) { return c.impl.RxBurst(pkts) }

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(timeout time.Duration) error { return c.impl.Wait(timeout) }

// Nap is Wait, but packets do not end it, see transport.Transport. The portable implementation has
// none.
func (c *Conn) Nap(timeout time.Duration) error { return c.impl.Nap(timeout) }

// WaitFDs returns what to poll, see transport.Transport. The portable implementation has none.
func (c *Conn) WaitFDs() []int { return c.impl.WaitFDs() }

// PrepareWait begins a wait, see transport.Transport.
func (c *Conn) PrepareWait() (idle bool, err error) { return c.impl.PrepareWait() }

// FinishWait ends a wait, see transport.Transport.
func (c *Conn) FinishWait(ready uint32) error { return c.impl.FinishWait(ready) }

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() { c.impl.Wake() }

// Stats returns counters since the start. It may make a system call.
func (c *Conn) Stats() transport.Stats { return c.impl.Stats() }

// SoftErrors returns how many errors the network reported about packets sent
// earlier, such as ICMP "port unreachable". Only for the using goroutine.
func (c *Conn) SoftErrors() uint64 { return c.impl.softErrors() }

// Waited returns how long the first packet of the last RxBurst has waited, see transport.Transport:
// since the kernel met it (SO_TIMESTAMPNS). The portable implementation does not know, and this one
// does not either while it reads packets that come alone.
func (c *Conn) Waited() time.Duration { return c.impl.Waited() }

// Hints returns what the network has said, see transport.Transport. The portable implementation
// hears nothing.
func (c *Conn) Hints(hints []transport.Hint) int { return c.impl.Hints(hints) }

// Renew has packets to dst leave by another port from now on, see transport.Transport. The portable
// implementation has none, a socket on a port that was asked for keeps to that, and one that was
// opened in another network namespace than the calling thread's keeps to its own.
func (c *Conn) Renew(dst transport.Addr) error { return c.impl.renew(&dst) }

// Close frees the socket, see transport.Transport. It does nothing if the socket was detached.
func (c *Conn) Close() error {
	if c.detached.Load() {
		return nil
	}
	return c.impl.Close()
}

// Detach returns a Conn of the same socket, see transport.Sharable. Clients of erpc.Dial share it.
func (c *Conn) Detach() transport.Transport {
	c.detached.Store(true)
	return &Conn{impl: c.impl, kind: c.kind, without: c.without}
}

// Path describes the way to dst. The MTU is that of PathMTU, at most Caps.MTU, and Caps.MTU
// if PathMTU fails.
func (c *Conn) Path(dst transport.Addr) transport.Path {
	p := transport.Path{MTU: c.Caps().MTU, HostDelay: hostDelay, Checksummed: true}
	now := monotime.Now()
	c.impl.opening(&dst, now)
	if c.path.at == 0 || !c.path.of(&dst) || now.Sub(c.path.at) > pathFor {
		mtu, local, err := route(dst)
		if err != nil {
			return p
		}
		c.path = pathMTU{dst, mtu, local, now}
	}
	// A route may have an MTU that is less than the headers.
	p.MTU, p.Local = max(1, min(c.path.mtu, p.MTU)), c.path.local
	return p
}

// isIPv4 reports whether ip is an IPv4 address, mapped or not.
func isIPv4(ip netip.Addr) bool { return ip.Unmap().Is4() }
