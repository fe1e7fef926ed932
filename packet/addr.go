package packet

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// Addr is the address of an endpoint: 24 bytes, comparable, without pointers, so
// that it can be a map key and be copied freely. The zero Addr is no address.
//
// IP transports keep an IPv6 address (or an IPv4-mapped one) in IP, the UDP port
// in Port and the IPv6 scope in Scope. Other networks use the fields as they
// need (InfiniBand: GID and queue pair number).
type Addr struct {
	IP    [16]byte
	Port  uint32
	Scope uint32
}

// AddrFrom returns the Addr of an IP address and port. A named IPv6 zone must be
// given as its interface number in scope, since Addr holds no strings.
func AddrFrom(ap netip.AddrPort, scope uint32) Addr {
	return Addr{IP: ap.Addr().As16(), Port: uint32(ap.Port()), Scope: scope}
}

// AddrPort returns a as an IP address and port. IPv4-mapped addresses come back as IPv4.
func (a Addr) AddrPort() netip.AddrPort {
	ip := netip.AddrFrom16(a.IP).Unmap()
	if a.Scope != 0 {
		ip = ip.WithZone(strconv.FormatUint(uint64(a.Scope), 10))
	}
	return netip.AddrPortFrom(ip, uint16(a.Port))
}

// IsValid reports whether a is an address at all.
func (a Addr) IsValid() bool { return a != Addr{} }

// String returns the address as text, "10.0.0.1:31850" or "[::1]:31850".
func (a Addr) String() string { return a.AddrPort().String() }

// Append appends the 24 bytes of the address to b, for hashing.
func (a Addr) Append(b []byte) []byte {
	b = append(b, a.IP[:]...)
	b = binary.LittleEndian.AppendUint32(b, a.Port)
	return binary.LittleEndian.AppendUint32(b, a.Scope)
}
