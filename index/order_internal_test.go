package index

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// places returns the places that o names, in order.
func places(o order) (list []int) {
	for i := range o.size() {
		list = append(list, o.at(i))
	}
	return list
}

// TestOrder compares order words with slices of places.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		list := r.Perm(width)[:r.IntN(width+1)]
		var o order
		for i, place := range list {
			o = o.with(i, place)
		}
		n := len(list)
		if i := r.IntN(n + 1); !slices.Equal(places(o.from(i)), list[i:]) ||
			!slices.Equal(places(o.first(i)), list[:i]) ||
			!slices.Equal(places(o.from(i).first((n-i)/2)), list[i:i+(n-i)/2]) {
			t.Fatalf("%v from and up to %d: %v and %v", list, i, places(o.from(i)),
				places(o.first(i)))
		}
		for place := range width + 1 {
			if o.has(place) != slices.Contains(list, place) {
				t.Fatalf("%v has %d: %v", list, place, o.has(place))
			}
		}
		f := o.filled()
		if f.size() != n || !slices.Equal(places(f), list) {
			t.Fatalf("%v filled: %v", list, places(f))
		}
		for i := n; i < width; i++ {
			if f.at(i) != width {
				t.Fatalf("%v filled has place %d as its number %d", list, f.at(i), i)
			}
		}
	}
}

// TestSumLeaf: only the values count that an order word names, however many the leaf has had.
func TestSumLeaf(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	m := NewMap()
	for i := range width { // all in the root, a leaf
		if _, _, err := m.Put(binary.BigEndian.AppendUint64(nil, uint64(i)), 1<<i); err != nil {
			t.Fatal(err)
		}
	}
	l, o := m.tree.leaf(0)
	for range 2000 {
		i := r.IntN(o.size() + 1)
		n := r.IntN(o.size() - i + 1)
		sum, want := uint64(5), uint64(5)+1<<(i+n)-1<<i
		if got := sumLeaf(l, o.from(i).first(n), &sum); got != n || sum != want {
			t.Fatalf("%d values from the number %d on: %d of them, %#x, want %#x", n, i, got, sum, want)
		}
	}
}
