package rawudp

import (
	"encoding/binary"
	"math/bits"
)

// sum adds p to acc in one's complement arithmetic on 64 bits. Byte order does not matter
// until [fold] (RFC 1071, section 2 (B)), so words are read as little-endian ones, which is
// how the usual processors have them. Of all pieces that are added, only the last
// may have an odd length.
func sum(acc uint64, p []byte) uint64 {
	var carry uint64
	for len(p) >= 32 {
		q := (*[32]byte)(p)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(q[0:]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(q[8:]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(q[16:]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(q[24:]), carry)
		p = p[32:]
	}
	for len(p) >= 8 {
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(p), carry)
		p = p[8:]
	}
	if len(p) > 0 {
		var last [8]byte
		copy(last[:], p)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(last[:]), carry)
	}
	acc, carry = bits.Add64(acc, 0, carry)
	return acc + carry
}

// sum16 adds the number v, which stands in a packet in network order.
func sum16(acc uint64, v uint16) uint64 {
	acc, carry := bits.Add64(acc, uint64(bits.ReverseBytes16(v)), 0)
	return acc + carry
}

// fold returns the sum as the 16 bits that stand in a packet, not inverted.
func fold(acc uint64) uint16 {
	acc = acc>>32 + acc&0xFFFFFFFF
	acc = acc>>32 + acc&0xFFFFFFFF
	v := uint32(acc)
	v = v>>16 + v&0xFFFF
	v = v>>16 + v&0xFFFF
	return bits.ReverseBytes16(uint16(v))
}
