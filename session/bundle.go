package session

import "github.com/userspace-rpc/erpc/wire"

// Link is the way to a peer's endpoint, on which small packets travel in bundles. All sessions with
// the endpoint share it, whichever side opened them, and none of them waits for company: a bundle
// holds what a batch has for the peer. Its owner is that of the sessions.
//
// A bundle is open while packets may join it. Any other packet for the peer closes it, so that the
// packets of a request leave in their order.
type Link struct {
	limit  int // bytes that the path carries, of the sessions' largest packets the smallest
	inside int // the largest packet that travels in a bundle, bytes, header included

	buf      []byte // of the open bundle, nil if none is open
	used     int
	most     int   // records end before it
	last     name  // of the session of the record put last
	first    name  // ... of the first record
	item     int32 // in Out.Tx
	count    uint8
	checksum bool
}

// name is what packets to a peer call a session. Numbers alone are not enough: a peer may have
// opened another session under the number of one that has not ended here.
type name struct{ session, token uint32 }

const (
	// bundleStart is the size of the memory in which a bundle begins. Most do not need more.
	bundleStart = 256
	// maxInBundle is the largest packet that travels in a bundle, in bytes, header included. It is
	// also no larger than half of what the path carries: copying more costs more than it saves.
	maxInBundle = 1024
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

// join puts a packet into the bundle that is open to its peer.
func (e *End) join(l *Link, o *Out, h *wire.Header, head, data []byte) {
	n := len(head) - wire.HeaderSize + len(data)
	if l.used+n+wire.MaxRecordHead > l.most || l.checksum != e.Checksum {
		l.room(o, e, n)
	}
	at := l.used
	b := l.buf[at:]
	who := name{e.Remote, e.RemoteToken}
	k := wire.PutRecord(b, h, n, who != l.last, e.RemoteToken)
	k += copy(b[k:], head[wire.HeaderSize:])
	if len(data) > 0 {
		k += copy(b[k:], data)
	}
	l.used += k
	l.last = who
	if l.count++; l.count == wire.MaxBundled {
		l.most = 0
	}
	o.last, o.at = l.item, int32(at)
	o.Packets++
}

// room makes room for a packet with n bytes of payload: more memory for the open bundle, or a new
// one.
//
//go:noinline
func (l *Link) room(o *Out, e *End, n int) {
	if l.buf != nil {
		fits := l.used+n+wire.MaxRecordHead <= l.limit
		if fits && len(l.buf) < l.limit && l.count < wire.MaxBundled && l.checksum == e.Checksum {
			b := o.arena(l.limit)
			copy(b, l.buf[:l.used])
			l.buf, l.most = b, l.limit
			return
		}
		l.close(o, !fits)
	}
	l.buf = o.arena(max(bundleStart, wire.BundleHeaderSize+n+wire.MaxRecordHead))
	l.used, l.most = wire.BundleHeaderSize, len(l.buf)
	l.count, l.checksum = 0, e.Checksum
	l.first = name{e.Remote, e.RemoteToken}
	l.last = l.first
	l.item = int32(len(o.Tx))
	o.place(&e.Peer)
	o.links = append(o.links, l)
}

// close ends the open bundle. A full one gets padding: trains want packets of one size.
func (l *Link) close(o *Out, full bool) {
	wire.PutBundle(l.buf, int(l.count), l.used-wire.BundleHeaderSize, l.first.session, l.first.token)
	if full && len(l.buf) == l.limit {
		clear(l.buf[l.used:])
		l.used = l.limit
	}
	o.Tx[l.item].Head = l.buf[:l.used]
	o.Bundled += uint64(l.count)
	if l.checksum {
		o.sums = append(o.sums, l.item)
	}
	l.buf, l.used, l.most = nil, 0, 0
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
		o.bundles = make([]byte, max(2*len(o.bundles), 16*n)) // packets keep the old memory
		o.filled, end = 0, n
	}
	b := o.bundles[o.filled:end:end]
	o.filled = end
	return b
}
