package udp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/userspace-rpc/erpc/transport"
)

// listenAddr is the parsed address of a socket to open.
type listenAddr struct {
	any   bool // no host was given: all addresses of both families
	ap    netip.AddrPort
	scope uint32
}

// wildcard reports whether the socket listens on more addresses than one.
func (l listenAddr) wildcard() bool { return l.any || l.ap.Addr().Unmap().IsUnspecified() }

func badAddress(text, why string) error {
	return fmt.Errorf("udp: %w: %q: %s", transport.ErrBadAddress, text, why)
}

func parseListen(text string) (listenAddr, error) {
	host, _, err := net.SplitHostPort(text)
	if err != nil {
		return listenAddr{}, badAddress(text, "want host:port")
	}
	if host == "" {
		host = "[::]"
		ap, _, err := resolve("udp", host+text)
		return listenAddr{any: true, ap: ap}, err
	}
	ap, scope, err := resolve("udp", text)
	return listenAddr{ap: ap, scope: scope}, err
}

// resolve turns host:port into an address of the network "udp", "udp4" or "udp6".
func resolve(network, text string) (netip.AddrPort, uint32, error) {
	all, err := resolveAll(network, text)
	if err != nil {
		return netip.AddrPort{}, 0, err
	}
	a := preferred(all)
	return a.AddrPort(), a.Scope, nil
}

// resolveAll turns host:port into all its addresses of the network, in the order to try.
func resolveAll(network, text string) ([]transport.Addr, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil || host == "" || service == "" {
		return nil, badAddress(text, "want host:port")
	}
	port, err := net.LookupPort(network, service)
	if err != nil {
		return nil, badAddress(text, "no such port")
	}
	ips, err := lookup(network, text, host)
	if err != nil {
		return nil, err
	}
	var all []transport.Addr
	for _, ip := range ips {
		// The kernel reports a scope with link-local addresses only; with others it
		// would make equal addresses differ.
		var scope uint32
		if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() {
			if scope, err = scopeOf(ip.Zone()); err != nil {
				return nil, badAddress(text, err.Error())
			}
		}
		a := transport.AddrFrom(netip.AddrPortFrom(ip.WithZone(""), uint16(port)), scope)
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, nil
}

// lookupIP is the resolver, but in tests.
var lookupIP = func(ctx context.Context, network, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, network, host)
}

// lookup returns the addresses of a host, at least one, as the resolver sorts them (RFC 6724).
func lookup(network, text, host string) ([]netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if network != "udp" && isIPv4(ip) != (network == "udp4") {
			return nil, badAddress(text, "the socket does not speak this IP version")
		}
		return []netip.Addr{ip}, nil
	}
	ips, err := lookupIP(context.Background(), "ip"+network[len("udp"):], host)
	if err != nil {
		return nil, fmt.Errorf("udp: %w", err)
	}
	if len(ips) == 0 {
		return nil, badAddress(text, "no address")
	}
	for i := range ips {
		ips[i] = ips[i].Unmap()
	}
	return ips, nil
}

// preferred returns the address for those who want one: like package net, that of IPv4.
func preferred(all []transport.Addr) transport.Addr {
	for _, a := range all {
		if isMapped(&a.IP) {
			return a
		}
	}
	return all[0]
}

// isMapped reports whether ip is an IPv4-mapped address, ::ffff:a.b.c.d.
func isMapped(ip *[16]byte) bool {
	return binary.LittleEndian.Uint64(ip[:]) == 0 && binary.LittleEndian.Uint32(ip[8:]) == 0xFFFF0000
}

// interleave lets the families take turns, from that of the first address on (RFC 8305, section 4).
func interleave(all []transport.Addr) []transport.Addr {
	first := isMapped(&all[0].IP)
	var mixed, same, other []transport.Addr
	for _, a := range all {
		if isMapped(&a.IP) == first {
			same = append(same, a)
		} else {
			other = append(other, a)
		}
	}
	for i := range max(len(same), len(other)) {
		mixed = append(mixed, same[min(i, len(same)):min(i+1, len(same))]...)
		mixed = append(mixed, other[min(i, len(other)):min(i+1, len(other))]...)
	}
	return mixed
}

// reachable returns those of several addresses to which a socket on local has a route, or all if it
// has none. Nothing is sent.
func reachable(local netip.Addr, all []transport.Addr) []transport.Addr {
	if len(all) == 1 {
		return all
	}
	var good []transport.Addr
	for _, a := range all {
		from := &net.UDPAddr{}
		if !local.IsUnspecified() && isIPv4(local) == isMapped(&a.IP) {
			from.IP = local.AsSlice()
		}
		to := net.UDPAddrFromAddrPort(a.AddrPort())
		if a.Scope != 0 {
			to.Zone = strconv.FormatUint(uint64(a.Scope), 10)
		}
		if c, err := net.DialUDP("udp", from, to); err == nil {
			c.Close()
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return all
	}
	return good
}

// peers turns text into the addresses that a socket on local can send to, in the order to try.
func peers(network, text string, local netip.Addr) ([]transport.Addr, error) {
	all, err := resolveAll(network, text)
	if err != nil {
		return nil, err
	}
	if all[0].Port == 0 {
		return nil, badAddress(text, "port 0 cannot be sent to")
	}
	all = interleave(reachable(local, all))
	return all[:min(len(all), transport.MaxAddrs)], nil
}

// maxNames is how many names a nameBook holds.
const maxNames = 64

// nameBook holds the addresses of the names that were looked up last, if they have several. Safe
// from any goroutine.
type nameBook struct {
	mu    sync.Mutex
	addrs map[string][]transport.Addr
}

// note keeps the addresses of a name. Some other one makes room.
func (b *nameBook) note(text string, all []transport.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.addrs, text)
	if len(all) == 1 {
		return
	}
	for other := range b.addrs {
		if len(b.addrs) < maxNames {
			break
		}
		delete(b.addrs, other)
	}
	if b.addrs == nil {
		b.addrs = make(map[string][]transport.Addr)
	}
	b.addrs[text] = all
}

// find returns the addresses of a name, in a slice of the caller's own; nil if they are not kept.
func (b *nameBook) find(text string) []transport.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.addrs[text])
}

// scopeOf returns the number of the interface that an IPv6 zone names.
func scopeOf(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if ifi, err := net.InterfaceByName(zone); err == nil {
		return uint32(ifi.Index), nil
	}
	n, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0, errors.New("no such interface: " + zone)
	}
	return uint32(n), nil
}

// network names what a socket on local speaks, for resolve. dual says that an
// IPv6 socket speaks IPv4 too.
func networkOf(ip netip.Addr, dual bool) string {
	switch {
	case isIPv4(ip):
		return "udp4"
	case dual:
		return "udp"
	}
	return "udp6"
}
