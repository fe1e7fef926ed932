package flight

import (
	"slices"

	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// Packet is a packet of a dump: a datagram of its own, or one inside a bundle.
type Packet struct {
	*Entry
	Header wire.Header
	Inside int // place in a bundle, from 1; 0 if it is alone
}

// maxDatagram bounds what a damaged dump can ask for.
const maxDatagram = 1 << 16

// Packets yields the packets of the dump, with bundles taken apart as far as they were kept.
// Datagrams that cannot be read, such as sealed ones, are left out.
func (d *Dump) Packets(yield func(Packet) bool) {
	var scratch []byte
	for i := range d.Entries {
		e := &d.Entries[i]
		if e.Kind == Blind {
			continue
		}
		p := Packet{Entry: e}
		if !wire.IsBundle(e.Data) {
			whole := append(scratch[:0], e.Data...) // the header's check wants all of the length
			whole = append(whole, make([]byte, max(0, min(e.Size, maxDatagram)-len(whole)))...)
			if p.Header.Parse(whole) == nil && !yield(p) {
				return
			}
			scratch = whole
			continue
		}
		var b wire.Bundle
		if b.ParseCut(e.Data, e.Size) != nil {
			continue
		}
		for {
			if _, ok := b.Next(&p.Header); !ok {
				break
			}
			if p.Inside++; !yield(p) {
				return
			}
		}
	}
}

// Call is a call as the packets of one endpoint show it. Times are in ns since the Unix epoch.
type Call struct {
	Client  bool // this side made it
	Peer    packet.Addr
	Session uint32 // its number at the receiver of the requests
	Number  uint64
	Type    uint8
	First   int64 // the first packet of the request
	Answer  int64 // the first packet of the response; 0 if there is none
	Last    int64 // the last packet of either
	Hold    int64 // ns that the server held the request, as it says; -1 if it does not
	Error   bool
	Packets int
	Again   int // of them those that were sent before
}

// callKey names a call.
type callKey struct {
	peer    packet.Addr
	session uint32
	number  uint64
	client  bool
}

// Calls puts the packets of requests and responses together, by the time of the first packet. A
// session is known at both sides by other numbers, so a response belongs to the call with the same
// peer, number and type that has begun last and has none.
func (d *Dump) Calls() (list []*Call) {
	open := map[callKey]*Call{}
	seen := map[*Call]map[uint16]bool{}
	for p := range d.Packets {
		h := &p.Header
		asks := h.Type == wire.TypeReq || h.Type == wire.TypeRFR
		answers := h.Type == wire.TypeResp || h.Type == wire.TypeErr || h.Type == wire.TypeCR
		if !asks && !answers {
			continue
		}
		key := callKey{p.Peer, uint32(h.ReqType), h.ReqNum, asks == (p.Kind == Sent)}
		c := open[key]
		if c != nil && h.Type == wire.TypeReq && c.Answer != 0 && c.Session != h.Session {
			c = nil // another session of the same peer
		}
		if c == nil {
			if !asks {
				continue // its beginning is missing
			}
			c = &Call{Client: key.client, Peer: p.Peer, Session: h.Session, Number: h.ReqNum,
				Type: h.ReqType, First: p.At, Hold: -1}
			open[key] = c
			seen[c] = map[uint16]bool{}
			list = append(list, c)
		}
		c.note(&p, seen[c])
	}
	slices.SortStableFunc(list, func(a, b *Call) int { return int(a.First - b.First) })
	return list
}

// note adds a packet to its call.
func (c *Call) note(p *Packet, seen map[uint16]bool) {
	h := &p.Header
	c.Packets++
	c.Last = max(c.Last, p.At)
	switch h.Type {
	case wire.TypeReq:
		if seen[h.PktNum] {
			c.Again++
		}
		seen[h.PktNum] = true
	case wire.TypeResp, wire.TypeErr:
		c.Error = c.Error || h.Type == wire.TypeErr
		if c.Answer == 0 {
			c.Answer = p.At
			if h.Hold != wire.HoldUnknown {
				c.Hold = int64(h.Hold) * int64(wire.HoldUnit)
			}
		}
	}
}
