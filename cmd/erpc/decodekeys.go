package main

import (
	"fmt"
	"os"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// keyring opens sealed packets by the secrets of a key log.
type keyring struct {
	// By the field in the clear part of what they open. Several endpoints may have chosen the same:
	// the secret that opened a packet last is first.
	byField map[uint32][]*logged
	byNonce map[uint64][]*logged // of the Connect
}

// logged is a secret of a key log.
type logged struct {
	*security.Opener
	misses int // packets that it did not open, before it has opened any
}

// maxMisses bounds the time for packets of other secrets under the same index: one that has opened
// nothing is tried in many key phases.
const maxMisses = 64

// loadKeyLog reads the secrets of a file; without a name there are none.
func loadKeyLog(name string) (*keyring, error) {
	k := &keyring{byField: map[uint32][]*logged{}, byNonce: map[uint64][]*logged{}}
	if name == "" {
		return k, nil
	}
	log, err := os.ReadFile(name)
	if err != nil {
		return nil, cli.Usagef("--keylog: %v", err)
	}
	list, err := security.ParseKeyLog(log)
	if err != nil {
		return nil, cli.Usagef("--keylog %s: %v", name, err)
	}
	if len(list) == 0 {
		return nil, cli.Usagef("--keylog %s: there is no secret of eRPC in it", name)
	}
	for i := range list {
		o, err := security.NewOpener(&list[i])
		if err != nil {
			return nil, err
		}
		l := &logged{Opener: o}
		k.byField[o.Index()] = append(k.byField[o.Index()], l)
		k.byNonce[list[i].Nonce] = append(k.byNonce[list[i].Nonce], l)
	}
	return k, nil
}

// heard takes a sound packet that is not sealed: a Connect may say that a secret is about to be
// used.
func (k *keyring) heard(e *layer.ERPC) {
	if c, ok := e.Body.(*wire.Connect); ok {
		for _, l := range k.byNonce[c.Nonce] {
			l.misses = 0
		}
	}
}

// open returns the packet inside a sealed one, nil if no secret opens it.
func (k *keyring) open(pkt []byte) (plain []byte, in security.Opened) {
	list := k.byField[wire.SealedField(pkt)]
	for i, l := range list {
		if !l.Found() && l.misses >= maxMisses {
			continue
		}
		plain, in, ok := l.Open(nil, pkt)
		if ok {
			copy(list[1:], list[:i])
			list[0] = l
			return plain, in
		}
		l.misses++
	}
	return nil, in
}

// unseal opens a sealed datagram by the secrets that there are. In is nil if it could not; sealed
// says that the datagram is a sealed one, opened or not. The error is that of d.parse for the
// packet that d.e then holds.
func (d *decoder) unseal(g *datagram) (in *sealedLine, sealed bool, err error) {
	if !wire.IsSealed(g.data[:g.captured]) {
		if err = d.parse(g); err == nil && !wire.IsBundle(g.data) {
			d.keys.heard(&d.e)
		}
		return nil, false, err
	}
	if g.captured < len(g.data) {
		return nil, true, nil
	}
	plain, found := d.keys.open(g.data)
	if plain == nil {
		return nil, true, nil
	}
	field := wire.SealedField(g.data)
	in = &sealedLine{Counter: found.Counter, Index: indexName(field), Loop: wire.LoopOf(field),
		Phase: found.Phase, Bytes: len(g.data)}
	g.data, g.captured, d.plain = plain, len(plain), plain
	return in, true, d.parse(g)
}

// sealedLine says how a packet was sealed that decode has opened.
type sealedLine struct {
	Counter uint64 `json:"counter"`
	Index   string `json:"index"`
	Loop    uint8  `json:"loop,omitempty"`
	Phase   int    `json:"phase"`
	Bytes   int    `json:"bytes"` // of the datagram
}

// sealed takes what a sealed packet says in the clear.
func (l *line) sealed(pkt []byte) {
	l.Type, l.Body = wire.TypeSealed.String(), map[string]any{}
	l.detail("counter", wire.SealedCounter(pkt))
	l.index(wire.SealedField(pkt), "loop")
	l.detail("phase_bit", pkt[11]>>7)
}

// index adds the name of an association and, if it says one, its loop.
func (l *line) index(field uint32, loop string) {
	l.detail("index", indexName(field))
	if n := wire.LoopOf(field); n != 0 {
		l.detail(loop, n)
	}
}

// indexName returns the index of a field as text: it is half random.
func indexName(field uint32) string { return fmt.Sprintf("%06x", field&wire.NoSession) }
