package afxdp

import "encoding/binary"

// isPartial reports whether the UDP checksum field of a frame that the program let in holds the sum
// of the pseudo header only: the sender's kernel left the rest to hardware that the frame never
// met. The program sees the frame only, not what the kernel knows of it. A frame damaged in memory
// has this value as rarely as the right one.
func isPartial(p []byte) bool {
	var addrs, udp []byte
	switch {
	case len(p) >= 42 && p[13] == 0:
		addrs, udp = p[26:34], p[34:42]
	case len(p) >= 62:
		addrs, udp = p[22:54], p[54:62]
	default:
		return false
	}
	const protocol = 17
	sum := uint64(protocol) + uint64(binary.BigEndian.Uint16(udp[4:]))
	for ; len(addrs) >= 4; addrs = addrs[4:] {
		sum += uint64(binary.BigEndian.Uint32(addrs))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xFFFF
	}
	return uint16(sum) == binary.BigEndian.Uint16(udp[6:])
}
