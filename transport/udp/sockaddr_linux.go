package udp

import (
	"encoding/binary"
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// sockaddr is struct sockaddr_in or sockaddr_in6 as bytes, rounded up in size.
type sockaddr [32]byte

const (
	sockaddr4Len = 16
	sockaddr6Len = 28
)

// put writes dst in the form of the socket's family and reports whether the
// family can express it.
func (s *sockaddr) put(dst *transport.Addr, ip4 bool) bool {
	if dst.Port == 0 || dst.Port > 65535 {
		return false
	}
	binary.BigEndian.PutUint16(s[2:], uint16(dst.Port))
	if !ip4 {
		binary.NativeEndian.PutUint16(s[0:], unix.AF_INET6)
		*(*[16]byte)(s[8:]) = dst.IP
		binary.NativeEndian.PutUint32(s[24:], dst.Scope)
		return true
	}
	binary.NativeEndian.PutUint16(s[0:], unix.AF_INET)
	*(*[4]byte)(s[4:]) = [4]byte(dst.IP[12:])
	return isMapped(&dst.IP)
}

// isMapped reports whether ip is an IPv4-mapped address, ::ffff:a.b.c.d.
func isMapped(ip *[16]byte) bool {
	return binary.LittleEndian.Uint64(ip[:]) == 0 && binary.LittleEndian.Uint32(ip[8:]) == 0xFFFF0000
}

// get sets a to the address that the kernel wrote into s.
func (s *sockaddr) get(a *transport.Addr) {
	a.Port = uint32(binary.BigEndian.Uint16(s[2:]))
	if binary.NativeEndian.Uint16(s[0:]) == unix.AF_INET6 {
		a.IP = [16]byte(s[8:])
		a.Scope = binary.NativeEndian.Uint32(s[24:])
		return
	}
	a.IP = [16]byte{10: 0xFF, 11: 0xFF, 12: s[4], 13: s[5], 14: s[6], 15: s[7]}
	a.Scope = 0
}

// sockaddrOf returns l in the form that package unix wants.
func (l listenAddr) sockaddr() unix.Sockaddr {
	port := int(l.ap.Port())
	if isIPv4(l.ap.Addr()) {
		return &unix.SockaddrInet4{Port: port, Addr: l.ap.Addr().Unmap().As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: l.ap.Addr().As16(), ZoneId: l.scope}
}

// addrOf is the way back.
func addrOf(sa unix.Sockaddr) transport.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return transport.AddrFrom(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), 0)
	case *unix.SockaddrInet6:
		return transport.AddrFrom(netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)),
			sa.ZoneId)
	}
	return transport.Addr{}
}
