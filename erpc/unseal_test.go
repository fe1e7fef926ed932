package erpc_test

import (
	"bytes"
	"testing"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// unsealer looks into sealed datagrams, by what endpoints write to their key log.
type unsealer struct {
	tb      testing.TB
	log     bytes.Buffer // the Config.KeyLog of the endpoints
	parsed  int          // bytes of it that openers are made of
	openers map[uint32][]*security.Opener
}

// open returns the packet inside a datagram, nil if no secret opens it.
func (u *unsealer) open(pkt []byte) []byte {
	u.tb.Helper()
	if u.parsed < u.log.Len() {
		u.parsed, u.openers = u.log.Len(), map[uint32][]*security.Opener{}
		list, err := security.ParseKeyLog(u.log.Bytes())
		if err != nil {
			u.tb.Fatal(err)
		}
		for i := range list {
			o, err := security.NewOpener(&list[i])
			if err != nil {
				u.tb.Fatal(err)
			}
			u.openers[list[i].Index] = append(u.openers[list[i].Index], o)
		}
	}
	for _, o := range u.openers[wire.SealedField(pkt)] {
		if plain, _, ok := o.Open(nil, pkt); ok {
			return plain
		}
	}
	return nil
}

// op returns the operation of the management packet in a datagram, 0 of others.
func (u *unsealer) op(pkt []byte) wire.Op {
	var h wire.Header
	if h.Parse(u.open(pkt)) != nil || h.Type != wire.TypeMgmt {
		return 0
	}
	return wire.Op(h.ReqType)
}
