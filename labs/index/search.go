package main

import "github.com/userspace-rpc/erpc/gopt"

// floorUpper is an inner node above the lowest ones.
type floorUpper struct {
	head  [8]uint64
	seps  [24]uint64
	kids  [24]*floorUpper
	lower [24]*floorInner // in place of kids at the lowest of these levels
}

// needUppers makes the way from a root to the lowest inner nodes, for search: the least program
// that looks for a key as the index does. Its nodes have the index's sizes and separators. It has
// no locks, no atomic loads, no deleted nodes, and only keys of 8 bytes.
func (f *floor) needUppers() {
	if f.root != nil {
		return
	}
	level := make([]*floorUpper, 0, len(f.inners)/floorKids+1)
	var low []uint64 // the first key of each node of the level
	for i, p := range f.inners {
		first := separate(&p.head, &p.seps, func(i int) (uint64, bool) {
			if l := p.kids[i]; l != nil {
				return l.least, true
			}
			return 0, false
		})
		if i%floorKids == 0 {
			level, low = append(level, new(floorUpper)), append(low, first)
		}
		u := level[len(level)-1]
		u.lower[i%floorKids], u.seps[i%floorKids] = p, first
	}
	for f.levels = 1; ; f.levels++ {
		for _, u := range level {
			firsts := u.seps
			separate(&u.head, &u.seps, func(i int) (uint64, bool) {
				return firsts[i], u.lower[i] != nil || u.kids[i] != nil
			})
		}
		if len(level) == 1 {
			f.root = level[0]
			return
		}
		var above []*floorUpper
		var lows []uint64
		for i, u := range level {
			if i%floorKids == 0 {
				above, lows = append(above, new(floorUpper)), append(lows, low[i])
			}
			a := above[len(above)-1]
			a.kids[i%floorKids], a.seps[i%floorKids] = u, low[i]
		}
		level, low = above, lows
	}
}

// separate writes the separators and pivots of a node whose child i begins at first(i), if there
// is one. It returns where child 0 begins.
func separate(head *[8]uint64, seps *[24]uint64, first func(i int) (uint64, bool)) uint64 {
	low, _ := first(0)
	for i := range seps {
		k, ok := uint64(0), false
		if i+1 < len(seps) {
			k, ok = first(i + 1)
		}
		if seps[i] = ^uint64(0); ok {
			seps[i] = k
		}
	}
	for i := range 2 {
		head[5+i] = seps[8*i+7]
	}
	return low
}

// route returns the child for key k, written out: of a loop the compiler makes more branches.
func route(head *[8]uint64, seps *[24]uint64, k uint64) int {
	at := 0
	if head[5] <= k {
		at = 8
	}
	if head[6] <= k {
		at = 16
	}
	s := (*[8]uint64)(seps[at : at+8])
	n := 0
	if s[0] <= k {
		n = 1
	}
	if s[1] <= k {
		n = 2
	}
	if s[2] <= k {
		n = 3
	}
	if s[3] <= k {
		n = 4
	}
	if s[4] <= k {
		n = 5
	}
	if s[5] <= k {
		n = 6
	}
	if s[6] <= k {
		n = 7
	}
	return at + n
}

// search looks for a key from the root on.
func (f *floor) search(k uint64) (uint64, bool) {
	u := f.root
	for range f.levels - 1 {
		u = u.kids[route(&u.head, &u.seps, k)]
	}
	p := u.lower[route(&u.head, &u.seps, k)]
	l := [1]*floorLeaf{p.kids[route(&p.head, &p.seps, k)]}
	gopt.Prefetch(l[:], floorLines)
	return l[0].among(l[0].match(k), k)
}
