package session

import (
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// End is one end of a session: the names that the two sides gave it, and what they agreed on.
// A Client or Server holds the only copy.
type End struct {
	Peer        packet.Addr
	Local       uint32 // session number at this side
	LocalToken  uint32 // that packets to this side carry
	Remote      uint32 // session number at the peer
	RemoteToken uint32 // that packets to the peer carry
	Via         uint32 // the association that seals its packets, as the owner names it; 0: none does
	Params

	link *Link // nil: its packets travel alone
}

// fillVersion sets the version if it is 0.
func (e *End) fillVersion() {
	if e.Version == 0 {
		e.Version = wire.Version
	}
}

// narrow makes the bundles no larger than the packets of a cut, if it is one.
func (e *End) narrow(cut wire.Cut) {
	if e.link != nil && cut != 0 {
		e.link.Limit(wire.CutSizes[cut])
	}
}

// widen makes the bundles as large as packets of size bytes, header included, which the path to the
// peer carries.
func (e *End) widen(size int) {
	if e.link != nil {
		e.link.raise(size)
	}
}

// TokenIn returns the token that pkt carries. If both sides agreed on checksums it is the right
// one only in a packet that was not damaged.
func (e *End) TokenIn(pkt []byte) uint32 {
	if e.Checksum {
		return summedToken(pkt)
	}
	return wire.Token(pkt)
}

// summedToken is a call of its own, so that TokenIn is none.
//
//go:noinline
func summedToken(pkt []byte) uint32 { return wire.Token(pkt) ^ wire.Checksum(pkt, nil) }

// Names reports whether a packet with token is the peer's for this session. Via is the association
// that has opened the packet; it alone says who the sender is. A packet in the clear (0) must come
// from the peer's address, which is as much as it can prove.
func (e *End) Names(token uint32, from *packet.Addr, via uint32) bool {
	return token == e.LocalToken && via == e.Via && (via != 0 || *from == e.Peer)
}
