package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
)

func main() {
	r := rand.New(rand.NewPCG(1, 2))
	t := newTable(r)
	for _, f := range []struct {
		name  string
		plain func(uint32) uint32
		batch func([]uint32, []uint32)
	}{
		{"figure5", t.figure5, t.figure5Batch}, {"early", t.early, t.earlyBatch},
		{"follow", t.follow, t.followBatch}, {"labels", t.labels, t.labelsBatch},
		{"cases", t.cases, t.casesBatch}, {"names", t.names, t.namesBatch},
		{"ranges", t.ranges, t.rangesBatch}, {"once", t.once, t.onceBatch},
		{"hides", t.hides, t.hidesBatch}, {"leave", t.leave, t.leaveBatch},
		{"unread", t.unread, t.unreadBatch}, {"fields", t.fields, t.fieldsBatch},
		{"ends", t.ends, t.endsBatch},
		{"share", func(k uint32) uint32 { return share(t, 3, k) }, func(ks, out []uint32) {
			shareBatch(t, 3, ks, out)
		}},
		{"taken", func(k uint32) uint32 {
			a, b, _ := t.taken(k)
			return a ^ b
		}, func(ks, out []uint32) {
			b := make([]uint32, len(ks))
			t.takenBatch(ks, out, b, make([]error, len(ks)))
			xor(out, b)
		}},
		{"takenToo", func(k uint32) uint32 {
			a, b := t.takenToo(k)
			return a ^ b
		}, func(ks, out []uint32) {
			b := make([]uint32, len(ks))
			t.takenTooBatch(ks, out, b)
			xor(out, b)
		}},
	} {
		for n := range 200 {
			xs := make([]uint32, n)
			var want []uint32
			for i := range xs {
				xs[i] = r.Uint32() >> r.IntN(32)
				want = append(want, f.plain(xs[i]))
			}
			out := make([]uint32, n+3)
			f.batch(xs, out)
			same(f.name, n, out[:n], want)
			same(f.name+" behind", n, out[n:], make([]uint32, 3))
			f.batch(xs, xs) // in place
			same(f.name+" in place", n, xs, want)
		}
	}
	values(t, r)
}

func xor(a, b []uint32) {
	for i, x := range b {
		a[i] ^= x
	}
}

func newTable(r *rand.Rand) *table {
	t := &table{entries: make([]entry, 256), depth: 2}
	for i := range 256 {
		t.order = append(t.order, r.Uint32N(256))
		e := &t.entries[i]
		if e.key = r.Uint32(); i%2 == 0 {
			e.value = &t.order[i]
		}
		if i%9 != 0 {
			e.next = &t.entries[r.IntN(256)]
		}
	}
	for i := range t.levels {
		for range 10 + i {
			t.levels[i] = append(t.levels[i], r.Uint32())
		}
	}
	return t
}

func values(t *table, r *rand.Rand) {
	var tr tree[uint64, string]
	for i := range 100 {
		tr.keys = append(tr.keys, uint64(3*i))
		tr.values = append(tr.values, fmt.Sprint(i))
	}
	for n := range 70 {
		var list, want []query
		var keys []uint64
		for range n {
			list = append(list, query{key: r.Uint32()})
			keys = append(keys, r.Uint64N(310))
		}
		want = slices.Clone(list)
		for i := range want {
			answer(t, &want[i], 3)
		}
		answerBatch(t, list, 3)
		same("answer", n, list, want)
		found, ok := make([]string, n), make([]bool, n)
		tr.findBatch(keys, found, ok)
		a, b := make([]int, n), make([]int, n)
		for i, k := range keys {
			v, there := tr.find(k)
			same("find", n, found[i:i+1], []string{v})
			same("find", n, ok[i:i+1], []bool{there})
			a[i], b[i] = r.IntN(100), r.IntN(100)
		}
		one, two, sums := make([]string, n), make([]string, n), make([]int, n)
		pickBatch(tr.values, a, a, b, one, two, sums)
		for i := range a {
			x, y, z := pick(tr.values, a[i], 0, b[i])
			same("pick", n, []string{one[i], two[i], fmt.Sprint(sums[i])}, []string{x, y, fmt.Sprint(z)})
		}
	}
}

func same[T comparable](name string, n int, got, want []T) {
	if !slices.Equal(got, want) {
		fmt.Printf("%s, %d lookups: %v, want %v\n", name, n, got, want)
		os.Exit(1)
	}
}
