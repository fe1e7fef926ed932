package mica

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/gopt"
	"github.com/userspace-rpc/erpc/gopt/turns"
)

// warmByHand is what warm was before it was generated; for gopt.Batch hashes at most.
func (r *Reader) warmByHand(hashes []KeyHash) {
	var numbers [gopt.Batch]uint32
	for i, h := range hashes {
		numbers[i] = bucketOf(h, r.index)
	}
	gopt.PrefetchAt(r.buckets, numbers[:len(hashes)], 1)
	var items [gopt.Batch]*uint64
	for i, h := range hashes {
		b, tag := &r.buckets[numbers[i]], tagOf(h)
		for j := range b.entries {
			e := atomic.LoadUint64(&b.entries[j])
			if e>>tagShift != tag {
				continue
			}
			if pos, _, ok := r.position(e); ok {
				items[i] = &r.items[pos]
				break
			}
		}
	}
	gopt.Prefetch(items[:len(hashes)], 1)
}

// TestAhead: to ask for what lookups will read changes nothing, one by one or for many, whether the
// keys are there or not, and allocates nothing.
func TestAhead(t *testing.T) {
	p, err := New(Config{Mode: Cache, Memory: 1 << 20, Readers: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	var hashes []KeyHash
	for i := range byte(100) {
		key := []byte{i, 1}
		hashes = append(hashes, p.Hash(key))
		if err := p.Put(hashes[i], key, key); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for n := range hashes {
		if allocs := testing.AllocsPerRun(1, func() {
			r.warm(hashes[:n])
			r.ahead(hashes[n])
		}); allocs != 0 {
			t.Fatalf("%d hashes: %v allocations", n, allocs)
		}
	}
	for i, h := range hashes {
		key := []byte{byte(i), 1}
		if it, ok := r.Get(h, key); !ok || string(it.Value) != string(key) {
			t.Errorf("key %d: %q %v", i, it.Value, ok)
		}
	}
	if s := r.Stats(); s.Hits != uint64(len(hashes)) || s.Misses != 0 {
		t.Errorf("%+v", s)
	}
}

// BenchmarkTable reads items of 16 and 32 bytes, in batches of at most gopt.Batch keys: one by one,
// and behind the two ways to ask for what they read.
func BenchmarkTable(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "readers of kv/mica", func(size int) turns.Set {
		p, err := New(Config{Mode: Cache, Memory: size, Readers: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = p.Close() })
		n := size / 128
		key := func(i int) []byte {
			k := make([]byte, 16)
			binary.LittleEndian.PutUint64(k, uint64(i))
			return k
		}
		for i := range n {
			k := key(i)
			if err := p.Put(p.Hash(k), k, append(k, k...)); err != nil {
				b.Fatal(err)
			}
		}
		reader, err := p.NewReader()
		if err != nil {
			b.Fatal(err)
		}
		hashes, keys := make([]KeyHash, turns.Lookups), make([][]byte, turns.Lookups)
		found := make([]bool, turns.Lookups)
		get := func(from, to int) {
			for i := from; i < to; i++ {
				_, found[i] = reader.Get(hashes[i], keys[i])
			}
		}
		with := func(warm func(hashes []KeyHash)) func(from, to int) {
			return func(from, to int) {
				for ; from < to; from += gopt.Batch {
					end := min(from+gopt.Batch, to)
					warm(hashes[from:end])
					get(from, end)
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range keys {
					keys[i] = key(r.IntN(n))
					hashes[i] = p.Hash(keys[i])
				}
			},
			Result: func(i int) uint64 { return uint64(len(keys[i])) },
			Ways:   turns.Ways(get, get, with(reader.warmByHand), with(reader.warm)),
		}
	})
}
