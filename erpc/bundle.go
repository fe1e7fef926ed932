package erpc

import (
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// bundle is a received datagram with several packets, of sessions with one peer.
type bundle struct {
	wire.Bundle
	pkt    *transport.RxPacket
	via    uint32       // the association that opened it, 0 for none
	with   *association // nil until a packet has named one of its sessions
	summed bool         // the bundle's checksum is right
	begun  bool
}

// openBundle checks all of a bundle before its first packet is handled. It reports false if the
// bundle is dropped, as each is that its sender could change after it was checked.
func (e *engine) openBundle(b *bundle, p *transport.RxPacket, via uint32) bool {
	if e.cfg.Experiment.NoBatchedTime {
		e.in.Now = e.port.readClock()
	}
	if p.Shared {
		e.stats.DropBundle++
		return false
	}
	if b.Parse(p.Data) != nil {
		e.stats.DropMalformed++
		return false
	}
	b.pkt, b.via = p, via
	e.in.CE = p.CE
	return true
}

// has reports whether the packet read last, with header h, is surely one of s.
func (b *bundle) has(s *Session, h *wire.Header) bool {
	return s.assoc == b.with && s.assoc != nil && b.Token() == s.end.LocalToken && b.begun &&
		s.end.Checksum == b.summed && s.end.Version == h.Version && s.end.Bundles &&
		s.state == sessConnected
}

// residentOf returns the session of the packet in a bundle that was read last, when it is not that
// of the packet before; nil if the packet is dropped.
func (e *engine) residentOf(b *bundle, h *wire.Header) *Session {
	first := !b.begun
	b.begun = true
	s := e.table.at(h.Session)
	if s == nil {
		if !first {
			e.stats.DropNoSession++
		} else if e.unknown(h.Session, b.pkt, b.via) {
			e.stats.RxBundled--
			b.Bundle = wire.Bundle{} // all of it is for another loop
		}
		return nil
	}
	token := b.Token()
	if first {
		token = s.end.TokenIn(b.pkt.Data)
	}
	switch {
	case s.state != sessConnected || h.Version != s.end.Version ||
		!s.end.Names(token, &b.pkt.From, b.via),
		b.with != nil && s.assoc != b.with:
		e.stats.DropToken++
		return nil
	case !s.end.Bundles || !first && s.end.Checksum != b.summed:
		e.stats.DropBundle++
		return nil
	}
	if b.with == nil {
		b.with, b.summed = s.assoc, s.end.Checksum
		s.assoc.watch.Heard(e.in.Now)
	}
	return s
}

// prefetchBundle is the first step of prefetch for the sessions of a bundle.
func (e *engine) prefetchBundle(pkt []byte) {
	var b wire.Bundle
	var h wire.Header
	if b.Parse(pkt) != nil {
		return
	}
	for first := true; ; first = false {
		if _, ok := b.Next(&h); !ok {
			return
		}
		if first || b.Another() {
			e.prefetchSession(h.Session)
		}
	}
}

// unbundle takes the packets of a bundle, one after the other.
func (r *Rpc) unbundle(p *transport.RxPacket, via uint32, batch int) (int, error) {
	var (
		e   = &r.engine
		b   bundle
		h   wire.Header
		s   *Session
		err error
	)
	if !e.openBundle(&b, p, via) {
		return batch, nil
	}
	r.found-- // the datagram was counted
	for {
		payload, ok := b.Next(&h)
		if !ok {
			return batch, nil
		}
		e.stats.RxBundled++
		r.found++
		if b.Another() || !b.begun {
			if s = e.table.at(h.Session); s == nil || !b.has(s, &h) {
				s = e.residentOf(&b, &h)
			}
		}
		if s == nil || s.state != sessConnected {
			continue // it may have ended by the packet before
		}
		e.handle(s, &h, payload)
		e.settle()
		if e.out.Packets+e.batches.waiting+e.handed >= batch {
			if batch, err = r.transmitFull(batch); err != nil {
				return batch, err
			}
		}
	}
}
