package index

import (
	"encoding/binary"
	"math/bits"
)

// Kinds of entries. Up to 8 it is the length of the key's last slice.
const (
	suffixed = 9  // a longer key, alone with its slice: the rest is in long.rest
	layered  = 10 // longer keys: the rests are in long.layer
)

// leaf is a leaf. If values have 8 bytes it takes 18 cache lines with the word that the runtime has
// before it: the node and its state are the first line, marks the second, kinds half of the third,
// order the fourth, and pairs fill the last fourteen. So what a scan reads is the first line, and
// lines in a row from order on.
type leaf[C any] struct {
	node
	state word
	long  *[width]long[C] // made with the first long key, under mu
	marks [lanes]word     // a byte for each place: the mark of its slice
	end   word            // of a leaf that was cut: the last slice that it had before
	kinds [4]word         // four bits for each place: its kind, and 0 in place of 8
	_     [4]uint64
	order [8]word // used places in the order of their entries, a byte each; lanes of them
	pairs [width]pair[C]
}

// pair is a slice and its value. Four are a line.
type pair[C any] struct {
	key uint64
	val C
}

// long holds the rest of an entry for longer keys, beside its slice. It never changes.
type long[C any] struct {
	rest  string   // of suffixed: what follows the slice
	layer *tree[C] // of layered
}

func (l *leaf[C]) load() state { return state(l.state.Load()) }

func (l *leaf[C]) kind(place int) uint8 {
	return uint8(l.kinds[place>>4&3].Load()>>(4*(place&15)))&15 ^ 8
}

// sameKind says whether an entry's kind is the wanted one; all longer keys of a slice are one
// entry.
func sameKind(kind, want uint8) bool { return kind == want || kind > 8 && want > 8 }

// match returns the keys of s that have the mark of slice k, a bit for each place. It reads two
// lines of the leaf.
func (l *leaf[C]) match(s state, k uint64) (places uint64) {
	all := mark(k) * lowest
	for i := range lanes {
		places |= zeros(l.marks[i].Load()^all) << (8 * i)
	}
	return places & s.keys()
}

// among returns the one of some places that an entry has, or -1. Kind is at most suffixed.
func (l *leaf[C]) among(places uint64, s state, k uint64, kind uint8) int {
	for ; places != 0; places &= places - 1 {
		place := bits.TrailingZeros64(places)
		if l.pairs[place].key == k && (s.whole() && kind == 8 || sameKind(l.kind(place), kind)) {
			return place
		}
	}
	return -1
}

// find returns the place of an entry, or -1. Kind is at most suffixed.
func (l *leaf[C]) find(s state, k uint64, kind uint8) int {
	return l.among(l.match(s, k), s, k, kind)
}

// rank returns how many of the used places come before an entry that is not there. The leaf is
// locked. Kind is at most suffixed.
func (l *leaf[C]) rank(s state, k uint64, kind uint8) (n int) {
	used := s.used()
	if used > 0 && l.pairs[l.at(used-1)].key < k {
		return used // keys that come in order
	}
	if s.whole() && kind == 8 {
		return l.search(k, used)
	}
	for n < used {
		mid := (n + used) / 2
		place := l.at(mid)
		at := l.pairs[place].key
		if at < k || at == k && min(l.kind(place), suffixed) < kind {
			n = mid + 1
		} else {
			used = mid
		}
	}
	return n
}

// search returns how many of the used places, all of keys of 8 bytes, are below slice k. It counts
// words of the order whose last place is, and then places of one word: twice some loads that do not
// wait for each other, and no branch that depends on k.
func (l *leaf[C]) search(k uint64, used int) int {
	words := 0
	for w := range lanes {
		words += l.under(l.order[w].Load()>>56, k, 8*w+7, used)
	}
	n := 8 * words
	x := l.order[words%8].Load()
	for i := range 8 {
		n += l.under(x&255, k, 8*words+i, used)
		x >>= 8
	}
	return n
}

// under returns 1 if the slice of a place, the i-th in order, is below k and i below used, else 0.
func (l *leaf[C]) under(place, k uint64, i, used int) int {
	_, below := bits.Sub64(l.pairs[place].key, k, 0)
	_, here := bits.Sub64(uint64(i), uint64(used), 0)
	return int(below & here)
}

// at returns the i-th of the used places in order. The leaf is locked.
func (l *leaf[C]) at(i int) int {
	return int(l.order[uint(i)/8%8].Load() >> (uint(i) % 8 * 8) & 255)
}

// list is places of a leaf in order.
type list [8 * lanes]uint8

// list writes the keys of s, one of the leaf's states, to buf in order, and returns their number.
// If a writer has changed the order since, it sorts them by itself. It waits for nobody.
func (l *leaf[C]) list(s state, buf *list) int {
	for i := range lanes {
		binary.LittleEndian.PutUint64(buf[8*i:], l.order[i].Load())
	}
	point(pointRead)
	switch used := s.used(); {
	case s&busy != 0 || l.load()>>width != s>>width:
		return l.sort(s, buf)
	case used == s.size():
		return used
	default:
		n := 0
		for _, place := range buf[:used] {
			if s.has(int(place)) {
				buf[n] = place
				n++
			}
		}
		return n
	}
}

// sort is list without the leaf's order.
func (l *leaf[C]) sort(s state, buf *list) (n int) {
	for rest := s.keys(); rest != 0; rest &= rest - 1 {
		place := bits.TrailingZeros64(rest)
		i := n
		for ; i > 0 && l.before(place, int(buf[i-1])); i-- {
			buf[i] = buf[i-1]
		}
		buf[i] = uint8(place)
		n++
	}
	return n
}

// before reports whether the entry of place a comes before that of place b.
func (l *leaf[C]) before(a, b int) bool {
	x, y := l.pairs[a].key, l.pairs[b].key
	return x < y || x == y && min(l.kind(a), suffixed) < min(l.kind(b), suffixed)
}

// entry is one place of a leaf.
type entry[C any] struct {
	key  uint64
	kind uint8
	long long[C]
	val  C // copied while its leaf is locked
}

// before reports whether e comes before an entry that is none of its slice's longer keys.
func (e *entry[C]) before(k uint64, kind uint8) bool {
	return e.key < k || e.key == k && min(e.kind, suffixed) < kind
}

// put writes an entry to the next free place of a locked leaf, and publishes it as the i-th used
// place. One store makes the entry a key and deletes the keys whose bits are set in gone.
func (l *leaf[C]) put(i int, e *entry[C], gone uint64) (place int) {
	s := l.load()
	place = s.used()
	l.fill(place, e)
	if i < place {
		l.state.Store(uint64(s | busy))
		point(pointPublish)
	}
	l.place(i, place)
	next := s.with(place) &^ state(gone)
	if e.kind != 8 {
		next |= mixed
	}
	point(pointPublish)
	l.state.Store(uint64(next))
	return place
}

// place puts a place, the next one, before the i-th of the order. Readers that count fewer places
// than are used now do not read the byte behind theirs.
func (l *leaf[C]) place(i, place int) {
	w := uint(place) / 8 % 8
	x := l.order[w].Load()
	for ; w > uint(i)/8; w-- {
		below := l.order[(w-1)%8].Load()
		l.order[w%8].Store(x<<8 | below>>56)
		point(pointPublish)
		x = below
	}
	at := uint(i) % 8 * 8
	low := uint64(1)<<at - 1
	l.order[w%8].Store(x&low | uint64(place)<<at | x&^low<<8)
}

// fill writes an entry to a place that is no key yet.
func (l *leaf[C]) fill(place int, e *entry[C]) {
	l.pairs[place] = pair[C]{e.key, e.val}
	m := &l.marks[place/8]
	m.Store(m.Load() | mark(e.key)<<(place%8*8))
	if e.kind == 8 {
		return
	}
	if e.kind > 8 {
		if l.long == nil {
			l.long = new([width]long[C])
		}
		l.long[place] = e.long
	}
	k := &l.kinds[place/16]
	k.Store(k.Load() | uint64(e.kind^8)<<(4*(place%16)))
}

// take appends the entries of a locked leaf to buf, in order.
func (l *leaf[C]) take(buf []entry[C]) []entry[C] {
	var order list
	n := l.list(l.load(), &order)
	for _, place := range order[:n] {
		p := &l.pairs[place]
		e := entry[C]{key: p.key, kind: l.kind(int(place)), val: p.val}
		if e.kind > 8 {
			e.long = l.long[place]
		}
		buf = append(buf, e)
	}
	return buf
}

// newLeaf returns a leaf with these entries, at most width, for the slices from low to high.
func newLeaf[C any](low, high uint64, entries []entry[C]) *leaf[C] {
	l := &leaf[C]{}
	settle(&l.node)
	l.low = low
	l.high = word{high}
	s := filled(len(entries))
	for i := range entries {
		e := &entries[i]
		l.pairs[i] = pair[C]{e.key, e.val}
		l.marks[i/8].v |= mark(e.key) << (i % 8 * 8)
		if e.kind != 8 {
			l.fill(i, e)
			s |= mixed
		}
	}
	for i := range lanes {
		l.order[i].v = 0x0706_0504_0302_0100 + uint64(8*i)*lowest
	}
	l.state = word{uint64(s)}
	return l
}

// straight reports whether all of the first n places are keys, in their order.
func (l *leaf[C]) straight(n int) bool {
	if l.load().size() != n {
		return false
	}
	for i := range n {
		if l.at(i) != i {
			return false
		}
	}
	return true
}

// entryBuf has room for the entries of a full leaf and one more.
type entryBuf[C any] [width + 1]entry[C]
