package index

// spot is where a key is or belongs: a locked leaf, and a rank in it.
type spot[C any] struct {
	tree  *tree[C]
	leaf  *leaf[C]
	key   uint64
	kind  uint8  // at most suffixed
	rest  []byte // of a longer key
	place int    // -1: not there
	here  bool
	// The layer above, and the slice that leads from there to tree; nil in the first layer.
	above *tree[C]
	via   uint64
}

// cell returns the value of a key that is there.
func (s *spot[C]) cell() *C { return &s.leaf.pairs[s.place].val }

// lockKey finds key and locks its leaf. If another longer key alone has its slice, and grow is set,
// it makes a layer for the two.
func (t *tree[C]) lockKey(key []byte, grow bool) (s spot[C]) {
	s.tree = t
	left := key // what the layers so far have not used up
	for {
		s.key, s.kind = head(left)
		l := s.tree.lockLeaf(s.key)
		if l == nil { // the layer has gone meanwhile
			s, left = spot[C]{tree: t}, key
			wait()
			continue
		}
		s.leaf = l
		o := l.load()
		s.place = l.find(o, s.key, s.kind)
		s.here = s.place >= 0
		if s.kind <= 8 {
			return s
		}
		s.rest = left[8:]
		if !s.here {
			return s
		}
		x := &l.long[s.place]
		if x.layer == nil {
			if s.here = x.rest == string(s.rest); s.here || !grow {
				return s
			}
			if o.used() == width {
				s.tree.renew(l, s.key, s.kind, nil)
				l.mu.Unlock()
				continue
			}
			x = l.deepen(s.place)
		}
		l.mu.Unlock()
		s.above, s.via, s.tree, left = s.tree, s.key, x.layer, s.rest
	}
}

// deepen gives an entry, a longer key, a layer of its own. The leaf is locked and has a place left.
func (l *leaf[C]) deepen(old int) *long[C] {
	key, s := l.pairs[old].key, l.load()
	rest := l.long[old].rest
	e := entry[C]{val: l.pairs[old].val}
	if e.key, e.kind = head([]byte(rest)); e.kind > 8 {
		e.long.rest = rest[8:]
	}
	x := long[C]{layer: newTree([]entry[C]{e})}
	e = entry[C]{key: key, kind: layered, long: x}
	place := l.put(l.rank(s, key, suffixed), &e, 1<<old)
	return &l.long[place]
}

// insert puts a key that is not there where it belongs, and unlocks the leaf.
func (s *spot[C]) insert(val *C) {
	l := s.leaf
	e := entry[C]{key: s.key, kind: s.kind, val: *val}
	if s.kind > 8 {
		e.long.rest = string(s.rest)
	}
	o := l.load()
	i := l.rank(o, s.key, s.kind)
	switch used := o.used(); {
	case used >= width-1 && l.extends(i, s.key):
		s.tree.extend(l, &e)
	case used == width:
		s.tree.renew(l, s.key, s.kind, &e)
	default:
		l.put(i, &e, 0)
	}
	l.mu.Unlock()
}

// Entries that leaves have. A renewed leaf has room for some more, so that renewals are rare.
const (
	packed   = 41 // a leaf with more is split when it is renewed
	thin     = 12 // one with fewer looks for a sibling to join
	together = 36 // that two have at most when they join
)

// renew replaces a leaf, which is locked, by one or two that have places left. A new entry, which
// may be nil, has slice k.
func (t *tree[C]) renew(l *leaf[C], k uint64, kind uint8, e *entry[C]) {
	var buf entryBuf[C]
	list := l.take(buf[:0])
	t.forget(l)
	high := l.high.Load()
	i := 0
	for i < len(list) && list[i].before(k, kind) {
		i++
	}
	run := i > 0 && list[i-1].key == l.pairs[width-1].key
	end := i == len(list) && high == ^uint64(0)
	if e != nil {
		list = append(list, entry[C]{})
		copy(list[i+1:], list[i:])
		list[i] = *e
	}
	if len(list) <= packed {
		r := newLeaf(l.low, high, list)
		lock(&r.mu)
		t.replace(&l.node, &r.node, nil)
		t.remember(r)
		r.mu.Unlock()
		return
	}
	at := cut(list, i, end && e != nil, run)
	sep := list[at].key
	left := newLeaf(l.low, sep-1, list[:at])
	right := newLeaf(sep, high, list[at:])
	last := left
	if i >= at {
		last = right
	}
	lock(&last.mu)
	t.replace(&l.node, &left.node, &right.node)
	t.remember(last)
	last.mu.Unlock()
}

// cut returns where to split entries, of which the i-th is new: before the last one if keys are
// likely to come in order at the end, behind the new one if they do somewhere in the middle, else
// behind the middle. So a writer that puts keys in order between those of another one fills both
// leaves. But keys in falling order are to leave more than half a leaf. Entries of one slice stay
// together. There are at most ten of them, so there is such a place among more.
func cut[C any](list []entry[C], i int, last, run bool) int {
	if n := len(list) - 1; last && list[n-1].key != list[n].key {
		return n
	}
	mid := len(list) / 2
	if i > 0 {
		mid++
	}
	if run && i+1 >= len(list)/4 && i+1 <= len(list)*3/4 {
		mid = i + 1
	}
	for d := 0; ; d++ {
		if at := mid - d; at > 0 && list[at-1].key != list[at].key {
			return at
		}
		if at := mid + d; at < len(list) && list[at-1].key != list[at].key {
			return at
		}
	}
}

// replace puts left, and right behind it if it is not nil, in the place of old, which is locked and
// alive.
func (t *tree[C]) replace(old, left, right *node) {
	p, i := t.lockParent(old)
	switch {
	case p == nil:
		top := left
		if right != nil {
			top = &newInner([]*node{left, right}).node
		}
		old.die(left, right)
		t.setRoot(top)
	case right == nil:
		old.die(left, nil)
		p.setKid(i, left)
	default:
		old.die(left, right)
		a, b := p.grown(i, left, right)
		t.replace(&p.node, a, b)
	}
	t.unlockParent(p)
}

func (t *tree[C]) setRoot(n *node) {
	point(pointRoot)
	t.root.Store(n)
}

// grown returns a copy of p, or two, with left and right in the place of child i.
func (p *inner) grown(i int, left, right *node) (a, b *node) {
	if p.size() < maxKids {
		return &p.with(i, left, right).node, nil
	}
	var buf kidBuf
	kids := p.list(buf[:0])
	kids = append(kids, nil)
	copy(kids[i+1:], kids[i:])
	kids[i], kids[i+1] = left, right
	mid := len(kids) / 2
	if i == p.size()-1 && p.high.Load() == ^uint64(0) {
		mid = len(kids) - 1
	}
	return &newInner(kids[:mid]).node, &newInner(kids[mid:]).node
}

// with is grown for a node that has room. It takes the separators from p: the other children are
// not in the cache.
func (p *inner) with(i int, left, right *node) *inner {
	q := &inner{}
	settle(&q.node)
	q.level, q.low = p.level, p.low
	q.used = p.used + 1
	q.high = p.high
	copy(q.seps[:i], p.seps[:i])
	q.seps[i] = right.low
	copy(q.seps[i+1:], p.seps[i:])
	q.fill()
	copy(q.kids[:i], p.kids[:i])
	q.kids[i], q.kids[i+1] = left, right
	copy(q.kids[i+2:], p.kids[i+1:p.size()])
	return q
}
