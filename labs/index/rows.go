package main

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/btree"
	"github.com/userspace-rpc/erpc/index"
)

// bench has the same random keys in a B-tree and in an index, each grown by inserts.
type bench struct {
	keys         []uint64 // in the order of insertion; value i belongs to keys[i]
	look         []entry  // what to look up, in this order
	at           int
	tree         *btree.Map[uint64, uint64]
	m            *index.Map
	other        *index.Map // for a writer to another tree
	floor        *floor     // made when a row needs it, and sortedLeaves too
	sortedLeaves *floorScan
	wrong        int
	sum          uint64
}

// entry is a key and its value.
type entry struct{ key, value uint64 }

// newKeys returns n random keys, the same ones each time.
func newKeys(n int) []uint64 {
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = r.Uint64()
	}
	return keys
}

// newBench has keys and what to look up, but no maps.
func newBench(n int) *bench {
	r := rand.New(rand.NewPCG(3, 4))
	b := &bench{keys: newKeys(n), look: make([]entry, 1<<20)}
	for i := range b.look {
		at := r.IntN(n)
		b.look[i] = entry{b.keys[at], uint64(at)}
	}
	return b
}

// grow makes the maps.
func (b *bench) grow() {
	b.tree, b.m, b.other = b.growTree(b.keys, 1, nil), b.growIndex(b.keys, 1), b.growIndex(b.keys, 1)
	runtime.GC()
}

// fill inserts keys one after the other.
func fill(m *index.Map, keys []uint64) { fillEach(m, keys, 0, 1) }

// fillEach inserts every so many of the keys, from one on.
func fillEach(m *index.Map, keys []uint64, from, each int) {
	var key [8]byte
	for i := from; i < len(keys); i += each {
		binary.BigEndian.PutUint64(key[:], keys[i])
		_, _, _ = m.Put(key[:], uint64(i)) // keys are not too long
	}
}

// growTree inserts keys with so many writers; several need a lock.
func (b *bench) growTree(
	keys []uint64, writers int, mu *sync.RWMutex,
) *btree.Map[uint64, uint64] {
	var t btree.Map[uint64, uint64]
	var all sync.WaitGroup
	put := func(from int) {
		for i := from; i < len(keys); i += writers {
			if mu != nil {
				mu.Lock()
			}
			t.Set(keys[i], uint64(i))
			if mu != nil {
				mu.Unlock()
			}
		}
	}
	for w := range writers - 1 {
		all.Go(func() { put(w + 1) })
	}
	put(0)
	all.Wait()
	return &t
}

// growIndex inserts keys with so many writers, each every so many.
func (b *bench) growIndex(keys []uint64, writers int) *index.Map {
	m := index.NewMap()
	var all sync.WaitGroup
	for w := range writers - 1 {
		all.Go(func() { fillEach(m, keys, w+1, writers) })
	}
	fillEach(m, keys, 0, writers)
	all.Wait()
	return m
}

// next returns the next n keys to look up. They lie in a row, so that rows measure the map.
func (b *bench) next(n int) []entry {
	if b.at+n > len(b.look) {
		b.at = 0
	}
	b.at += n
	return b.look[b.at-n : b.at]
}

const chunk = 512

// timed calls fn, which does n operations, for some time.
func timed(each time.Duration, n int, fn func()) float64 { return use.Loop(each, n, fn) }

func (b *bench) check(got, want uint64, ok bool) {
	if !ok || got != want {
		b.wrong++
	}
}

func (b *bench) getTree(mu *sync.RWMutex) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		return timed(each, chunk, func() {
			for _, e := range b.next(chunk) {
				if mu != nil {
					mu.RLock()
				}
				v, ok := b.tree.Get(e.key)
				if mu != nil {
					mu.RUnlock()
				}
				b.check(v, e.value, ok)
			}
		})
	}
}

func (b *bench) getIndex(each time.Duration) float64 {
	var key [8]byte
	return timed(each, chunk, func() {
		for _, e := range b.next(chunk) {
			binary.BigEndian.PutUint64(key[:], e.key)
			v, ok := b.m.Get(key[:])
			b.check(v, e.value, ok)
		}
	})
}

func (b *bench) getBatch(size int) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		text := make([]byte, 8*size)
		keys, values, ok := make([][]byte, size), make([]uint64, size), make([]bool, size)
		for i := range keys {
			keys[i] = text[8*i : 8*i+8]
		}
		return timed(each, chunk, func() {
			for range chunk / size {
				list := b.next(size)
				for j, e := range list {
					binary.BigEndian.PutUint64(keys[j], e.key)
				}
				b.m.GetBatch(keys, values, ok)
				for j, e := range list {
					b.check(values[j], e.value, ok[j])
				}
			}
		})
	}
}

// beside measures GETs while another thread stores values in m as fast as it can.
func (b *bench) beside(m *index.Map) func(time.Duration) float64 {
	return func(each time.Duration) float64 {
		var stop atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			var key [8]byte
			for i := 0; !stop.Load(); i = (i + 7919) % len(b.keys) {
				binary.BigEndian.PutUint64(key[:], b.keys[i])
				_, _, _ = m.Put(key[:], uint64(i)) // keys are not too long
			}
		})
		defer all.Wait()
		defer stop.Store(true)
		return b.getIndex(each)
	}
}

func (b *bench) scanTree(each time.Duration) float64 {
	return timed(each, 16, func() {
		for _, e := range b.next(16) {
			n := 0
			b.tree.Ascend(e.key, func(_, v uint64) bool {
				b.sum += v
				n++
				return n < 128
			})
		}
	})
}

func (b *bench) scanIndex(each time.Duration) float64 {
	var key [8]byte
	return timed(each, 16, func() {
		for _, e := range b.next(16) {
			binary.BigEndian.PutUint64(key[:], e.key)
			b.m.Scan(key[:], 128, func(_ []byte, v uint64) bool { b.sum += v; return true })
		}
	})
}

func (b *bench) fillIndex(each time.Duration) float64 {
	var key [8]byte
	var page index.Page
	return timed(each, 16, func() {
		for _, e := range b.next(16) {
			binary.BigEndian.PutUint64(key[:], e.key)
			b.m.Fill(&page, key[:], 128)
			b.sum += total(page.Values())
		}
	})
}

// total adds values.
func total(values []uint64) (sum uint64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

func (b *bench) sumIndex(each time.Duration) float64 {
	var key [8]byte
	return timed(each, 16, func() {
		for _, e := range b.next(16) {
			binary.BigEndian.PutUint64(key[:], e.key)
			sum, _ := b.m.SumAfter(key[:], 128)
			b.sum += sum
		}
	})
}

// hot is a row with few keys, which stay in the cache: what it takes is not the memory.
func (b *bench) hot(run func(time.Duration) float64) func(time.Duration) float64 {
	const few = 16
	list := make([]entry, chunk)
	for i := range list {
		list[i] = b.look[i%few]
	}
	return func(each time.Duration) float64 {
		all := b.look
		b.look = list
		defer func() { b.look = all }()
		return run(each)
	}
}

func (b *bench) lookups() []row {
	return []row{
		{"get btree", "", 0, b.getTree(nil)},
		{"get btree locked", "", 0, b.getTree(new(sync.RWMutex))},
		{"get index", "get btree", 1.2, b.getIndex},
		{"get index again", "get btree locked", 1.5, b.getIndex},
		{"batch 8", "get btree", 0, b.getBatch(8)},
		{"batch 16", "get btree", 4, b.getBatch(16)},
		{"batch 32", "get btree", 0, b.getBatch(32)},
		{"get beside writer elsewhere", "", 0, b.beside(b.other)},
		{"get beside writer", "get beside writer elsewhere", 0.7, b.beside(b.m)},
		{"scan 128 btree", "", 0, b.scanTree},
		{"scan 128 index", "scan 128 btree", 2, b.scanIndex},
		{"fill 128 index", "scan 128 btree", 2, b.fillIndex},
		{"sum 128 index", "scan 128 btree", 2, b.sumIndex},
		{"hot get index", "", 0, b.hot(b.getIndex)},
		{"hot batch 16", "", 0, b.hot(b.getBatch(16))},
		{"hot scan 128 btree", "", 0, b.hot(b.scanTree)},
		{"hot scan 128 index", "hot scan 128 btree", 0, b.hot(b.scanIndex)},
		{"hot fill 128 index", "hot scan 128 btree", 0, b.hot(b.fillIndex)},
		{"hot sum 128 index", "hot scan 128 btree", 0, b.hot(b.sumIndex)},
	}
}

// grown times one filling from nothing, until the collector has gone through the result.
func (b *bench) grown(fill func() any) func(time.Duration) float64 {
	return func(time.Duration) float64 {
		runtime.GC()
		begin := use.Process()
		kept := fill()
		runtime.GC()
		t := use.Process() - begin
		runtime.KeepAlive(kept)
		return float64(t) / float64(len(b.keys))
	}
}

func (b *bench) inserts() []row {
	ascending := make([]uint64, len(b.keys))
	for i := range ascending {
		ascending[i] = uint64(i)
	}
	tree := func(keys []uint64, writers int, mu *sync.RWMutex) func(time.Duration) float64 {
		return b.grown(func() any { return b.growTree(keys, writers, mu) })
	}
	grow := func(keys []uint64, writers int) func(time.Duration) float64 {
		return b.grown(func() any { return b.growIndex(keys, writers) })
	}
	return []row{
		{"insert random btree", "", 0, tree(b.keys, 1, nil)},
		{"insert random btree locked", "", 0, tree(b.keys, 1, new(sync.RWMutex))},
		{"insert random btree locked, two", "", 0, tree(b.keys, 2, new(sync.RWMutex))},
		{"insert random index", "insert random btree", 0.5, grow(b.keys, 1)},
		{"insert random index, two", "insert random btree locked, two", 1, grow(b.keys, 2)},
		{"insert random index, two again", "insert random btree locked", 0, grow(b.keys, 2)},
		{"insert ascending btree", "", 0, tree(ascending, 1, nil)},
		{"insert ascending btree locked", "", 0, tree(ascending, 1, new(sync.RWMutex))},
		{"insert ascending btree locked, two", "", 0, tree(ascending, 2, new(sync.RWMutex))},
		{"insert ascending index", "insert ascending btree", 0.5, grow(ascending, 1)},
		{"insert ascending index, two", "insert ascending btree locked, two", 1, grow(ascending, 2)},
		{"insert ascending index, two again", "insert ascending btree locked", 0, grow(ascending, 2)},
	}
}
