package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
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

	hungry  []*Client // whose credits came back
	last    int32     // place in Tx of the packet queued last
	at      int32     // where in it that begins
	held    []heldTx  // answers in Tx whose hold time may have to grow
	batch   uint64    // number of those that are queued between two calls of Finish, from 1
	links   []*Link   // those with bundles of this batch
	sums    []int32   // places in Tx of bundles whose checksum is missing
	kept    int       // packets in Tx of batches before, which could not be sent
	trains  trains
	bundles []byte // memory of the bundles of this batch
	filled  int    // of it
	mem     []byte // control headers and management packets of this batch
	used    int
	lent    bool             // packets of this batch have Data
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

// Feed hands out the credits that came back since the last time.
func (o *Out) Feed(now monotime.Time) {
	for _, c := range o.hungry {
		c.hungry = false
		if c.stalled > 0 {
			c.pump(now, o)
		}
	}
	clear(o.hungry)
	o.hungry = o.hungry[:0]
}

// Hungry reports whether Feed has something to do.
func (o *Out) Hungry() bool { return len(o.hungry) > 0 }

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
	if o.lent {
		clear(o.Tx) // it must not keep the memory of others
		o.lent = false
	}
	o.Tx, o.held, o.Packets, o.kept = o.Tx[:0], o.held[:0], 0, 0
	o.trains.forget()
	o.batch++
}

// dropBundles closes the bundles of packets that are forgotten.
func (o *Out) dropBundles() {
	o.closeBundles()
	o.sums = o.sums[:0]
}

// Keep forgets all packets but the last n, which could not be sent yet.
func (o *Out) Keep(n int) {
	copy(o.Tx, o.Tx[len(o.Tx)-n:])
	clear(o.Tx[n:])
	o.Tx = o.Tx[:n]
	o.held = o.held[:0]
	o.kept = n
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

// Finish makes all packets ready to leave: no more join the bundles, and they are brought into
// order, see trains. Late is added to the hold times in the answers.
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
	if len(o.trains.links) > 0 {
		o.Tx = o.trains.order(o.Tx, o.kept)
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
	if l := e.link; l != nil {
		n := len(head) + len(data)
		follows := e.follows(h, n)
		if follows && l.full.batch == o.batch {
			l = l.behindFull()
		}
		join := l.mayJoin(o, e, n)
		l.message = l.message || !follows
		if join {
			e.join(l, o, h, head, data)
			return
		}
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
	if data != nil {
		o.lent = true
	}
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

// Tell adds an event of the owner's own about the session with a number at this side. Like any
// other it comes behind the outcomes that are there already.
func (o *Out) Tell(kind EventKind, local uint32) { o.add(kind).Session = local }

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

// Arrival describes a received packet beside its bytes.
type Arrival struct {
	// Now is the time.
	Now monotime.Time
	// Unseen is for how long before Now nobody had looked for packets: the packet may have
	// come at any time since. Sessions take it for time spent in the host, not on the path.
	Unseen time.Duration
	// CE says that the network marked the packet "congestion experienced" (RFC 3168).
	CE bool
}

// EventKind says what came about.
type EventKind uint8

// The kinds of events.
const (
	// EventFlush: a packet in Tx may outlive its request, since it was sent before or its
	// request has just ended. The owner sends Tx, flushes the transport and calls Out.Flushed
	// before anything else: later outcomes give the packet's buffer away (eRPC, section 4.2.2).
	EventFlush EventKind = iota + 1
	// EventRequest: with the packet just taken the request in Slot is complete; see
	// Server.Request.
	EventRequest
	// EventProgress: packets of request Ref were answered.
	EventProgress
	// EventDone: the response to request Ref is here: Resp, which the owner must Return.
	EventDone
	// EventError: the server answered request Ref with an error, Fault.
	EventError
	// EventFailed: request Ref ended on this side, with Err.
	EventFailed
	// EventPace: the session has packets that are not due yet. The owner calls Client.Release
	// at Client.PaceAt.
	EventPace
	// EventOpened: requests can be sent and taken.
	EventOpened
	// EventClosed: Close was called, and the outcomes of all requests are before this one.
	EventClosed
	// EventCancelled: the client gave up the request in Slot of session Session, whose handler has
	// not responded yet. Its response is dropped; until then the slot takes no request.
	EventCancelled
	// EventLate: the session has answers that it repeats by itself. The owner calls Server.Repeat
	// in each epoch until there are none.
	EventLate
	// EventBroken: the session cannot go on, for the reason Err. The owner ends it.
	EventBroken
	// EventSent: the first packet of request Ref, which is Marked, was queued to leave.
	EventSent
	// EventAnswered: the first of several response packets of request Ref, which is Marked, is here.
	EventAnswered
	// EventFreed: a slot of session Session is free that a request had held which was given up.
	EventFreed
	// EventSpent: session Session has used up the request numbers of a slot. It takes no new
	// requests, as after Client.Drain.
	EventSpent
	// EventDraining: the server of session Session shuts down. It takes no new requests. The owner
	// tells this itself, as the next one.
	EventDraining
	// EventUnreachable: nobody listens where session Session is being opened, which goes on.
	EventUnreachable
	// EventSilent: the server of session Session owes answers and is silent; told of some sessions.
	EventSilent
)

// Marked is a bit of Op.Ref: the owner gets EventSent and EventAnswered for the request.
const Marked = 1 << 31

// Event is an outcome that a session leaves in an Out. A field that the kind does not name
// is old.
type Event struct {
	Kind    EventKind
	Slot    uint8
	Session uint32         // of what is not about a request: End.Local
	Ref     uint32         // the Op's
	RTT     time.Duration  // EventProgress, EventDone: without the server's hold; 0 if unknown
	Resp    *msgbuf.Buffer // belongs to the library until the owner returns it
	Fault   *wire.Error    // until the next packet is taken; its parts alias the packet
	Err     error
}

// Stats counts protocol events. One Stats serves all sessions of an endpoint.
type Stats struct {
	Retransmits   uint64 // packets sent again, by client and server
	Rollbacks     uint64 // go-back-N rollbacks after a timeout
	FastRollbacks uint64 // ... on evidence of loss
	FastResends   uint64 // of Retransmits: by a client, after a FastRollback
	Reanswers     uint64 // of Retransmits: by a server, asked for by repeated packets
	Gaps          uint64 // by a server: gaps told to the client
	Waits         uint64 // by a server: clients told that a handler waits
	Pasts         uint64 // by a server: clients told that a number has passed
	Cancels       uint64 // by a server: requests given up by clients
	Lates         uint64 // by a server: answers repeated until they are acknowledged
	Recounts      uint64 // messages counted anew in smaller packets
	CreditStalls  uint64 // times a slot had to wait for credits
	PaceStalls    uint64 // times a session had to wait for its rate
	RateUpdates   uint64 // answers that went to congestion control
	DropPast      uint64 // packet of an earlier request or an earlier packet number
	DropFuture    uint64 // packet ahead of the expected one
	DropUnsent    uint64 // answer to a packet that was not sent, or is rolled back
	DropBusy      uint64 // new request for a slot whose handler still runs
	DropRepeat    uint64 // repeated too often to be answered again
	DropSize      uint64 // sizes that contradict each other

	NoMemory       uint64 // by a server: requests and responses that memory was refused to
	StaleRequests  uint64 // ... unfinished requests that stood still too long
	StaleResponses uint64 // ... responses given up that nobody had asked for in a while
}

// Link is the way to a peer's endpoint, on which small packets travel in bundles. All sessions with
// the endpoint share it, whichever side opened them, and none of them waits for company: a bundle
// holds what a batch has for the peer. Its owner is that of the sessions.
//
// The first packet of a batch is queued alone. The second one makes a bundle of both, which is open
// for more. Full packets leave before or behind it, see trains. Any other packet for the peer
// closes it, so that the packets of a request leave in their order.
type Link struct {
	limit  int // bytes: the smallest of the largest packets of its sessions
	inside int // the largest packet that travels in a bundle, bytes, header included

	bundle
	full    fullPackets
	behind  *Link // of what leaves behind the full packets of a batch, nil before the first
	follows bool  // it is such a one

	answered monotime.Time // when the latest packet was sent that has been answered
}

// bundle is the open bundle of a link, or the packet that may become one.
type bundle struct {
	batch    uint64 // Out batch in which a packet was queued that others can join
	buf      []byte // of the open bundle, nil if none is open
	used     int
	max      int   // records end before it
	last     name  // of the session of the record put last
	first    name  // ... of the first record
	item     int32 // in Out.Tx
	count    uint8
	checksum bool
	message  bool // a message is in it, all of one
	version  uint8
}

// name is how packets to a peer name a session: its number, and above it its token. Numbers alone
// are not enough: a peer may have opened another session under the number of one that has not ended
// here.
type name uint64

// name returns the session's name at the peer.
func (e *End) name() name { return name(uint64(e.Remote) | uint64(e.RemoteToken)<<32) }

func (n name) session() uint32 { return uint32(n) }
func (n name) token() uint32   { return uint32(n >> 32) }

const (
	// bundleStart is the size of the memory in which a bundle begins. Most do not need more.
	bundleStart = 256
	// maxInBundle is the largest packet that travels in a bundle, in bytes, header included. It is
	// also no larger than half of what the path carries: copying more costs more than it saves.
	maxInBundle = 1024
	// maxArena is how large the memory of a batch's bundles grows in bytes.
	maxArena = 1 << 20
)

// NewLink returns a link to an endpoint whose path carries packets of limit bytes, header included.
func NewLink(limit int) Link { return Link{limit: limit, inside: min(maxInBundle, limit/2)} }

// Limit makes the link's bundles no larger than size bytes, from the next one on.
func (l *Link) Limit(size int) {
	if size < l.limit {
		l.limit, l.inside = size, min(maxInBundle, size/2)
	}
	if l.behind != nil {
		l.behind.Limit(size)
	}
}

// raise makes the link's bundles as large as size bytes, from the next one on.
func (l *Link) raise(size int) {
	if size > l.limit {
		l.limit, l.inside = size, min(maxInBundle, size/2)
	}
	if l.behind != nil {
		l.behind.raise(size)
	}
}

// SetLink makes the session's small packets travel in the bundles of a link, nil for none.
func (e *End) SetLink(l *Link) { e.link = l }

// mayJoin reports whether a packet of n bytes, header included, can join one that was queued
// before. If not, it is queued alone, and others may join it.
func (l *Link) mayJoin(o *Out, e *End, n int) bool {
	if n > l.inside {
		if n >= e.PerPacket+wire.HeaderSize {
			if l.full.batch != o.batch {
				l.giveWay(o)
			}
			o.trains.add(l, len(o.Tx), o.batch)
			return false
		}
		if l.end(o); l.follows {
			o.trains.follow(len(o.Tx))
		}
		return false
	}
	if l.batch == o.batch {
		if l.checksum == e.Checksum && l.version == e.Version {
			return true
		}
		l.end(o)
	}
	l.batch, l.item = o.batch, int32(len(o.Tx))
	l.first, l.checksum, l.version, l.message = e.name(), e.Checksum, e.Version, false
	if l.follows {
		o.trains.follow(len(o.Tx))
	}
	return false
}

// end lets no packet join what is queued.
func (l *Link) end(o *Out) {
	if l.buf != nil {
		l.close(o, false)
	}
	l.batch = 0
}

// join puts a packet into the bundle that is open to its peer.
func (e *End) join(l *Link, o *Out, h *wire.Header, head, data []byte) {
	n := len(head) - wire.HeaderSize + len(data)
	if l.used+n+wire.MaxRecordHead > l.max {
		l.room(o, e, n)
	}
	l.put(h, e.name(), head, data, o)
	o.Packets++
}

// put writes a packet into the open bundle, which has room for it.
func (l *Link) put(h *wire.Header, who name, head, data []byte, o *Out) {
	at := l.used
	b := l.buf[at:]
	k := wire.PutRecord(b, h, len(head)-wire.HeaderSize+len(data), who != l.last, who.token())
	k += copy(b[k:], head[wire.HeaderSize:])
	if len(data) > 0 {
		k += copy(b[k:], data)
	}
	l.used += k
	l.last = who
	if l.count++; l.count == wire.MaxBundled {
		l.max = 0
	}
	o.last, o.at = l.item, int32(at)
}

// room makes room for a packet with n bytes of payload: more memory for the open bundle, or a new
// one.
//
//go:noinline
func (l *Link) room(o *Out, e *End, n int) {
	if l.buf == nil {
		first := &o.Tx[l.item]
		size := len(first.Head) + len(first.Data)
		l.open(o, size+n)
		var h wire.Header
		_ = h.Parse(first.Head) // it may lack data, and was written here
		l.put(&h, l.first, first.Head, first.Data, o)
		first.Data = nil
		o.answerBundled(l.item)
		if l.used+n+wire.MaxRecordHead <= l.max {
			return
		}
	}
	fits := l.used+n+wire.MaxRecordHead <= l.limit
	if fits && len(l.buf) < l.limit && l.count < wire.MaxBundled {
		b := o.arena(l.limit)
		copy(b, l.buf[:l.used])
		l.buf, l.max = b, l.limit
		return
	}
	l.close(o, !fits)
	l.first = e.name()
	l.item = int32(len(o.Tx))
	if l.follows {
		o.trains.follow(len(o.Tx))
	}
	o.place(&e.Peer, e.Via).Data = nil // Head follows when the bundle is closed
	l.open(o, n)
}

// open begins a bundle at l.item, of the session l.first and with at least n bytes of payload.
func (l *Link) open(o *Out, n int) {
	l.buf = o.arena(min(l.limit, max(bundleStart, wire.BundleHeaderSize+n+2*wire.MaxRecordHead)))
	l.used, l.max = wire.BundleHeaderSize, len(l.buf)
	l.count, l.last = 0, l.first
	o.links = append(o.links, l)
}

// close ends the open bundle. A full one gets padding: trains want packets of one size.
func (l *Link) close(o *Out, full bool) {
	wire.PutBundle(l.buf, l.version, int(l.count), l.used-wire.BundleHeaderSize, l.first.session(),
		l.first.token())
	if full && len(l.buf) == l.limit {
		clear(l.buf[l.used:])
		l.used = l.limit
	}
	o.Tx[l.item].Head = l.buf[:l.used]
	o.Bundled += uint64(l.count)
	if l.checksum {
		o.sums = append(o.sums, l.item)
	}
	l.buf, l.used, l.max = nil, 0, 0
}

// closeBundles ends all open bundles.
func (o *Out) closeBundles() {
	for _, l := range o.links {
		if l.buf != nil {
			l.close(o, false)
		}
	}
	o.links = o.links[:0]
}

// arena returns n bytes for a bundle of this batch.
func (o *Out) arena(n int) []byte {
	end := o.filled + n
	if end > len(o.bundles) {
		// Packets keep the old memory. A transport that stays full keeps it from being used again.
		o.bundles = make([]byte, max(min(2*len(o.bundles), maxArena), 16*n))
		o.filled, end = 0, n
	}
	b := o.bundles[o.filled:end:end]
	o.filled = end
	return b
}
