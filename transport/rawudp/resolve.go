package rawudp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/userspace-rpc/erpc/transport"
)

// resolve turns host:port into an address of one IP version. scope is the number of the
// interface, for link-local addresses.
func resolve(text string, v6 bool, scope uint32) (transport.Addr, error) {
	host, service, err := net.SplitHostPort(text)
	if err != nil || host == "" || service == "" {
		return transport.Addr{}, badAddress(text, "want host:port")
	}
	network := "udp4"
	if v6 {
		network = "udp6"
	}
	port, err := net.LookupPort(network, service)
	if err != nil || port == 0 {
		return transport.Addr{}, badAddress(text, "no such port")
	}
	ip, err := lookup(text, host, v6)
	if err != nil {
		return transport.Addr{}, err
	}
	if ip.IsMulticast() || ip.IsUnspecified() {
		return transport.Addr{}, badAddress(text, "not the address of one endpoint")
	}
	if !ip.IsLinkLocalUnicast() || !v6 {
		scope = 0
	} else if !sameZone(ip.Zone(), scope) {
		return transport.Addr{}, badAddress(text, "the zone is not the endpoint's interface")
	}
	return transport.AddrFrom(netip.AddrPortFrom(ip.WithZone(""), uint16(port)), scope), nil
}

func lookup(text, host string, v6 bool) (netip.Addr, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip = ip.Unmap(); ip.Is6() != v6 {
			return netip.Addr{}, badAddress(text, "the endpoint does not speak this IP version")
		}
		return ip, nil
	}
	network := "ip4"
	if v6 {
		network = "ip6"
	}
	ips, err := net.DefaultResolver.LookupNetIP(context.Background(), network, host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("rawudp: %w", err)
	}
	if len(ips) == 0 {
		return netip.Addr{}, badAddress(text, "no address")
	}
	return ips[0].Unmap(), nil
}

// sameZone reports whether zone, a name or number, is interface scope or left out.
func sameZone(zone string, scope uint32) bool {
	if zone == "" || zone == strconv.FormatUint(uint64(scope), 10) {
		return true
	}
	ifi, err := net.InterfaceByName(zone)
	return err == nil && uint32(ifi.Index) == scope
}
