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

// callKey names a call, or without its number a session at one of its ends, or without its session
// all calls with a number.
type callKey struct {
	peer    packet.Addr
	session uint32
	number  uint64
	client  bool
}

// callTable finds the call of a packet.
type callTable struct {
	calls    map[callKey]*Call
	byNumber map[callKey][]*Call // those of all sessions with a peer
	asking   map[callKey]uint32  // by a session of the answers: that of the requests
}

// Calls puts the packets of requests and responses together, by the time of the first packet. A
// session is known at both sides by other numbers, and an answer need not say its request type. So
// an answer belongs to a call with the same peer and number: that of the session to which earlier
// answers have belonged, or the one that has begun last and has none.
func (d *Dump) Calls() []*Call { return d.walk(func(*Packet, *Call) {}) }

// walk is Calls, and gives each packet with its call, nil if that is not known.
func (d *Dump) walk(each func(p *Packet, c *Call)) (list []*Call) {
	t := callTable{map[callKey]*Call{}, map[callKey][]*Call{}, map[callKey]uint32{}}
	seen := map[*Call]map[uint32]bool{}
	for p := range d.Packets {
		h := &p.Header
		key := callKey{p.Peer, h.Session, h.ReqNum, p.Kind == Sent}
		var c *Call
		switch h.Type {
		case wire.TypeReq, wire.TypeRFR:
			if c = t.calls[key]; c == nil {
				c = &Call{Client: key.client, Peer: p.Peer, Session: h.Session, Number: h.ReqNum,
					Type: h.ReqType, First: p.At, Hold: -1}
				t.add(key, c)
				seen[c] = map[uint32]bool{}
				list = append(list, c)
			}
		case wire.TypeResp, wire.TypeErr, wire.TypeCR, wire.TypeWait, wire.TypePast:
			key.client = !key.client
			c = t.answered(key, h) // nil if its beginning is missing
		}
		if c != nil && h.Type != wire.TypeWait && h.Type != wire.TypePast {
			c.note(&p, seen[c])
		}
		each(&p, c)
	}
	slices.SortStableFunc(list, func(a, b *Call) int { return int(a.First - b.First) })
	return list
}

// add adds a call.
func (t *callTable) add(key callKey, c *Call) {
	t.calls[key] = c
	key.session = 0
	t.byNumber[key] = append(t.byNumber[key], c)
}

// answered returns the call that a packet answers, nil if it is not there. Key has the session of
// the answers.
func (t *callTable) answered(key callKey, h *wire.Header) *Call {
	end, all := key, key
	end.number, all.session = 0, 0
	if s, ok := t.asking[end]; ok {
		key.session = s
		if c := t.calls[key]; c != nil {
			return c
		}
	}
	var best *Call
	list := t.byNumber[all]
	for _, c := range list {
		if h.Version == wire.OldVersion && c.Type != h.ReqType {
			continue
		}
		if best == nil || best.Answer != 0 || c.Answer == 0 {
			best = c
		}
	}
	if len(list) == 1 && best != nil {
		t.asking[end] = best.Session
	}
	return best
}

// typeOf returns the request type of a packet of a call, nil if that is not known, or the operation
// of a management packet; ok is false if the packet does not say it and has no call.
func (p *Packet) typeOf(c *Call) (reqType uint8, ok bool) {
	switch {
	case p.Header.SaysType():
		return p.Header.ReqType, true
	case c != nil:
		return c.Type, true
	}
	return 0, false
}

// note adds a packet to its call.
func (c *Call) note(p *Packet, seen map[uint32]bool) {
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
