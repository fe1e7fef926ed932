package mica

import (
	"fmt"
	"testing"
)

// TestIndexEvictions: a full bucket of a cache loses an item for each new one, the oldest one
// first, and counts it.
func TestIndexEvictions(t *testing.T) {
	p, err := New(Config{Memory: 1 << 16, onHeap: true})
	if err != nil {
		t.Fatal(err)
	}
	const puts = ways + 3
	hash := func(i int) KeyHash { return KeyHash(i+1) << 32 } // one bucket, many tags
	for i := range puts {
		if _, err := p.Write(&Write{Hash: hash(i), Key: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range puts {
		if _, found := p.Get(hash(i), fmt.Append(nil, i)); found != (i >= puts-ways) {
			t.Errorf("item %d of %d: %v", i, puts, found)
		}
	}
	if st := p.Stats(); st.IndexEvictions != puts-ways || st.Items != ways || st.Evictions != 0 {
		t.Errorf("%+v", st)
	}
}

// TestSplit: a store has an extra bucket for eight others and one more, a cache has none, and what
// the buckets leave is for items, but for part of a page.
func TestSplit(t *testing.T) {
	for _, memory := range []int{64 << 10, 64<<10 + 1, 100_000, 1 << 20, 5_000_001} {
		for _, mode := range []Mode{Cache, Store} {
			p, err := New(Config{Memory: memory, Mode: mode, onHeap: true})
			if err != nil {
				t.Fatal(err)
			}
			index, all := int(p.index), len(p.buckets)
			want := index
			if mode == Store {
				want += index/8 + 1
			}
			left := memory - all*bucketSize - int(p.Stats().Capacity)
			if all != want || left < 0 || left >= 4096 || p.Stats().Index != uint64(index)*bucketSize {
				t.Errorf("%d bytes, %v: %d buckets, %d with extra ones, %d bytes left: %+v", memory, mode,
					index, all, left, p.Stats())
			}
			// Items of the expected size come to four of a bucket's seven places.
			if perBucket := int(p.Stats().Capacity) / 64 / index; perBucket < 3 || perBucket > 5 {
				t.Errorf("%d bytes, %v: %d items per bucket", memory, mode, perBucket)
			}
		}
	}
}
