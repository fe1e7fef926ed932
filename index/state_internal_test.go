package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// madeLeaf returns a leaf whose entries were put one after the other in a random order, some of
// them taken out again, and the entries that are left, in order.
func madeLeaf(r *rand.Rand, puts int, mix bool) (l *leaf[word], left []entry[word]) {
	l = newLeaf[word](0, ^uint64(0), nil)
	for l.load().used() < puts {
		e := entry[word]{key: r.Uint64N(200) << 56, kind: 8, val: word{r.Uint64()}}
		if mix {
			e.kind = uint8(1 + r.IntN(8))
		}
		i := 0
		for i < len(left) && left[i].before(e.key, e.kind) {
			i++
		}
		switch there := i < len(left) && left[i].key == e.key && left[i].kind == e.kind; {
		case there && r.IntN(2) == 0:
			place := l.find(l.load(), e.key, e.kind)
			l.state.Store(uint64(l.load().without(place)))
			left = slices.Delete(left, i, i+1)
		case !there:
			l.put(l.rank(l.load(), e.key, e.kind), &e, 0)
			left = slices.Insert(left, i, e)
		}
	}
	return l, left
}

// TestLeaf compares leaves with lists of entries.
func TestLeaf(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		l, want := madeLeaf(r, r.IntN(width+1), round%2 == 0)
		if got := l.take(nil); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		if s := l.load(); s.size() != len(want) || l.check(new(Stats)) != nil {
			t.Fatalf("%d keys, want %d; %v", s.size(), len(want), l.check(new(Stats)))
		}
		for range 100 {
			k, kind := r.Uint64N(200)<<56, uint8(r.IntN(9))
			i := slices.IndexFunc(want, func(e entry[word]) bool { return e.key == k && e.kind == kind })
			place := l.find(l.load(), k, kind)
			if (place < 0) != (i < 0) || i >= 0 && l.pairs[place].val != want[i].val {
				t.Fatalf("slice %#x of length %d: place %d, entry %d", k, kind, place, i)
			}
		}
	}
}

// TestListAmidWrites: a reader gets the keys of a state in order, at whichever store of later
// writes it is.
func TestListAmidWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sorted := 0
	for range 300 {
		l, want := madeLeaf(r, 20+r.IntN(20), false)
		s := l.load()
		e := entry[word]{key: r.Uint64(), kind: 8}
		i := l.rank(s, e.key, 8)
		if i < s.used() {
			l.state.Store(uint64(s | busy))
			sorted++
		}
		l.fill(s.used(), &e)
		same := func() {
			for _, s := range []state{s, l.load()} {
				var order list
				var got []uint64
				for _, place := range order[:l.list(s, &order)] {
					got = append(got, l.pairs[place].key)
				}
				if !slices.EqualFunc(got, want, func(k uint64, e entry[word]) bool { return e.key == k }) {
					t.Fatalf("%#x, want %v", got, want)
				}
			}
		}
		same()
		l.place(i, s.used())
		same()
		l.state.Store(uint64(s.with(s.used())))
		var order list
		if n := l.list(s, &order); n != len(want) || l.pairs[order[0]].key != want[0].key {
			t.Fatalf("%d places, want %d", n, len(want))
		}
	}
	if sorted == 0 {
		t.Error("no order was changed")
	}
}

// TestSumLeaf: only the values of keys count, from a slice on.
func TestSumLeaf(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		l, left := madeLeaf(r, r.IntN(width+1), false)
		from, most := r.Uint64N(200)<<56, 1+r.IntN(width)
		past := r.IntN(2) == 0
		var got, gotFirst, want, wantFirst uint64
		n, first := 0, 0
		for _, e := range left {
			if e.key >= from {
				want += e.val.v
				n++
			}
			if (e.key > from || e.key == from && !past) && first < most {
				wantFirst += e.val.v
				first++
			}
		}
		if m := sumLeaf(l, l.load(), from, &got); m != n || got != want {
			t.Fatalf("%d values, %#x, want %d, %#x", m, got, n, want)
		}
		if m := sumFirst(l, l.load(), from, past, most, &gotFirst); m != first || gotFirst != wantFirst {
			t.Fatalf("%d first values, %#x, want %d, %#x", m, gotFirst, first, wantFirst)
		}
	}
}

// TestMarks: slices that differ in their lowest byte, or their highest, have many marks. Lookups
// compare with few slices so.
func TestMarks(t *testing.T) {
	for _, shift := range []int{0, 56} {
		seen := map[uint64]bool{}
		for i := range uint64(256) {
			seen[mark(i<<shift)] = true
		}
		if len(seen) <= 160 {
			t.Errorf("%d marks of 256 slices", len(seen))
		}
	}
}
