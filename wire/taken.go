package wire

import "encoding/binary"

// ExtTaken is the type of an extension behind the body of a server's Disconnect or Drain: for each
// slot of the session the number of the last request that the server has taken, eight bytes each.
// It takes no later one, so a request with a higher number certainly never runs. Without the
// extension nothing is known.
const ExtTaken = 1

// AppendTaken appends the head of the extension to b, for a session of so many slots; the numbers
// follow, see AppendNumber.
func AppendTaken(b []byte, slots int) []byte {
	b = binary.LittleEndian.AppendUint16(b, ExtTaken)
	return binary.LittleEndian.AppendUint16(b, uint16(8*slots))
}

// TakenSize returns the size of the extension for a session of so many slots, bytes.
func TakenSize(slots int) int { return extHeader + 8*slots }

// AppendNumber appends the number of the last request that the next slot has taken.
func AppendNumber(b []byte, num uint64) []byte { return binary.LittleEndian.AppendUint64(b, num) }

// Taken are the numbers of an ExtTaken, slot after slot.
type Taken []byte

// FindTaken returns the numbers in the extensions b, none if they are not there or b is broken.
func FindTaken(b []byte) Taken {
	for len(b) > 0 {
		e, rest, err := NextExtension(b)
		if err != nil {
			return nil
		}
		if e.Type == ExtTaken && len(e.Value)%8 == 0 {
			return e.Value
		}
		b = rest
	}
	return nil
}

// Slots returns how many numbers there are.
func (t Taken) Slots() int { return len(t) / 8 }

// At returns the number of a slot.
func (t Taken) At(slot int) uint64 { return binary.LittleEndian.Uint64(t[8*slot:]) }
