package flight

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/packet"
	"github.com/userspace-rpc/erpc/wire"
)

// Kind says what an entry is.
type Kind uint8

// The kinds.
const (
	Received Kind = iota
	Sent
	Blind // the loop did not look for packets for Size ns before At
)

// Limits of what a ring keeps of one datagram, in bytes.
const (
	SnapPacket = 64   // of a packet alone: its header, and the start of its data
	SnapBundle = 9216 // of a bundle
)

// entrySize is about how many bytes an entry takes.
const entrySize = 64

// entry is a datagram in a ring.
type entry struct {
	at   int64 // on the loop's clock, ns
	off  uint64
	peer packet.Addr
	size uint32 // on the wire, or ns of a Blind
	snap uint16 // bytes kept
	kind Kind
}

// Ring keeps the last datagrams of a loop. Only the loop uses it.
type Ring struct {
	entries []entry // a power of two
	next    uint64  // number of the next entry
	data    []byte  // a power of two
	used    uint64  // bytes ever put in data, and those skipped at its end
}

// NewRing returns a ring of about n datagrams. It takes some 64 bytes for each, and as much again
// for what they hold, or 1 MiB if that is more.
func NewRing(n int) *Ring {
	size := 64
	for size < n && size < 1<<20 {
		size <<= 1
	}
	return &Ring{entries: make([]entry, size), data: make([]byte, max(size*64, 1<<20))}
}

// Size returns how many datagrams the ring keeps at most.
func (r *Ring) Size() int { return len(r.entries) }

// Add keeps a datagram of two parts, of which the second one may be empty.
func (r *Ring) Add(kind Kind, at int64, peer *packet.Addr, head, rest []byte) {
	most := SnapPacket
	if wire.IsBundle(head) {
		most = SnapBundle
	}
	a := min(len(head), most)
	b := min(len(rest), most-a)
	start := r.used & uint64(len(r.data)-1)
	if start+uint64(a+b) > uint64(len(r.data)) {
		r.used += uint64(len(r.data)) - start
		start = 0
	}
	copy(r.data[start:], head[:a])
	if b > 0 {
		copy(r.data[start+uint64(a):], rest[:b])
	}
	e := &r.entries[r.next&uint64(len(r.entries)-1)]
	e.at, e.off, e.peer, e.size = at, r.used, *peer, uint32(len(head)+len(rest))
	e.snap, e.kind = uint16(a+b), kind
	r.used += uint64(a + b)
	r.next++
	// A ring is larger than caches near the processor. The next datagram is likely as large, and
	// until it comes the memory for it does.
	sys.Prefetch(&r.data[r.used&uint64(len(r.data)-1)], uintptr(a+b))
	sys.Prefetch(&r.entries[r.next&uint64(len(r.entries)-1)], entrySize)
}

// AddBlind notes that the loop did not look for packets for a while before at.
func (r *Ring) AddBlind(at int64, gap time.Duration) {
	r.entries[r.next&uint64(len(r.entries)-1)] = entry{
		at: at, off: r.used, size: uint32(min(gap, 1<<32-1)), kind: Blind,
	}
	r.next++
}

// Entry is a datagram of a dump.
type Entry struct {
	At   int64 // ns since the Unix epoch
	Kind Kind
	Peer packet.Addr
	Size int    // bytes on the wire; of a Blind, ns
	Data []byte // the first ones of them
}

// Time returns the time of day.
func (e *Entry) Time() time.Time { return time.Unix(0, e.At) }

// Dump has the contents of a ring.
type Dump struct {
	Own     packet.Addr // the loop's endpoint
	Loop    int         // its number at that address, 0 if there is one
	Missed  uint64      // datagrams before the first entry that the ring had no room for
	Entries []Entry     // in the order in which they were kept
	Late    bool        `json:",omitempty"` // the loop did not answer: it has them still
}

// Dump returns what is in the ring, which must not be used any more. Wall less the loop's clock is
// shift, in ns.
func (r *Ring) Dump(own packet.Addr, loop int, shift int64) *Dump {
	d := &Dump{Own: own, Loop: loop}
	first := uint64(0)
	if n := uint64(len(r.entries)); r.next > n {
		first = r.next - n
	}
	oldest := uint64(0)
	if n := uint64(len(r.data)); r.used > n {
		oldest = r.used - n
	}
	for first < r.next && r.entries[first&uint64(len(r.entries)-1)].off < oldest {
		first++ // its bytes have been written over
	}
	d.Missed = first
	for ; first < r.next; first++ {
		e := &r.entries[first&uint64(len(r.entries)-1)]
		start := e.off & uint64(len(r.data)-1)
		d.Entries = append(d.Entries, Entry{
			At: e.at + shift, Kind: e.kind, Peer: e.peer, Size: int(e.size),
			Data: r.data[start : start+uint64(e.snap)],
		})
	}
	return d
}
