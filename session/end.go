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
	Params
}

// Names reports whether a management packet with token came from the peer for this session.
func (e *End) Names(token uint32, from *packet.Addr) bool {
	return token == e.LocalToken && *from == e.Peer
}

// Verify reports whether pkt came from the peer for this session: the address, the token and,
// if both sides agreed on one, the checksum are right.
func (e *End) Verify(pkt []byte, from *packet.Addr) bool {
	token := wire.Token(pkt)
	if e.Checksum {
		token ^= wire.Checksum(pkt, nil)
	}
	return token == e.LocalToken && *from == e.Peer
}
