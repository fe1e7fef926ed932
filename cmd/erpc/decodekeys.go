package main

import (
	"encoding/binary"
	"net/netip"
	"os"
	"slices"

	"github.com/userspace-rpc/erpc/internal/cli"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport/pcap/layer"
	"github.com/userspace-rpc/erpc/wire"
)

// way is a pair of addresses in the direction of a packet.
type way struct{ src, dst netip.AddrPort }

func (w way) back() way { return way{w.dst, w.src} }

// keyring opens sealed packets by the secrets of a key log, and knows between which addresses
// packets are sealed.
type keyring struct {
	openers []*security.Opener
	nonces  map[uint64]bool // of the log
	ways    map[way]*sealedWay
	budget  int  // searches that may still fail, of those that nothing points to
	plain   bool // the capture is one of --write: what no secret opens is not sealed
}

// sealedWay is a direction whose packets may be sealed.
type sealedWay struct {
	sealed bool               // they are
	known  []*security.Opener // that have opened packets of it, the last one first
	misses int                // packets since then that nothing has opened
}

const (
	mostWays     = 1 << 16 // bounds the memory for a file with many endpoints
	mostKnown    = 16      // associations of one direction: loops, restarts
	mostMisses   = 8       // packets of a direction for which all secrets are tried
	mostSearches = 1 << 14 // secrets tried in vain, for all directions together
)

// loadKeyLog reads the secrets of a file; without a name there are none.
func loadKeyLog(name string) (*keyring, error) {
	k := &keyring{nonces: map[uint64]bool{}, ways: map[way]*sealedWay{}, budget: mostSearches}
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
		k.nonces[list[i].Nonce] = true
		k.openers = append(k.openers, o)
	}
	return k, nil
}

// way returns what is known of a direction, and makes it if it is to be.
func (k *keyring) way(at way, make bool) *sealedWay {
	w := k.ways[at]
	if w == nil && make && len(k.ways) < mostWays {
		w = new(sealedWay)
		k.ways[at] = w
	}
	return w
}

// heard takes a sound packet that is not sealed.
func (k *keyring) heard(at way, e *layer.ERPC) {
	var o *wire.Offer
	switch b := e.Body.(type) {
	case *wire.Connect:
		if k.nonces[b.Nonce] { // these two get keys that are in the log
			k.budget = max(k.budget, mostMisses*len(k.openers))
		}
		o = &b.Offer
	case *wire.Accept:
		o = &b.Offer
	}
	if o == nil || o.Features&wire.FeatureSeal == 0 {
		return
	}
	for _, at := range []way{at, at.back()} {
		if w := k.way(at, true); w != nil {
			w.sealed, w.misses = !k.plain, 0
		}
	}
}

// open returns the packet inside a sealed one, nil if no secret opens it. Sealed says that packets
// of this direction are sealed.
func (k *keyring) open(at way, pkt []byte) (plain []byte, in security.Opened, sealed bool) {
	w := k.way(at, len(k.openers) > 0)
	if w == nil {
		return nil, in, false
	}
	for i, o := range w.known {
		if plain, in, ok := o.Open(nil, pkt); ok {
			w.known = slices.Insert(slices.Delete(w.known, i, i+1), 0, o)
			w.misses = 0
			return plain, in, true
		}
	}
	if w.misses >= mostMisses {
		return nil, in, w.sealed
	}
	for _, o := range k.openers {
		if slices.Contains(w.known, o) || !o.Found() && k.budget <= 0 {
			continue
		}
		plain, in, ok := o.Open(nil, pkt)
		if ok {
			w.known = slices.Insert(w.known, 0, o)[:min(len(w.known)+1, mostKnown)]
			w.sealed, w.misses = !k.plain, 0
			if back := k.way(at.back(), true); back != nil {
				back.sealed = !k.plain
			}
			return plain, in, true
		}
		if !o.Found() {
			k.budget--
		}
	}
	w.misses++
	return nil, in, w.sealed
}

// isOpening reports whether a packet, as it is, is one of those that come before keys, or speak for
// somebody who has none.
func isOpening(e *layer.ERPC) bool {
	if e.Type != wire.TypeMgmt {
		return false
	}
	switch e.Op() {
	case wire.OpConnect, wire.OpChallenge, wire.OpAccept, wire.OpRefuse, wire.OpCrypto, wire.OpReset,
		wire.OpMoved:
		return true
	}
	return false
}

// unseal opens a datagram by the secrets that there are. In is nil if it could not; sealed says
// that the datagram is a sealed one, opened or not. The error is that of d.parse for the packet
// that d.e then holds.
func (d *decoder) unseal(g *datagram, err error) (in *sealedLine, sealed bool, now error) {
	at := way{g.src, g.dst}
	opening := err == nil && !wire.IsBundle(g.data) && isOpening(&d.e)
	if opening && d.e.Op() != wire.OpReset && d.e.Op() != wire.OpMoved {
		d.keys.heard(at, &d.e)
		return nil, false, err
	}
	if g.captured < len(g.data) {
		w := d.keys.ways[at]
		return nil, !opening && w != nil && w.sealed, err
	}
	plain, found, sealed := d.keys.open(at, g.data)
	if plain == nil {
		return nil, !opening && sealed, err
	}
	in = &sealedLine{Counter: found.Counter, Phase: found.Phase, Bytes: len(g.data)}
	g.data, g.captured, d.plain = plain, len(plain), plain
	return in, true, d.parse(g)
}

// sealedLine says how a packet was sealed that decode has opened.
type sealedLine struct {
	Counter uint64 `json:"counter"`
	Phase   int    `json:"phase"`
	Bytes   int    `json:"bytes"` // of the datagram
}

// typeSealed is the type of a sealed packet that no secret opens.
const typeSealed = "SEALED"

// sealed takes what a sealed packet says in the clear.
func (l *line) sealed(pkt []byte, captured int) {
	l.Type, l.Body = typeSealed, map[string]any{}
	if captured < wire.HeaderSize {
		return
	}
	of := wire.Type(pkt[0] & 0x0F)
	l.detail("of", of.String())
	field := binary.LittleEndian.Uint32(pkt[8:])
	l.session("session", "loop", field&^(1<<31))
	l.detail("phase_bit", field>>31)
	l.detail("counter_low", binary.LittleEndian.Uint32(pkt[12:]))
}
