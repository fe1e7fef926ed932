package ud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/userspace-rpc/erpc/transport"
)

func badAddress(text, why string) error {
	return fmt.Errorf("ud: %w: %.100q: %s", transport.ErrBadAddress, text, why)
}

// addrOf returns ap as an address; a zone as its number, where it matters.
func addrOf(ap netip.AddrPort) transport.Addr {
	ip := ap.Addr()
	var scope uint32
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() {
		scope, _ = scopeOf(ip.Zone())
	}
	return transport.AddrFrom(netip.AddrPortFrom(ip.WithZone("").Unmap(), ap.Port()), scope)
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

// parse splits "host:port" and looks both up. An empty host gives an invalid address.
func parse(text string) (netip.AddrPort, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil || service == "" {
		return netip.AddrPort{}, badAddress(text, "want host:port")
	}
	port, err := net.LookupPort("udp", service)
	if err != nil {
		return netip.AddrPort{}, badAddress(text, "no such port")
	}
	var ip netip.Addr
	if host != "" {
		if ip, err = lookup(text, host); err != nil {
			return netip.AddrPort{}, err
		}
	}
	return netip.AddrPortFrom(ip, uint16(port)), nil
}

func lookup(text, host string) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if _, err := scopeOf(ip.Zone()); err != nil {
			return ip, badAddress(text, err.Error())
		}
		return ip.Unmap(), nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), "ip", host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("ud: %w", err)
	}
	if len(ips) == 0 {
		return netip.Addr{}, badAddress(text, "no address")
	}
	for _, ip := range ips { // like package net, prefer IPv4 where both do
		if ip.Unmap().Is4() {
			return ip.Unmap(), nil
		}
	}
	return ips[0], nil
}

// resolvePeer is parse for an address to send to.
func resolvePeer(text string) (transport.Addr, error) {
	ap, err := parse(text)
	switch {
	case err != nil:
		return transport.Addr{}, err
	case !ap.Addr().IsValid():
		return transport.Addr{}, badAddress(text, "want host:port")
	case ap.Port() == 0:
		return transport.Addr{}, badAddress(text, "port 0 cannot be sent to")
	}
	return addrOf(ap), nil
}
