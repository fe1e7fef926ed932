package wire

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"time"
)

// What this file has is reserved: since [Version] all receivers take it, and nobody sends it yet.

// answerTypes are the packet types that go from a server to a client.
const answerTypes = 1<<TypeCR | 1<<TypeResp | 1<<TypeErr | 1<<TypeWait | 1<<TypePast

// answers reports whether h is of a packet that goes from a server to a client.
func (h *Header) answers() bool { return answerTypes>>h.Type&1 != 0 }

// SaysType reports whether ReqType is the request type, or the [Op] of a management packet. If not
// it is the host delay.
func (h *Header) SaysType() bool { return h.Version == OldVersion || !h.answers() }

// The host delay of an answer: a mantissa and an exponent of 2, in units of 1.024 us.
const (
	delayBits = 4 // of the mantissa, without its upper bit
	delayUnit = 1024 * time.Nanosecond
)

// HostDelay returns the value of the host delay byte for a delay, which stands in place of the
// request type in what a server answers. It rounds down, by less than a sixteenth, but what is
// shorter than a unit counts as one: 0 means that nothing is said. Half a second is the most.
func HostDelay(d time.Duration) uint8 {
	units := uint64(max(d, delayUnit) / delayUnit)
	exp := max(bits.Len64(units)-delayBits-1, 0)
	return uint8(min(uint64(exp)<<delayBits+units>>exp, 0xFF))
}

// HostDelay returns the host delay that an answer says; said is false if it says none.
func (h *Header) HostDelay() (d time.Duration, said bool) {
	if h.ReqType == 0 || h.SaysType() {
		return 0, false
	}
	exp, units := h.ReqType>>delayBits, time.Duration(h.ReqType&(1<<delayBits-1))
	if exp > 0 {
		units = (units + 1<<delayBits) << (exp - 1)
	}
	return units * delayUnit, true
}

// MaxHoles is the largest number of holes in a CR.
const MaxHoles = 32

const (
	holeSize  = 4
	holeShift = 64 - pktShift // place of the count, above the packet number
	// MaxHole is the largest number of packets in a hole.
	MaxHole = 1 << (32 - holeShift)
)

// ErrHoles means that the list of holes in a CR is empty, is not in order, or has packets that
// cannot be.
var ErrHoles = errors.New("wire: bad list of holes")

// hasHoles reports whether h is of a CR with a list of holes of so many bytes.
func (h *Header) hasHoles(payload int) bool {
	return h.Type == TypeCR && h.Flags&FlagGap != 0 && h.Version != OldVersion &&
		payload == int(h.MsgSize) && holesFit(payload)
}

// holesFit reports whether a list of holes may have so many bytes.
func holesFit(size int) bool { return size%holeSize == 0 && size <= MaxHoles*holeSize }

// Holes are the packets that a server misses, the body of a CR with [FlagGap]. The first one of the
// first hole need not be the CR's own.
//
//	0 first packet u32, 20 bits, and above it the number of packets less one, 12 bits · 4 the next
type Holes []byte

// ParseHoles checks the body of a CR with FlagGap, all of b, which Holes alias: nobody may change
// it. Holes are in ascending order, do not touch, and have no packet from MaxPackets on. The error
// is ErrHoles.
func ParseHoles(b []byte) (Holes, error) {
	if len(b) == 0 || !holesFit(len(b)) {
		return nil, ErrHoles
	}
	h := Holes(b)
	least := uint32(0)
	for i := range h.Len() {
		first, count := h.At(i)
		if first < least || first+count > MaxPackets {
			return nil, ErrHoles
		}
		least = first + count + 1
	}
	return h, nil
}

// Len returns how many holes there are.
func (h Holes) Len() int { return len(h) / holeSize }

// At returns the first packet of a hole, and how many there are.
func (h Holes) At(i int) (first, count uint32) {
	v := binary.LittleEndian.Uint32(h[holeSize*i:])
	return v & (MaxPackets - 1), v>>holeShift + 1
}

// AppendHole appends a hole to b. Callers keep the limits: count is 1 to MaxHole.
func AppendHole(b []byte, first, count uint32) []byte {
	return binary.LittleEndian.AppendUint32(b, first&(MaxPackets-1)|(count-1)<<holeShift)
}
