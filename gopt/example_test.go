package gopt_test

import (
	"fmt"

	"github.com/userspace-rpc/erpc/gopt"
)

// Lookups in two stages: where to read for all of them, then the reads. The misses of a group
// overlap, where one lookup after the other would wait for each.
func Example() {
	type bucket struct {
		key, value uint64
		_          [48]byte // a cache line
	}
	table := make([]bucket, 1<<10)
	place := func(key uint64) uint32 { return uint32(key*0x9E3779B97F4A7C15>>32) % (1 << 10) }
	table[place(7)] = bucket{key: 7, value: 700}

	keys := []uint64{7, 8}
	values := make([]uint64, len(keys))
	var at [gopt.Batch]uint32
	for i, k := range keys {
		at[i] = place(k)
	}
	gopt.PrefetchAt(table, at[:len(keys)], 1)
	for i, k := range keys {
		if b := &table[at[i]]; b.key == k {
			values[i] = b.value
		}
	}
	fmt.Println(values)
	// Output: [700 0]
}
