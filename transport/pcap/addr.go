package pcap

import (
	"encoding/binary"
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
)

// Where addresses of networks without IP go, see the package documentation.
var (
	privatePrefix = [5]byte{0xFD, 'e', 'r', 'p', 'c'}
	discardOnly   = netip.MustParsePrefix("100::/64")
	discardHigh   = discardOnly.Addr().As16()
)

// place is an address as the made-up headers show it.
type place struct {
	ip   [16]byte // IPv4 as IPv4-mapped
	port uint16
}

// placeOf maps an address into what IP and UDP headers can hold.
func placeOf(a *transport.Addr) place {
	p := place{ip: a.IP, port: uint16(a.Port)}
	if a.Port <= 0xFFFF && [8]byte(a.IP[:8]) != [8]byte(discardHigh[:8]) {
		return p
	}
	copy(p.ip[:], privatePrefix[:])
	var more [4]byte
	binary.BigEndian.PutUint32(more[:], a.Scope^a.Port>>16)
	copy(p.ip[5:8], more[1:])
	return p
}

// is4 reports whether p has an IPv4 address.
func (p *place) is4() bool { return [12]byte(p.ip[:12]) == [12]byte{10: 0xFF, 11: 0xFF} }

// unspecified reports whether p has no IP address but "all of this machine's".
func (p *place) unspecified() bool {
	return p.ip == [16]byte{} || p.is4() && [4]byte(p.ip[12:]) == [4]byte{}
}

// alike makes the unspecified address of one family that of the other, if that saves a pair
// from being of two families.
func alike(a, b *place) {
	switch {
	case a.is4() == b.is4():
	case a.unspecified():
		a.unspecifiedLike(b)
	case b.unspecified():
		b.unspecifiedLike(a)
	}
}

func (p *place) unspecifiedLike(other *place) {
	p.ip = [16]byte{}
	if other.is4() {
		p.ip[10], p.ip[11] = 0xFF, 0xFF
	}
}
