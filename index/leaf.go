package index

import "sync/atomic"

// width is how many places a leaf has. Arrays have one more, so that four bits need no check.
const width = 15

// Kinds of entries. Up to 8 it is the length of the key's last slice.
const (
	suffixed = 9  // a longer key, alone with its slice: the rest is in long.rest
	layered  = 10 // longer keys: the rests are in long.layer
)

// order says which places of a leaf are keys, in order: the lowest four bits are their number, four
// bits each name the places.
type order uint64

func (o order) size() int { return int(o & 15) }

// at returns the place of the i-th key.
func (o order) at(i int) int { return int(o>>(4*i+4)) & 15 }

// has reports whether a place is one of o's keys.
func (o order) has(place int) bool {
	const ones, highs = 0x111_1111_1111_1111, 0x888_8888_8888_8888
	x := uint64(o)>>4 ^ uint64(place)*ones // four zero bits where the place is
	return (x-ones)&^x&highs&(1<<(4*o.size())-1) != 0
}

// with returns o with a place put before the i-th key.
func (o order) with(i, place int) order {
	low := order(1)<<(4*i+4) - 1
	return (o&low | order(place)<<(4*i+4) | o&^low<<4) + 1
}

// without returns o without its i-th key.
func (o order) without(i int) order {
	low := order(1)<<(4*i+4) - 1
	return (o&low | o>>(4*i+8)<<(4*i+4)) - 1
}

// swapped returns o with another place for its i-th key.
func (o order) swapped(i, place int) order {
	return o&^(15<<(4*i+4)) | order(place)<<(4*i+4)
}

// from returns o without its first i keys.
func (o order) from(i int) order { return o>>(4*i)&^15 | order(o.size()-i) }

// first returns the first n keys of o, which has at least as many.
func (o order) first(n int) order { return o&(1<<(4*n+4)-1)&^15 | order(n) }

// filled returns o with the last place, which no leaf uses, for each key that it does not have.
func (o order) filled() order { return o | ^order(0)<<(4*o.size()+4) }

// inOrder returns the order of n keys in the first n places.
func inOrder(n int) order {
	return 0xEDCBA9876543210<<4&(1<<(4*n+4)-1) | order(n)
}

// leaf is a leaf: 320 bytes, five cache lines, if values have 8 bytes. The first line is the node,
// the next two are values, then come the slices.
type leaf[C any] struct {
	node
	order word
	kinds word            // four bits for each place
	long  *[width]long[C] // made with the first long key, under mu
	vals  [width + 1]C
	keys  [width + 1]uint64 // the last one is for end
}

// long holds the rest of an entry for longer keys, beside its slice. It never changes.
type long[C any] struct {
	rest  string   // of suffixed: what follows the slice
	layer *tree[C] // of layered
}

func (l *leaf[C]) load() order { return order(l.order.Load()) }

func (l *leaf[C]) kind(place int) uint8 { return uint8(l.kinds.Load()>>(4*place)) & 15 }

// sameKind says whether an entry's kind is the wanted one; all longer keys of a slice are one
// entry.
func sameKind(kind, want uint8) bool { return kind == want || kind > 8 && want > 8 }

// find returns the place of an entry, or -1. Kind is at most suffixed. It compares with all places
// in a row, those too that a writer fills or that are no keys any more: addresses that came out of
// the order word would have to wait for it. So the order word is asked about a match only.
func (l *leaf[C]) find(o order, k uint64, kind uint8) int {
	for place := range width {
		if atomic.LoadUint64(&l.keys[place]) == k && o.has(place) &&
			sameKind(l.kind(place), kind) {
			return place
		}
	}
	return -1
}

// rank returns how many entries come before an entry, and whether that one is there. Kind is at
// most suffixed.
func (l *leaf[C]) rank(o order, k uint64, kind uint8) (i int, found bool) {
	n := o.size()
	if n > 0 && l.keys[o.at(n-1)] < k {
		return n, false // keys that come in order
	}
	for ; i < n; i++ {
		place := o.at(i)
		if at := l.keys[place]; at < k {
			continue
		} else if at > k {
			return i, false
		}
		if has := min(l.kind(place), suffixed); has >= kind {
			return i, has == kind
		}
	}
	return i, false
}

// entry is one place of a leaf.
type entry[C any] struct {
	key  uint64
	kind uint8
	long long[C]
	val  C // copied while its leaf is locked
}

// put writes an entry to the next place of a leaf that readers have. They compare the key already.
func (l *leaf[C]) put(e *entry[C]) (place int) {
	place = int(l.places)
	l.places++
	atomic.StoreUint64(&l.keys[place], e.key)
	l.fill(place, e)
	return place
}

// fill writes what an entry has beside its key to a place that is no key yet.
func (l *leaf[C]) fill(place int, e *entry[C]) {
	l.vals[place] = e.val
	if e.kind > 8 {
		if l.long == nil {
			l.long = new([width]long[C])
		}
		l.long[place] = e.long
	}
	if kinds := l.kinds.Load(); e.kind != 8 {
		l.kinds.Store(kinds&^(15<<(4*place)) | uint64(e.kind)<<(4*place))
	}
}

// whole is the kinds of a leaf without entries: a PUT of a key of 8 bytes need not store any.
const whole = 0x8888_8888_8888_8888

// take appends the entries of a locked leaf to buf, in order.
func (l *leaf[C]) take(buf []entry[C]) []entry[C] {
	o := l.load()
	for i := range o.size() {
		place := o.at(i)
		e := entry[C]{key: l.keys[place], kind: l.kind(place), val: l.vals[place]}
		if e.kind > 8 {
			e.long = l.long[place]
		}
		buf = append(buf, e)
	}
	return buf
}

// newLeaf returns a leaf with these entries, at most width, for the slices from low to high.
func newLeaf[C any](low, high uint64, list []entry[C]) *leaf[C] {
	l := &leaf[C]{}
	l.low = low
	l.high = word{high}
	l.kinds = word{whole}
	for i := range list {
		l.keys[i] = list[i].key
		l.fill(i, &list[i])
	}
	l.places = uint8(len(list))
	l.order = word{uint64(inOrder(len(list)))}
	return l
}

// entryBuf has room for the entries of a full leaf and one more.
type entryBuf[C any] [width + 1]entry[C]
