package udp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

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
	host, service, err := net.SplitHostPort(text)
	if err != nil || host == "" || service == "" {
		return netip.AddrPort{}, 0, badAddress(text, "want host:port")
	}
	port, err := net.LookupPort(network, service)
	if err != nil {
		return netip.AddrPort{}, 0, badAddress(text, "no such port")
	}
	ip, err := lookup(network, text, host)
	if err != nil {
		return netip.AddrPort{}, 0, err
	}
	// The kernel reports a scope with link-local addresses only; with others it
	// would make equal addresses differ.
	var scope uint32
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() {
		if scope, err = scopeOf(ip.Zone()); err != nil {
			return netip.AddrPort{}, 0, badAddress(text, err.Error())
		}
	}
	return netip.AddrPortFrom(ip.WithZone(""), uint16(port)), scope, nil
}

func lookup(network, text, host string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if network != "udp" && isIPv4(ip) != (network == "udp4") {
			return netip.Addr{}, badAddress(text, "the socket does not speak this IP version")
		}
		return ip, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip"+network[len("udp"):], host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("udp: %w", err)
	}
	if len(ips) == 0 {
		return netip.Addr{}, badAddress(text, "no address")
	}
	for _, ip := range ips { // like package net, prefer IPv4 where both do
		if isIPv4(ip) {
			return ip.Unmap(), nil
		}
	}
	return ips[0], nil
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

// resolvePeer is resolve for an address to send to.
func resolvePeer(network, text string) (transport.Addr, error) {
	ap, scope, err := resolve(network, text)
	if err != nil {
		return transport.Addr{}, err
	}
	if ap.Port() == 0 {
		return transport.Addr{}, badAddress(text, "port 0 cannot be sent to")
	}
	return transport.AddrFrom(ap, scope), nil
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
