package index

import (
	"fmt"
	"unsafe"
)

// Stats says what a map is made of.
type Stats struct {
	Keys   int
	Leaves int
	Inners int
	Layers int
	Height int // levels of the first layer
	Bytes  int // of nodes and of what long keys have beside them; values of Bytes do not count
}

// PerKey returns the bytes that one key takes on average.
func (s Stats) PerKey() float64 { return float64(s.Bytes) / float64(max(s.Keys, 1)) }

// check goes through a tree that nobody writes to, and returns what it is made of, or what is wrong
// with it.
func (t *tree[C]) check() (s Stats, err error) {
	s.Layers = 1
	s.Bytes = int(unsafe.Sizeof(*t))
	root := t.root.Load()
	s.Height = int(root.level) + 1
	return s, t.checkNode(root, 0, ^uint64(0), &s)
}

func (t *tree[C]) checkNode(n *node, low, high uint64, s *Stats) error {
	switch {
	case !n.alive():
		return fmt.Errorf("a dead node of level %d for slices from %#x", n.level, low)
	case n.low != low || n.high.Load() != high:
		return fmt.Errorf("a node of level %d for %#x to %#x has %#x to %#x",
			n.level, low, high, n.low, n.high.Load())
	case n.level == 0:
		return leafOf[C](n).check(s)
	}
	p := n.inner()
	s.Inners++
	s.Bytes += int(unsafe.Sizeof(*p))
	for i := range p.size() {
		from, to := low, high
		if i > 0 {
			from = p.seps[i-1]
		}
		if i < p.size()-1 {
			to = p.seps[i] - 1
		}
		kid := p.kid(i)
		if from > to || kid == nil || kid.level != n.level-1 {
			return fmt.Errorf("child %d of a node of level %d for slices from %#x", i, n.level, low)
		}
		if err := t.checkNode(kid, from, to, s); err != nil {
			return err
		}
	}
	for i := p.size() - 1; i < maxKids; i++ {
		if p.seps[i] != ^uint64(0) || i >= p.size() && p.kid(i) != nil {
			return fmt.Errorf("a node of level %d has something behind its children", n.level)
		}
	}
	for i, pivot := range p.pivots {
		if pivot != p.seps[group*i+group-1] {
			return fmt.Errorf("a node of level %d has a pivot of its own", n.level)
		}
	}
	return nil
}

func (l *leaf[C]) check(s *Stats) error {
	s.Leaves++
	s.Bytes += int(unsafe.Sizeof(*l))
	if l.long != nil {
		s.Bytes += int(unsafe.Sizeof(*l.long))
	}
	o := l.load()
	if o&busy != 0 || o.used() > width || o.keys()>>o.used() != 0 {
		return fmt.Errorf("a leaf of state %#x", uint64(o))
	}
	seen := uint64(0)
	for i := range o.used() {
		place := l.at(i)
		if place >= o.used() || seen>>place&1 != 0 || i > 0 && l.before(place, l.at(i-1)) {
			return fmt.Errorf("place %d of a leaf is wrong", place)
		}
		seen |= 1 << place
		if p := &l.pairs[place]; l.match(o, p.key)>>place&1 == 0 && o.has(place) {
			return fmt.Errorf("slice %#x without its mark", p.key)
		}
	}
	var order list
	places := order[:l.list(o, &order)]
	for i, at := range places {
		place := int(at)
		k, kind := l.pairs[place].key, l.kind(place)
		if kind != 8 && o.whole() {
			return fmt.Errorf("a leaf with slice %#x of length %d is whole", k, kind)
		}
		if k < l.low || k > l.high.Load() || kind < 8 && k<<(8*kind) != 0 {
			return fmt.Errorf("slice %#x of length %d in a leaf for %#x to %#x", k, kind, l.low,
				l.high.Load())
		}
		if i > 0 {
			if before := int(places[i-1]); !l.before(before, place) {
				return fmt.Errorf("slice %#x is behind %#x", k, l.pairs[before].key)
			}
		}
		if err := l.checkLong(place, kind, s); err != nil {
			return err
		}
	}
	return nil
}

func (l *leaf[C]) checkLong(place int, kind uint8, s *Stats) error {
	if kind <= 8 {
		s.Keys++
		return nil
	}
	x := &l.long[place]
	if kind == suffixed {
		s.Keys++
		s.Bytes += len(x.rest)
		if x.rest == "" || x.layer != nil {
			return fmt.Errorf("a longer key ends with its slice %#x", l.pairs[place].key)
		}
		return nil
	}
	if kind != layered || x.layer == nil || x.rest != "" {
		return fmt.Errorf("an entry of kind %d without a layer", kind)
	}
	below, err := x.layer.check()
	if err == nil && below.Keys == 0 {
		err = fmt.Errorf("an empty layer")
	}
	s.Keys += below.Keys
	s.Leaves += below.Leaves
	s.Inners += below.Inners
	s.Layers += below.Layers
	s.Bytes += below.Bytes
	return err
}

// Check goes through the whole map and returns what it is made of. The error says where its
// structure is broken, which would be a bug. Nobody may write meanwhile.
func (m *Map) Check() (Stats, error) { return checkMap(m.tree, m.Len()) }

func checkMap[C any](t *tree[C], keys int) (Stats, error) {
	s, err := t.check()
	if err == nil && s.Keys != keys {
		err = fmt.Errorf("%d keys, counted as %d", s.Keys, keys)
	}
	if err != nil {
		return s, fmt.Errorf("index: %w", err)
	}
	return s, nil
}
