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

// TestSplit: what the buckets leave is for items, but for part of a line, and items of the expected
// size come to four of a bucket's seven places in a cache, and to six in a store.
func TestSplit(t *testing.T) {
	for _, memory := range []int{64 << 10, 64<<10 + 1, 100_000, 1 << 20, 5_000_001} {
		for mode, want := range []int{Cache: 4, Store: 6} {
			p, err := New(Config{Memory: memory, Mode: Mode(mode), onHeap: true})
			if err != nil {
				t.Fatal(err)
			}
			index, st := int(p.index), p.Stats()
			left := memory - index*bucketSize - int(st.Capacity)
			if left < 0 || left >= bucketSize || st.Index != uint64(index)*bucketSize {
				t.Errorf("%d bytes, %v: %d buckets, %d bytes left: %+v", memory, p.mode, index, left, st)
			}
			if perBucket := int(st.Capacity) / 64 / index; perBucket < want-1 || perBucket > want+1 {
				t.Errorf("%d bytes, %v: %d items per bucket", memory, p.mode, perBucket)
			}
		}
	}
}
