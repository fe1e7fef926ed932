package auto

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
)

// hostsFor is how long the list of this machine's addresses holds.
const hostsFor = time.Second

// nameOf returns the name in shared memory of the endpoint whose UDP socket is bound to ap
// in network namespace ns: at most 64 bytes.
func nameOf(ns uint64, ap netip.AddrPort, scope uint32) string {
	ip := ap.Addr().WithZone("").Unmap()
	text := ip.String()
	if ip.Is6() {
		b := ip.As16()
		text = hex.EncodeToString(b[:]) // names have no colons
		if scope != 0 {
			text += "." + strconv.FormatUint(uint64(scope), 10)
		}
	}
	return fmt.Sprintf("udp-%d-%s-%d", ns, text, ap.Port())
}

// namesFor returns the names of the sockets that get packets to ap, which is an address
// of this machine: one bound to it, one to all addresses of its family, one to all.
func namesFor(ns uint64, ap netip.AddrPort, scope uint32) []string {
	ip := ap.Addr().WithZone("").Unmap()
	names := []string{nameOf(ns, ap, scope)}
	if ip.Is4() {
		names = append(names, nameOf(ns, netip.AddrPortFrom(netip.IPv4Unspecified(), ap.Port()), 0))
	}
	return append(names, nameOf(ns, netip.AddrPortFrom(netip.IPv6Unspecified(), ap.Port()), 0))
}

// Resolve turns "host:port" into an address in shared memory if the peer is reached that
// way, else into one of UDP. It takes the text of either kind of address too. It may block
// for the name service, and some seconds for a peer on this machine that does not answer.
func (c *Conn) Resolve(text string) (transport.Addr, error) {
	if isShared(text) {
		if c.shm == nil {
			return transport.Addr{}, fmt.Errorf(
				"auto: %w: %.80q lies in shared memory, and this endpoint has none: %w",
				transport.ErrBadAddress, text, c.why)
		}
		return c.shm.Resolve(text)
	}
	a, err := c.udp.Resolve(text)
	if err != nil || c.shm == nil {
		return a, err
	}
	return c.nearer(a)
}

// Addrs returns all addresses of "host:port" as Resolve has found them last, those in shared memory
// first.
func (c *Conn) Addrs(text string) []transport.Addr {
	all := c.udp.Addrs(text)
	if c.shm == nil || len(all) == 0 {
		return all
	}
	var near, far []transport.Addr
	for _, a := range all {
		switch b, err := c.nearer(a); {
		case err != nil:
		case b == a:
			far = append(far, a)
		case !slices.Contains(near, b):
			near = append(near, b)
		}
	}
	return append(near, far...)
}

// nearer returns the address in shared memory of the peer at an address of UDP, if it is on this
// machine and has one, else that address.
func (c *Conn) nearer(a transport.Addr) (transport.Addr, error) {
	ap := a.AddrPort()
	if ip := ap.Addr().Unmap(); ip.IsUnspecified() { // the kernel takes it for loopback
		loopback := netip.IPv6Loopback()
		if ip.Is4() {
			loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		ap = netip.AddrPortFrom(loopback, ap.Port())
	}
	if !c.hosts.local(ap.Addr(), a.Scope) {
		return a, nil
	}
	for _, name := range namesFor(c.ns, ap, a.Scope) {
		shared, err := c.shm.Resolve(name)
		if err == nil {
			return shared, nil
		}
		if errors.Is(err, transport.ErrClosed) {
			return transport.Addr{}, err
		}
	}
	return a, nil
}

// isShared reports whether text is that of an address in shared memory.
func isShared(text string) bool {
	ap, err := netip.ParseAddrPort(text)
	if err != nil {
		return false
	}
	scope, err := strconv.ParseUint(ap.Addr().Zone(), 10, 32)
	a := transport.AddrFrom(ap, uint32(scope))
	return err == nil && shm.IsAddr(&a)
}

// hosts knows the addresses of this machine. Safe from any goroutine.
type hosts struct {
	mu  sync.Mutex
	ips map[netip.Addr]bool
	at  monotime.Time // when they were read
}

// local reports whether ip is an address of this machine. scope is the interface of a
// link-local one, which means something else on each interface.
func (h *hosts) local(ip netip.Addr, scope uint32) bool {
	ip = ip.WithZone("").Unmap()
	switch {
	case ip.IsLoopback():
		return true
	case ip.IsLinkLocalUnicast() && ip.Is6():
		ifi, err := net.InterfaceByIndex(int(scope))
		if err != nil {
			return false
		}
		addrs, err := ifi.Addrs()
		return err == nil && setOf(addrs)[ip]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := monotime.Now(); h.at == 0 || now.Sub(h.at) > hostsFor {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return false
		}
		h.ips, h.at = setOf(addrs), now
	}
	return h.ips[ip]
}

// setOf returns the set of the IP addresses in addrs.
func setOf(addrs []net.Addr) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(addrs))
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				set[ip.Unmap()] = true
			}
		}
	}
	return set
}
