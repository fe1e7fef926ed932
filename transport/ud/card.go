package ud

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/internal/verbs"
)

const (
	cardSize  = 56
	cardMagic = "erpc-ud1"
)

// Kinds of cards.
const (
	cardQuery = 1 + iota
	cardAnswer
	cardRefusal
	cardProbe
)

// Reasons of a refusal.
const (
	refuseMismatch = 1 + iota
	refuseFull
	refuseNoWay
)

// card is the message of two endpoints that meet; doc.go has its layout.
type card struct {
	kind    byte
	layer   byte
	gidKind byte
	reason  byte
	lid     uint16
	port    uint16
	gid     verbs.GID
	qpn     uint32
	qkey    uint32
	mtu     uint32
	query   uint64
}

func (c *card) encode(b *[cardSize]byte) {
	le := binary.LittleEndian
	copy(b[:8], cardMagic)
	b[8], b[9], b[10], b[11] = c.kind, c.layer, c.gidKind, c.reason
	le.PutUint16(b[12:], c.lid)
	le.PutUint16(b[14:], c.port)
	copy(b[16:32], c.gid[:])
	le.PutUint32(b[32:], c.qpn)
	le.PutUint32(b[36:], c.qkey)
	le.PutUint32(b[40:], c.mtu)
	le.PutUint32(b[44:], 0)
	le.PutUint64(b[48:], c.query)
}

// parseCard reads a card. ok is false if b is none, or one that cannot be true.
func parseCard(b []byte) (c card, ok bool) {
	if len(b) != cardSize || string(b[:8]) != cardMagic {
		return c, false
	}
	le := binary.LittleEndian
	c = card{kind: b[8], layer: b[9], gidKind: b[10], reason: b[11], lid: le.Uint16(b[12:]),
		port: le.Uint16(b[14:]),
		gid:  verbs.GID(b[16:32]), qpn: le.Uint32(b[32:]), qkey: le.Uint32(b[36:]),
		mtu:   le.Uint32(b[40:]),
		query: le.Uint64(b[48:])}
	switch {
	case c.kind < cardQuery || c.kind > cardProbe || c.port == 0:
		return c, false
	case c.kind == cardRefusal:
		return c, true
	case c.qpn == 0 || c.qpn >= 1<<24 || c.mtu < MinMTU || c.mtu > 4096 || le.Uint32(b[44:]) != 0:
		return c, false
	}
	return c, true
}

// refusal returns the error that a reason stands for.
func refusal(reason byte) error {
	switch reason {
	case refuseMismatch:
		return ErrMismatch
	case refuseFull:
		return ErrFull
	}
	return ErrNoWay
}
