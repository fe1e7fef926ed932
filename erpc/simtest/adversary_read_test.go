package simtest

import (
	"bytes"
	"encoding/binary"

	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/wire"
)

// read tries the keys that mallory has on a packet of somebody: what they open is of a request that
// she sent, or that was sent to her.
func (a *adversary) read(n *node, data []byte) {
	if a.parsed < a.log.Len() {
		a.parsed = a.log.Len()
		list, err := security.ParseKeyLog(a.log.Bytes())
		if err != nil {
			a.c.fail("key log: %v", err)
		}
		a.openers = map[uint32][]*security.Opener{}
		for i := range list {
			o, err := security.NewOpener(&list[i])
			if err != nil {
				a.c.fail("key log: %v", err)
				continue
			}
			a.openers[list[i].Index] = append(a.openers[list[i].Index], o)
		}
	}
	if !wire.IsSealed(data) {
		a.inClear(n, data)
		return
	}
	for _, o := range a.openers[wire.SealedField(data)] {
		if plain, _, ok := o.Open(nil, data); ok {
			a.did["read"]++
			gathering.opened(plain)
			a.requests(plain, func(id uint64) {
				if id < uint64(len(a.c.calls)) {
					if k := a.c.calls[id]; k.from != a.mallory && k.to != a.mallory.id {
						a.c.fail("mallory's keys open request %d of node %d to %d", id, k.from.id, k.to)
					}
				}
			})
		}
	}
}

// inClear checks that a packet that is not sealed is of a handshake.
func (a *adversary) inClear(n *node, data []byte) {
	var h wire.Header
	if err := h.Parse(data); err == wire.ErrVersion || bytes.Count(data, []byte{0}) == len(data) {
		return
	} else if err != nil || h.Type != wire.TypeMgmt {
		a.c.fail("node %d sent % x in the clear", n.id, data[:min(len(data), 32)])
		return
	}
	switch op := wire.Op(h.ReqType); op {
	case wire.OpConnect, wire.OpChallenge, wire.OpRefuse, wire.OpCrypto, wire.OpNoKeys:
	default:
		a.c.fail("node %d sent %v in the clear", n.id, op)
	}
}

// requests calls f with the ids in the requests of a packet or a bundle.
func (a *adversary) requests(plain []byte, f func(id uint64)) {
	var h wire.Header
	take := func(payload []byte) {
		if h.Type == wire.TypeReq && h.PktNum == 0 && len(payload) >= minRequest {
			f(binary.LittleEndian.Uint64(payload))
		}
	}
	var b wire.Bundle
	if wire.IsBundle(plain) && b.Parse(plain) == nil {
		for payload, ok := b.Next(&h); ok; payload, ok = b.Next(&h) {
			take(payload)
		}
	} else if h.Parse(plain) == nil {
		take(plain[wire.HeaderSize:])
	}
}
