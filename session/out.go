package session

import (
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// Tx is one packet to send. Its parts alias message buffers or the Out's own memory.
type Tx = packet.Tx

// Done tells the end of a request that no packet ended: its session failed, or it
// could not be started.
type Done struct {
	Ref uint32 // the Op's
	Err error
}

// Out collects what a session wants done. The owner keeps one, sends Tx, handles
// Done, and calls Reset when no packet of it is queued any more.
type Out struct {
	Tx   []Tx
	Done []Done
	// Todo says that there may be something in Done, Flush, Pace or Unaddressed: one
	// place to look at in the common case. The owner clears it.
	Todo bool
	// Flush asks the owner to send Tx and flush the transport before it does anything
	// else, such as running the continuation of the event just returned: a
	// retransmission is in Tx, or a packet of a request that has just ended.
	Flush bool
	// Pace asks the owner to call Client.Release of the session at Client.PaceAt: the
	// session has packets that are not due yet. The owner clears it.
	Pace bool

	// Blind is how long the owner has not looked for packets before it found those that
	// it hands to sessions now, ns: they may have come at any time since then. The owner
	// sets it. Sessions take it for time spent in the host, not on the path.
	Blind int64

	// Last is more about the event that a session returned last.
	Last Detail

	held []heldTx // answers in Tx whose hold time may have to grow
	mgmt int      // place in Tx, plus one, of the first packet without address; 0 if none
	mem  []byte   // control headers and management packets of this batch
	used int
	gen  uint64           // number of this batch, from 1
	dead []*msgbuf.Buffer // to be freed when no packet of this batch refers to them
}

// outMemory is enough for a large batch of control packets.
const outMemory = 64 << 10

// NewOut returns an Out with room for batch packets before it grows. Mem, if not
// nil, holds control packets and is for transports that need registered memory.
func NewOut(batch int, mem []byte) *Out {
	if mem == nil {
		mem = make([]byte, outMemory)
	}
	return &Out{Tx: make([]Tx, 0, batch), mem: mem, gen: 1}
}

// Reset forgets all packets and frees their memory.
func (o *Out) Reset() {
	o.Tx = o.Tx[:0]
	o.held = o.held[:0]
	o.mgmt = 0
	o.Flush, o.Pace = false, false
	o.used = 0
	o.gen++
	if len(o.dead) > 0 {
		for _, b := range o.dead {
			b.Free()
		}
		clear(o.dead)
		o.dead = o.dead[:0]
	}
}

// Keep forgets all packets but the last n, which could not be sent yet.
func (o *Out) Keep(n int) {
	o.Tx = o.Tx[:copy(o.Tx, o.Tx[len(o.Tx)-n:])]
	o.held = o.held[:0]
}

// Sent forgets the packets, which the owner has sent in the middle of a batch. Their
// memory stays until Reset, since packets of before may have been sent only in part.
func (o *Out) Sent() {
	if invariants.Enabled && o.mgmt != 0 {
		panic("session: packets without address were sent")
	}
	o.Tx = o.Tx[:0]
	o.held = o.held[:0]
}

// heldTx is an answer that was made in this batch.
type heldTx struct {
	item     int32
	coarse   bool // its hold field is one of wire.TryHold
	checksum bool
}

// answer notes that the packet just queued says how long the server held something.
func (o *Out) answer(coarse, checksum bool) {
	o.held = append(o.held, heldTx{int32(len(o.Tx) - 1), coarse, checksum})
}

// HasAnswers reports whether Delayed has anything to do.
func (o *Out) HasAnswers() bool { return len(o.held) > 0 }

// Delayed adds ns to the hold times in the answers of the batch: what handlers and
// copies of the same batch took is the server's time, not the path's.
func (o *Out) Delayed(ns int64) {
	held := o.held
	if o.held = o.held[:0]; ns == 0 {
		return
	}
	for _, a := range held {
		p := &o.Tx[a.item]
		sum := uint32(0)
		if a.checksum {
			sum = wire.Checksum(p.Head, p.Data)
		}
		h := wire.Hold(p.Head)
		if a.coarse {
			was, known := wire.CoarseHold(h)
			if !known {
				continue
			}
			wire.SetHold(p.Head, wire.TryHold(h, was+ns))
		} else {
			wire.SetHold(p.Head, uint16(min(int64(h)+ns/wire.HoldUnit, wire.HoldUnknown)))
		}
		if a.checksum {
			wire.SetToken(p.Head, wire.Token(p.Head)^sum^wire.Checksum(p.Head, p.Data))
		}
	}
}

// done notes the end of a request.
func (o *Out) done(ref uint32, err error) {
	o.Done = append(o.Done, Done{Ref: ref, Err: err})
	o.Todo = true
}

// grab returns n bytes of control memory that live until Reset.
func (o *Out) grab(n int) []byte {
	end := o.used + n
	if end > len(o.mem) {
		return make([]byte, n) // more control packets than any batch should hold
	}
	b := o.mem[o.used:end:end]
	o.used = end
	return b
}

// Unaddressed reports whether Tx holds packets that Address has to see: management
// packets, which go to peers without a session too.
func (o *Out) Unaddressed() bool { return o.mgmt != 0 }

// Address sends the packets without address to a peer.
func (o *Out) Address(to packet.Addr) {
	if o.mgmt == 0 {
		return
	}
	for i := o.mgmt - 1; i < len(o.Tx); i++ {
		o.Tx[i].Dst = to
	}
	o.mgmt = 0
}

// link is where the packets of a session go.
type link struct {
	to       packet.Addr
	remote   uint32 // session number at the peer
	token    uint32 // token of that session
	checksum bool
}

// append queues a packet whose header is h. Head is header and first data, or the
// header alone; data the rest.
func (l *link) append(o *Out, h *wire.Header, head, data []byte) {
	h.Session = l.remote
	h.Put(head, l.token)
	if l.checksum {
		wire.SetToken(head, l.token^wire.Checksum(head, data))
	}
	o.push(&l.to, head, data)
}

// push adds a packet to Tx, in place.
func (o *Out) push(to *packet.Addr, head, data []byte) {
	n := len(o.Tx)
	if n == cap(o.Tx) {
		o.Tx = append(o.Tx, Tx{})
	}
	o.Tx = o.Tx[:n+1]
	t := &o.Tx[n]
	t.Dst, t.Head, t.Data = *to, head, data
}

// queueControl queues a packet that is only a header.
func (l *link) queueControl(o *Out, h *wire.Header) {
	l.append(o, h, o.grab(wire.HeaderSize), nil)
}

// Mgmt queues a management packet for the peer's session number and token
// (wire.NoSession and 0 if there is none), padded to size bytes if that is larger. The
// owner gives it its address.
// Put writes the body.
func (o *Out) Mgmt(op wire.Op, session, token uint32, body int, size int, put func(b []byte)) {
	pkt := o.grab(max(wire.HeaderSize+body, size))
	clear(pkt)
	h := wire.Header{Type: wire.TypeMgmt, ReqType: uint8(op), MsgSize: uint32(body), Session: session}
	h.Put(pkt, 0)
	put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, token)
	if o.mgmt == 0 {
		o.mgmt, o.Todo = len(o.Tx)+1, true
	}
	o.Tx = append(o.Tx, Tx{Head: pkt})
}

// EventKind says what a packet brought about.
type EventKind uint8

// The kinds of events.
const (
	EventNone     EventKind = iota // nothing for the application
	EventProgress                  // client: a credit came back
	EventDone                      // client: request Ref has its response, or an error
	EventRequest                   // server: the request in Slot is complete
	EventError                     // client: request Ref ended with Err on this side
)

// Event is what one packet brought about. Four fields are what the compiler keeps in
// registers; Out.Last has the rest.
type Event struct {
	Kind EventKind
	Slot uint8
	Code wire.Code // EventDone: the server's error, or CodeOK
	Ref  uint32    // the Op's
}

// Detail belongs to an Event. A field that the event's kind does not name is old.
type Detail struct {
	RTT  int64          // all of a client: round trip in ns without the server's hold; 0 if not measured
	Resp *msgbuf.Buffer // EventDone with CodeOK: the response, which the owner must Return
	Text []byte         // EventDone with another Code: the error's text, aliases the packet
	Err  error          // EventError
}

// Stats counts protocol events. One Stats serves all sessions of an endpoint.
type Stats struct {
	Retransmits   uint64 // packets sent again, by client and server
	Rollbacks     uint64 // go-back-N rollbacks after a timeout
	FastRollbacks uint64 // ... on evidence of loss
	Gaps          uint64 // by a server: gaps told to the client
	CreditStalls  uint64 // times a slot had to wait for credits
	PaceStalls    uint64 // times a session had to wait for its rate
	RateUpdates   uint64 // answers that congestion control was told of
	DropPast      uint64 // packet of an earlier request or an earlier packet number
	DropFuture    uint64 // packet ahead of the expected one
	DropUnsent    uint64 // answer to a packet that was not sent, or is rolled back
	DropNotReady  uint64 // repeated request whose response is not ready
	DropBusy      uint64 // new request for a slot whose handler still runs
	DropSize      uint64 // sizes that contradict each other
}
