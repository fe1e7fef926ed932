package afpacket

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/transport/rawudp"
)

// match is one condition on a frame: the size bytes at an offset, and with the mask, have
// the value. Both are in network order, left-aligned.
type match struct {
	at, size    int
	mask, value uint32
}

// matches returns the conditions on a frame, from the destination MAC address on and
// without 802.1Q tag, under which it is a datagram to the endpoint. They are those of
// the codec, lengths and checksums aside: no fragments, options or extension headers.
func matches(l rawudp.Local) []match {
	port := match{size: 2, mask: 0xFFFF, value: uint32(l.Port)}
	if l.IP.Is4() {
		ip := l.IP.As4()
		port.at = 36
		return []match{
			{12, 2, 0xFFFF, 0x0800},
			{14, 1, 0xFF, 0x45},
			{20, 2, 0x3FFF, 0}, // more fragments, and the offset
			{23, 1, 0xFF, 17},
			{30, 4, 0xFFFFFFFF, binary.BigEndian.Uint32(ip[:])},
			port,
		}
	}
	ip := l.IP.As16()
	port.at = 56
	list := []match{{12, 2, 0xFFFF, 0x86DD}, {14, 1, 0xF0, 0x60}, {20, 1, 0xFF, 17}}
	for i := 0; i < 16; i += 4 {
		list = append(list, match{38 + i, 4, 0xFFFFFFFF, binary.BigEndian.Uint32(ip[i:])})
	}
	return append(list, port)
}
