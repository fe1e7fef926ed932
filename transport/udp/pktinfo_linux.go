package udp

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Structures of RFC 3542, section 6, and ip(7), in bytes.
const (
	pktinfo4Len = unix.SizeofInet4Pktinfo // int ifindex, local address, destination
	pktinfo6Len = unix.SizeofInet6Pktinfo // destination, unsigned ifindex
)

// pktinfoOptions asks for the destination of each received message. A dual-stack socket takes
// IPv4 ones from IP_PKTINFO: it tells broadcasts apart, which the mapped address does not.
func pktinfoOptions(ip4 bool) []option {
	opts := []option{{"IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO, 1}}
	if ip4 {
		return opts
	}
	return append(opts, option{"IPV6_RECVPKTINFO", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1})
}

// pktinfoControl appends to b a control message that says where a message leaves from. Its
// address is left zero.
func pktinfoControl(b []byte, ip4 bool) []byte {
	if ip4 {
		return appendControl(b, unix.SOL_IP, unix.IP_PKTINFO, pktinfo4Len)
	}
	return appendControl(b, unix.SOL_IPV6, unix.IPV6_PKTINFO, pktinfo6Len)
}

// put writes src into body, the body of pktinfoControl. A dual-stack socket takes mapped
// addresses too.
func (src *source) put(body []byte, ip4 bool) {
	if ip4 {
		copy(body[4:8], src.ip[12:])
		return
	}
	copy(body, src.ip[:])
	binary.NativeEndian.PutUint32(body[16:], src.ifindex)
}

// get4 sets src to the destination in body, an IP_PKTINFO. A broadcast or multicast leaves src
// as it is: there the local address differs from the destination.
func (src *source) get4(body []byte) {
	local, dst := [4]byte(body[4:8]), [4]byte(body[8:12])
	if local == dst && local != [4]byte{} {
		*src = source{ip: [16]byte{10: 0xFF, 11: 0xFF}}
		copy(src.ip[12:], local[:])
	}
}

// get6 sets src to the destination in body, an IPV6_PKTINFO. A multicast leaves src as it is, and
// a mapped address, which IP_PKTINFO has too.
func (src *source) get6(body []byte) {
	ip := [16]byte(body)
	if ip[0] == 0xFF || isMapped(&ip) || ip == [16]byte{} {
		return
	}
	*src = source{ip: ip}
	if ip[0] == 0xFE && ip[1]&0xC0 == 0x80 {
		src.ifindex = binary.NativeEndian.Uint32(body[16:])
	}
}
