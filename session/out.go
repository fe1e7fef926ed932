package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// Tx is one packet to send. Its parts alias message buffers or the Out's own memory.
type Tx = packet.Tx

// Out is the one way out of the sessions of an endpoint: the packets they want sent are in Tx,
// and Next gives the outcomes in the order in which they came about.
type Out struct {
	Tx []Tx

	// Outcomes. Most packets have one, which stands at a fixed place: neither its writer
	// nor its reader needs an address that is in memory itself.
	first    Event
	more     []Event // behind first
	outcomes int     // in first and more
	taken    int     // of those, by Next
	flush    int     // place of the last EventFlush, from 1; another event may be there now

	// Packets counts those that were queued since the last Finish, in bundles or alone.
	Packets int

	// Bundled counts the packets in bundles since the start.
	Bundled uint64

	last    int32    // place in Tx of the packet queued last
	at      int32    // where in it that begins
	held    []heldTx // answers in Tx whose hold time may have to grow
	batch   uint64   // number of those that are queued between two calls of Finish, from 1
	links   []*Link  // those with bundles of this batch
	sums    []int32  // places in Tx of bundles whose checksum is missing
	bundles []byte   // memory of the bundles of this batch
	filled  int      // of it
	mem     []byte   // control headers and management packets of this batch
	used    int
	lends   bool             // the transport refers to packet data until it is flushed
	gen     uint64           // number of this batch, from 1
	clean   uint64           // packets of batches up to this one are in no queue
	fault   wire.Error       // of the last EventError
	unread  []*msgbuf.Buffer // to be freed when no queue refers to them
	size    int              // of those, bytes
}

const (
	// outMemory is enough for a large batch of control packets.
	outMemory = 64 << 10
	// maxUnread and maxUnreadBytes are how many buffers, and of what size together, may wait
	// for a flush that has other reasons.
	maxUnread      = 64
	maxUnreadBytes = 256 << 10
)

// NewOut returns an Out with room for batch packets before it grows. Lends says that the
// transport may refer to the Data of packets after it took them, until it is flushed.
func NewOut(batch int, lends bool) *Out {
	return &Out{Tx: make([]Tx, 0, batch), mem: make([]byte, outMemory), lends: lends, gen: 1, batch: 1}
}

// Reset forgets all packets, which the transport has taken or which are given up.
func (o *Out) Reset() {
	o.abandon()
	o.used, o.filled = 0, 0
	o.gen++
	if len(o.unread) > 0 && !o.lends {
		o.free()
	}
}

// abandon forgets all packets.
func (o *Out) abandon() {
	if len(o.links) > 0 {
		o.dropBundles()
	}
	o.Tx, o.held, o.Packets = o.Tx[:0], o.held[:0], 0
	o.batch++
}

// dropBundles closes the bundles of packets that are forgotten.
func (o *Out) dropBundles() {
	o.closeBundles()
	o.sums = o.sums[:0]
}

// Keep forgets all packets but the last n, which could not be sent yet.
func (o *Out) Keep(n int) {
	o.Tx = o.Tx[:copy(o.Tx, o.Tx[len(o.Tx)-n:])]
	o.held = o.held[:0]
}

// Flush asks for an EventFlush before whatever happens next. It is rare.
//
//go:noinline
func (o *Out) Flush() {
	if !o.flushing() {
		o.add(EventFlush)
		o.flush = o.outcomes
	}
}

// flushing reports whether an EventFlush is among the outcomes that were not taken.
func (o *Out) flushing() bool {
	switch {
	case o.flush <= o.taken || o.flush > o.outcomes:
		return false
	case o.flush == 1:
		return o.first.Kind == EventFlush
	}
	return o.more[o.flush-2].Kind == EventFlush
}

// Flushed notes that the transport has taken all packets and refers to none of them. Control
// memory stays until Reset, since packets of before may have been sent only in part.
func (o *Out) Flushed() {
	o.abandon()
	o.clean = o.gen
	o.gen++
	o.free()
}

func (o *Out) free() {
	for _, b := range o.unread {
		b.Free()
	}
	clear(o.unread)
	o.unread, o.size = o.unread[:0], 0
}

// discard frees b when no queue refers to it any more. Its last packet is of batch gen; lent says
// that some packet has Data.
func (o *Out) discard(b *msgbuf.Buffer, gen uint64, lent bool) {
	if gen <= o.clean || gen < o.gen && !(o.lends && lent) {
		b.Free()
		return
	}
	o.unread = append(o.unread, b)
	o.size += b.MaxSize()
	if o.lends && (len(o.unread) >= maxUnread || o.size >= maxUnreadBytes) {
		o.Flush()
	}
}

// heldTx is an answer that was made in this batch.
type heldTx struct {
	item int32
	how  int32 // where in it the answer begins, times 4, and the bits below
}

const (
	heldCoarse   = 1 << 0 // its hold field is one of wire.TryHold
	heldChecksum = 1 << 1 // it has one of its own
	heldBits     = 2
)

// answer notes that the packet just queued says how long the server held something.
func (o *Out) answer(coarse, checksum bool) {
	how := o.at << heldBits
	if coarse {
		how |= heldCoarse
	}
	if checksum && o.at == 0 {
		how |= heldChecksum
	}
	o.held = append(o.held, heldTx{o.last, how})
}

// HasAnswers reports whether Finish wants to know how late the answers are.
func (o *Out) HasAnswers() bool { return len(o.held) > 0 }

// answerBundled notes that the packet at a place of Tx, if it is an answer, has become the first
// one of a bundle.
func (o *Out) answerBundled(item int32) {
	for i := len(o.held) - 1; i >= 0; i-- {
		if a := &o.held[i]; a.item == item {
			a.how = wire.BundleHeaderSize<<heldBits | a.how&heldCoarse
			return
		}
	}
}

// Finish makes all packets ready to leave: no more join the bundles. Late is added to the hold
// times in the answers.
func (o *Out) Finish(late time.Duration) {
	if len(o.links) > 0 {
		o.closeBundles()
	}
	if len(o.held) > 0 {
		o.delayed(late)
	}
	if len(o.sums) > 0 {
		o.checksums()
	}
	o.Packets = 0
	o.batch++
}

// checksums completes the bundles that have one.
func (o *Out) checksums() {
	for _, i := range o.sums {
		p := o.Tx[i].Head
		wire.SetToken(p, wire.Token(p)^wire.Checksum(p, nil))
	}
	o.sums = o.sums[:0]
}

// delayed adds d to the hold times in the answers of the batch: what handlers and copies of
// the same batch took is the server's time, not the path's.
func (o *Out) delayed(d time.Duration) {
	held := o.held
	if o.held = o.held[:0]; d == 0 {
		return
	}
	for _, a := range held {
		p := &o.Tx[a.item]
		sum := uint32(0)
		if a.how&heldChecksum != 0 {
			sum = wire.Checksum(p.Head, p.Data)
		}
		head := p.Head[a.how>>heldBits:]
		h := wire.Hold(head)
		if a.how&heldCoarse != 0 {
			was, known := wire.CoarseHold(h)
			if !known {
				continue
			}
			wire.SetHold(head, wire.TryHold(h, was+d))
		} else {
			wire.SetHold(head, uint16(min(time.Duration(h)+d/wire.HoldUnit, wire.HoldUnknown)))
		}
		if a.how&heldChecksum != 0 {
			wire.SetToken(p.Head, wire.Token(p.Head)^sum^wire.Checksum(p.Head, p.Data))
		}
	}
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

// send queues a packet whose header is h. Head is header and first data, or the header
// alone; data the rest.
func (e *End) send(o *Out, h *wire.Header, head, data []byte) {
	h.Session, h.Version = e.Remote, e.Version
	if l := e.link; l != nil && l.mayJoin(o, e, len(head)+len(data)) {
		e.join(l, o, h, head, data)
		return
	}
	h.Put(head, e.RemoteToken)
	if e.Checksum {
		wire.SetToken(head, e.RemoteToken^wire.Checksum(head, data))
	}
	o.push(&e.Peer, e.Via, head, data)
}

// sendControl queues a packet that is only a header.
func (e *End) sendControl(o *Out, h *wire.Header) {
	e.send(o, h, o.grab(wire.HeaderSize), nil)
}

// push adds a packet to Tx, in place.
func (o *Out) push(to *packet.Addr, via uint32, head, data []byte) {
	t := o.place(to, via)
	t.Head, t.Data = head, data
	o.last, o.at = int32(len(o.Tx)-1), 0
	o.Packets++
}

// place adds a place to Tx, whose parts are to be set.
func (o *Out) place(to *packet.Addr, via uint32) *Tx {
	n := len(o.Tx)
	if n == cap(o.Tx) {
		o.Tx = append(o.Tx, Tx{})
	}
	o.Tx = o.Tx[:n+1]
	t := &o.Tx[n]
	t.Dst, t.Via = *to, via
	return t
}

// Mgmt queues a management packet of a version to an endpoint, by an association (0: in the clear),
// for the endpoint's session number and token (wire.NoSession and 0 if there is none), padded to
// size bytes if that is larger. Put writes the body of n bytes.
func (o *Out) Mgmt(
	to *packet.Addr, via uint32, version uint8, op wire.Op, session, token uint32, n, size int,
	put func(b []byte),
) {
	pkt := o.grab(max(wire.HeaderSize+n, size))
	clear(pkt)
	h := wire.Header{
		Type: wire.TypeMgmt, Version: version, ReqType: uint8(op), MsgSize: uint32(n), Session: session,
	}
	h.Put(pkt, 0)
	put(pkt[wire.HeaderSize:])
	wire.SealMgmt(pkt, token)
	o.push(to, via, pkt, nil)
}

// RefuseVersion queues the refusal of a version to an endpoint.
func (o *Out) RefuseVersion(to *packet.Addr, r *wire.VersionRefusal) {
	pkt := o.grab(wire.VersionRefusalSize)
	r.Put(pkt)
	o.push(to, 0, pkt, nil)
}

// add appends an event, in place, and returns it.
func (o *Out) add(kind EventKind) *Event {
	o.outcomes++
	if o.outcomes > 1 {
		return o.addMore(kind)
	}
	o.first.Kind = kind
	return &o.first
}

// addMore is the rare part of add.
//
//go:noinline
func (o *Out) addMore(kind EventKind) *Event {
	o.more = append(o.more, Event{Kind: kind})
	return &o.more[len(o.more)-1]
}

// Opened adds EventOpened for the session with a number at this side.
func (o *Out) Opened(local uint32) { o.add(EventOpened).Session = local }

// Pending reports whether outcomes may be left. If not, Next has none.
func (o *Out) Pending() bool { return o.outcomes != 0 }

// Next takes the next outcome, nil if there is none. It is valid until the next call of a
// session. The owner acts on each outcome before it takes the next one.
func (o *Out) Next() *Event {
	if o.outcomes != 1 {
		return o.nextOfMany()
	}
	o.outcomes = 0
	return &o.first
}

// nextOfMany is the rare part of Next.
//
//go:noinline
func (o *Out) nextOfMany() *Event {
	if o.taken == o.outcomes {
		o.taken, o.outcomes, o.more = 0, 0, o.more[:0]
		return nil
	}
	o.taken++
	if o.taken == 1 {
		return &o.first
	}
	return &o.more[o.taken-2]
}

// Settled panics in builds with assertions if there are outcomes that nobody has taken.
func (o *Out) Settled() {
	if invariants.Enabled && o.taken != o.outcomes {
		panic("session: outcomes were left")
	}
}
