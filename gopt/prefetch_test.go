package gopt_test

import (
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/gopt"
)

// TestPrefetch: the hint changes nothing, allocates nothing, and takes any pointer and number.
func TestPrefetch(t *testing.T) {
	type item [100]byte
	table := make([]item, 64)
	for i := range table {
		for j := range table[i] {
			table[i][j] = byte(i + j)
		}
	}
	before := slices.Clone(table)
	ps := []*item{nil, &table[0], &table[63], nil}
	at := []uint32{0, 63, 1 << 31, 1<<32 - 1}
	for _, lines := range []int{-1, 0, 1, 2, 100} {
		gopt.Prefetch(ps, lines)
		gopt.Prefetch(ps[:0], lines)
		gopt.PrefetchAt(table, at, lines)
		gopt.PrefetchAt(table, nil, lines)
		gopt.PrefetchAt([]item(nil), at, lines)
	}
	if !slices.Equal(table, before) {
		t.Error("the table changed")
	}
	if !slices.Equal(ps, []*item{nil, &table[0], &table[63], nil}) ||
		!slices.Equal(at, []uint32{0, 63, 1 << 31, 1<<32 - 1}) {
		t.Error("the arguments changed")
	}
	n := testing.AllocsPerRun(100, func() {
		var local [16]*item
		var nums [16]uint32
		gopt.Prefetch(local[:], 2)
		gopt.PrefetchAt(table, nums[:], 2)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPrefetch16(b *testing.B) {
	var lines [16][64]byte
	var ps [16]*[64]byte
	for i := range ps {
		ps[i] = &lines[i]
	}
	for b.Loop() {
		gopt.Prefetch(ps[:], 1)
	}
}
