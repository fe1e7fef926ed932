package session

import "github.com/userspace-rpc/erpc/wire"

// Link is the way to a peer's endpoint, on which small packets travel in bundles. All sessions with
// the endpoint share it, whichever side opened them, and none of them waits for company: a bundle
// holds what a batch has for the peer. Its owner is that of the sessions.
//
// The first packet of a batch is queued alone. The second one makes a bundle of both, which is open
// for more. Any other packet for the peer closes it, so that the packets of a request leave in
// their order.
type Link struct {
	limit  int // bytes: the smallest of the largest packets of its sessions
	inside int // the largest packet that travels in a bundle, bytes, header included

	batch    uint64 // Out batch in which a packet was queued that others can join
	buf      []byte // of the open bundle, nil if none is open
	used     int
	max      int   // records end before it
	last     name  // of the session of the record put last
	first    name  // ... of the first record
	item     int32 // in Out.Tx
	count    uint8
	checksum bool
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
}

// SetLink makes the session's small packets travel in the bundles of a link, nil for none.
func (e *End) SetLink(l *Link) { e.link = l }

// mayJoin reports whether a packet of n bytes, header included, can join one that was queued
// before. If not, it is queued alone, and others may join it.
func (l *Link) mayJoin(o *Out, e *End, n int) bool {
	if n > l.inside {
		l.end(o)
		return false
	}
	if l.batch == o.batch {
		if l.checksum == e.Checksum && l.version == e.Version {
			return true
		}
		l.end(o)
	}
	l.batch, l.item = o.batch, int32(len(o.Tx))
	l.first, l.checksum, l.version = e.name(), e.Checksum, e.Version
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
