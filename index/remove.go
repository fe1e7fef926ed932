package index

// remove takes a key that is there out of its leaf, and unlocks that. It reports whether the leaf
// is one of a lower layer and has no keys left.
func (s *spot[C]) remove() (empty bool) {
	l := s.leaf
	o := l.load().without(s.place)
	point(pointPublish)
	l.state.Store(uint64(o))
	if o.size() < thin {
		s.tree.join(l)
	}
	l.mu.Unlock()
	return o.size() == 0 && s.above != nil
}

// join puts a leaf with few keys, which is locked, together with a sibling, if that one has few as
// well and nobody writes to it. Otherwise the next deletion tries again.
func (t *tree[C]) join(l *leaf[C]) {
	p, i := t.lockParent(&l.node)
	defer t.unlockParent(p)
	if p == nil {
		return
	}
	for _, j := range [2]int{i + 1, i - 1} {
		if j < 0 || j >= p.size() {
			continue
		}
		n := p.kid(j) // alive: its death would need the lock of p
		if !n.mu.TryLock() {
			continue
		}
		s := leafOf[C](n)
		a, b := l, s
		if j < i {
			a, b = s, l
		}
		sum := l.load().size() + s.load().size()
		if sum <= together || l.load().size() == 0 {
			var buf [2 * width]entry[C]
			list := b.take(a.take(buf[:0]))
			m := &newLeaf(a.low, b.high.Load(), list).node
			t.forget(a)
			t.forget(b)
			a.die(m, nil)
			b.die(m, nil)
			t.shrink(p, p.fewer(min(i, j), m))
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
}

// fewer returns the children of p, with m in the place of child i and the one behind it.
func (p *inner) fewer(i int, m *node) []*node {
	kids := p.list(make([]*node, 0, maxKids))
	kids[i] = m
	return append(kids[:i+1], kids[i+2:]...)
}

// shrink replaces p, which is locked and alive, by a node that has these children, fewer than
// before. If they are few it takes those of a sibling to them.
func (t *tree[C]) shrink(p *inner, kids []*node) {
	if len(kids) >= minKids {
		t.replace(&p.node, &newInner(kids).node, nil)
		return
	}
	above, i := t.lockParent(&p.node)
	defer t.unlockParent(above)
	if above == nil {
		top := kids[0]
		if len(kids) > 1 {
			top = &newInner(kids).node
		}
		p.die(top, nil)
		t.setRoot(top)
		return
	}
	for _, j := range [2]int{i + 1, i - 1} {
		if j < 0 || j >= above.size() {
			continue
		}
		n := above.kid(j)
		if !n.mu.TryLock() {
			continue
		}
		if q := n.inner(); q.size()+len(kids) <= sumKids {
			var buf kidBuf
			var both []*node
			if j > i {
				both = q.list(append(buf[:0], kids...))
			} else {
				both = append(q.list(buf[:0]), kids...)
			}
			m := &newInner(both).node
			p.die(m, nil)
			q.die(m, nil)
			t.shrink(above, above.fewer(min(i, j), m))
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
	}
	m := &newInner(kids).node
	p.die(m, nil)
	above.setKid(i, m)
}

// prune takes the layers that key leads to out of those above them, as long as they are empty.
func (t *tree[C]) prune(key []byte) {
	for {
		s := t.lockKey(key, false)
		l := s.leaf
		gone := s.above != nil && l.load().size() == 0 && s.unlink()
		l.mu.Unlock()
		if !gone {
			return
		}
	}
}

// unlink takes the layer of s, whose leaf has no keys, out of the layer above, if the leaf is all
// that there is.
func (s *spot[C]) unlink() bool {
	t, l := s.tree, s.leaf
	lock(&t.mu)
	defer t.mu.Unlock()
	if t.root.Load() != &l.node {
		return false
	}
	up := s.above.lockLeaf(s.via)
	if up == nil {
		return false
	}
	defer up.mu.Unlock()
	o := up.load()
	place := up.find(o, s.via, suffixed)
	if place < 0 || up.long[place].layer != t {
		return false
	}
	l.die(nil, nil)
	o = o.without(place)
	up.state.Store(uint64(o))
	if o.size() < thin {
		s.above.join(up)
	}
	return true
}
