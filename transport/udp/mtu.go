package udp

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
)

// Features says what the kernel offers to this package.
type Features struct {
	GSO         bool // UDP_SEGMENT: trains of packets can be sent
	GRO         bool // UDP_GRO: trains of packets can be received
	MaxSegments int  // packets in a train; 1 without GSO
	MultiCall   bool // sendmmsg and recvmmsg
	IPv6        bool
	DualStack   bool // an IPv6 socket speaks IPv4 too
	ECN         bool // the mark on received packets can be read
	RecvBuffer  int  // bytes granted when 8 MiB are asked for
	SendBuffer  int  // the same for sending
	ForceBuffer bool // this process may exceed the system's limit on buffers
	// Refused names what the system refuses to a socket, see [Conn.Refused].
	Refused []string
}

// payload returns how many bytes of UDP payload fit an IP packet of mtu bytes to dst.
func payload(mtu int, dst netip.Addr) int {
	if dst.Is4() {
		return min(mtu-28, MaxMTU4)
	}
	return min(mtu-48, MaxMTU6)
}

// InterfaceMTU returns the largest packet, in bytes of UDP payload, that fits
// the interface which packets to dst leave by. Nothing is sent.
func InterfaceMTU(dst transport.Addr) (int, error) {
	ap := dst.AddrPort()
	if !dst.IsValid() || ap.Port() == 0 {
		return 0, badAddress(dst.String(), "not an address to send to")
	}
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(ap))
	if err != nil {
		return 0, fmt.Errorf("udp: %w", err)
	}
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	conn.Close()
	ifis, err := net.Interfaces()
	if err != nil {
		return 0, fmt.Errorf("udp: %w", err)
	}
	for _, ifi := range ifis {
		addrs, err := ifi.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil &&
				p.Addr().WithZone("") == local.WithZone("") {
				return payload(ifi.MTU, ap.Addr()), nil
			}
			// All of 127.0.0.0/8 is local though only one address is listed.
			if p, err := netip.ParsePrefix(a.String()); err == nil && local.IsLoopback() &&
				p.Contains(local) {
				return payload(ifi.MTU, ap.Addr()), nil
			}
		}
	}
	return 0, fmt.Errorf("udp: no interface has the address %v", local)
}
