package wire

import "encoding/binary"

// SealedHead is the size of the clear part of a sealed datagram in bytes.
const SealedHead = 12

// SealedVersion is the version of sealed datagrams. Version 2 found keys by the sender's address
// and the session; it is not spoken any more.
const SealedVersion = 3

// sealedByte is the first byte of a sealed datagram.
const sealedByte = byte(TypeSealed) | SealedVersion<<4

// AppendSealed appends the clear part of a sealed datagram:
//
//	0 version and type u8 · 1 counter 56 bits · 8 index 24 bits · 11 loop 7 bits, key phase 1 bit
//
// The index is one that the receiver chose for the association (WireGuard's receiver index, the
// connection ID of RFC 9000); it says nothing to anybody else. Field is index, loop and key phase
// as they stand. What follows is encrypted, and ends with the tag; all of it is authenticated.
func AppendSealed(dst []byte, counter uint64, field uint32) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, counter<<8|uint64(sealedByte))
	return binary.LittleEndian.AppendUint32(dst, field)
}

// IsSealed reports whether a datagram begins as a sealed one, and holds its clear part.
func IsSealed(pkt []byte) bool { return len(pkt) >= SealedHead && pkt[0] == sealedByte }

// SealedCounter returns the counter of a sealed datagram.
func SealedCounter(pkt []byte) uint64 { return binary.LittleEndian.Uint64(pkt) >> 8 }

// SealedField returns the index and the loop of a sealed datagram, without the key phase.
func SealedField(pkt []byte) uint32 { return binary.LittleEndian.Uint32(pkt[8:]) &^ KeyPhase }

// QuoteSize is how many bytes of a sealed datagram name it: its clear part, and encrypted bytes
// that nobody guesses.
const QuoteSize = 24

// NoKeys is the body of OpNoKeys: the sender got a sealed datagram with an index that it does not
// know. It proves nothing: it may only make the receiver ask.
//
//	0 quote 24 B
type NoKeys struct {
	Quote [QuoteSize]byte // the first bytes of the datagram
}

// Put writes the body to b, which holds at least NoKeysSize bytes.
func (n *NoKeys) Put(b []byte) { copy(b[:NoKeysSize], n.Quote[:]) }

// Parse reads the body from b, which holds at least NoKeysSize bytes.
func (n *NoKeys) Parse(b []byte) { copy(n.Quote[:], b[:NoKeysSize]) }
