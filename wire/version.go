package wire

import "encoding/binary"

// The rest of this file never changes, in any version: where the version stands and the session
// field, how a Connect is recognised, where its nonce is, and the refusal of a version.

// VersionRefusalSize is the size of a refusal in bytes. No Connect is smaller.
const VersionRefusalSize = HeaderSize + 16

// VersionRefusal says that a Connect has a version that its receiver does not speak. It is a
// packet of version 0 and type 4 without a session, sealed as a management packet without a token;
// its other header fields are zero. The body:
//
//	0 nonce u64 · 8 asked u8 · 9 least u8 · 10 most u8 · 11 zero 5 B
type VersionRefusal struct {
	Nonce       uint64 // of the Connect
	Asked       uint8  // the version of the Connect
	Least, Most uint8  // the versions that the sender speaks
}

// Put writes the whole packet to b, which holds at least VersionRefusalSize bytes.
func (r *VersionRefusal) Put(b []byte) {
	p := b[:VersionRefusalSize]
	clear(p)
	p[0] = byte(TypeMgmt)
	binary.LittleEndian.PutUint32(p[8:], NoSession)
	binary.LittleEndian.PutUint64(p[24:], r.Nonce)
	p[32], p[33], p[34] = r.Asked, r.Least, r.Most
	SealMgmt(p, 0)
}

// Parse reads a whole packet and reports whether it is a refusal that was not damaged. Bytes
// behind its body are skipped.
func (r *VersionRefusal) Parse(pkt []byte) bool {
	if len(pkt) < VersionRefusalSize || pkt[0] != byte(TypeMgmt) || !sessionless(pkt) ||
		OpenMgmt(pkt) != 0 {
		return false
	}
	r.Nonce = binary.LittleEndian.Uint64(pkt[24:])
	r.Asked, r.Least, r.Most = pkt[32], pkt[33], pkt[34]
	return true
}

// AsksVersion reports whether a packet that Parse refuses with ErrVersion looks like a Connect,
// and which version and nonce it has. Version 0 is that of refusals, which are never answered.
func AsksVersion(pkt []byte) (version uint8, nonce uint64, ok bool) {
	if len(pkt) < HeaderSize+ConnectSize || pkt[0]&0x0F != byte(TypeMgmt) || pkt[0]>>4 == 0 ||
		pkt[1] != byte(OpConnect) || !sessionless(pkt) {
		return 0, 0, false
	}
	return pkt[0] >> 4, binary.LittleEndian.Uint64(pkt[24:]), true
}

// sessionless reports whether the session field of pkt names no session.
func sessionless(pkt []byte) bool {
	return binary.LittleEndian.Uint32(pkt[8:])&NoSession == NoSession
}
