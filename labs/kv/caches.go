package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/fastcache"
	"github.com/coocood/freecache"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/maypok86/otter/v2"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/labs/benchrows"
)

const (
	keySize   = 16
	valueSize = 32
	group     = 32 // operations between two looks at the clock, and of a batch
)

// cache is one of the caches with its figures.
type cache struct {
	name    string
	get     func(k *key) ([]byte, bool)
	set     func(k *key, value []byte)
	batch   func(keys []key, check func(i int, value []byte, ok bool))
	warm    func(keys []key) // before a batch of sets
	settle  func()           // after the filling
	missing uint64

	gets, batches, halves, puts, warmed, turns []float64 // ns per operation
}

// key is a key in the forms that caches want.
type key struct {
	bytes []byte
	text  string
}

type bench struct {
	n     int
	look  []key // keys in random order
	ids   []uint64
	at    int
	wrong int
	clock *benchrows.Clock
}

func newBench(n int) *bench {
	b := &bench{n: n, look: make([]key, 1<<20), ids: make([]uint64, 1<<20)}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b.look {
		b.ids[i] = r.Uint64N(uint64(n))
		b.look[i] = keyOf(b.ids[i])
	}
	return b
}

func keyOf(i uint64) key {
	x := (i ^ i>>31) * 0x9E3779B97F4A7C15
	b := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, x), i)
	return key{b, string(b)}
}

// value writes the value of a key.
func value(b *[valueSize]byte, i uint64) []byte {
	for at := 0; at < valueSize; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], i+uint64(at))
	}
	return b[:]
}

// fill makes the caches whose names are asked for, with all keys.
func (b *bench) fill(names []string) (list []*cache, err error) {
	for _, make := range []func(int) (*cache, error){newMica, newReader, newMap, newRistretto,
		newOtter, newFastcache, newFreecache} {
		c, err := make(b.n)
		if err != nil {
			return nil, err
		}
		wanted := slices.ContainsFunc(names, func(n string) bool {
			return strings.HasPrefix(c.name, n)
		})
		if c.name != "mica" && !wanted {
			continue
		}
		var v [valueSize]byte
		for i := range uint64(b.n) {
			k := keyOf(i)
			c.set(&k, value(&v, i))
		}
		if c.settle != nil {
			c.settle()
		}
		list = append(list, c)
	}
	return list, nil
}

// time runs op, which does group operations, for some time, and returns the time of one in ns.
func (b *bench) time(each time.Duration, op func()) float64 {
	return b.clock.Loop(each, group, func() {
		op()
		b.at = (b.at + group) % len(b.look)
	})
}

func (b *bench) check(c *cache, i int, got []byte, ok bool) {
	switch {
	case !ok:
		c.missing++
	case len(got) != valueSize || binary.LittleEndian.Uint64(got) != b.ids[i] ||
		binary.LittleEndian.Uint64(got[24:]) != b.ids[i]+24:
		b.wrong++
	}
}

func (b *bench) get(c *cache) {
	for i := b.at; i < b.at+group; i++ {
		v, ok := c.get(&b.look[i])
		b.check(c, i, v, ok)
	}
}

func (b *bench) getBatch(c *cache) {
	c.batch(b.look[b.at:b.at+group], func(i int, v []byte, ok bool) { b.check(c, b.at+i, v, ok) })
}

// getHalves gets in batches of half the size.
func (b *bench) getHalves(c *cache) {
	for from := b.at; from < b.at+group; from += group / 2 {
		c.batch(b.look[from:from+group/2],
			func(i int, v []byte, ok bool) { b.check(c, from+i, v, ok) })
	}
}

// turns gets and puts in turns, so that no two puts follow each other.
func (b *bench) turns(c *cache) {
	var v [valueSize]byte
	for i := b.at; i < b.at+group; i += 2 {
		got, ok := c.get(&b.look[i])
		b.check(c, i, got, ok)
		c.set(&b.look[i+1], value(&v, b.ids[i+1]))
	}
}

func (b *bench) put(c *cache) {
	var v [valueSize]byte
	for i := b.at; i < b.at+group; i++ {
		c.set(&b.look[i], value(&v, b.ids[i]))
	}
}

// putWarm puts a batch after its lines were asked for.
func (b *bench) putWarm(c *cache) {
	c.warm(b.look[b.at : b.at+group])
	b.put(c)
}

func newMica(n int) (*cache, error) {
	p, err := mica.New(mica.Config{Memory: max(n*2*80, 1<<20)})
	if err != nil {
		return nil, err
	}
	return ofPartition("mica", p, p.Get, p.GetBatch), nil
}

// newReader is a partition with readers beside its owner. Here one thread is both.
func newReader(n int) (*cache, error) {
	p, err := mica.New(mica.Config{Memory: max(n*2*80, 1<<20), Readers: true})
	if err != nil {
		return nil, err
	}
	r, err := p.NewReader()
	if err != nil {
		return nil, err
	}
	return ofPartition("crew: mica with readers", p, r.Get, r.GetBatch), nil
}

func ofPartition(name string, p *mica.Partition, get func(mica.KeyHash, []byte) (mica.Item, bool),
	getBatch func([]mica.Lookup),
) *cache {
	var buf [valueSize]byte
	var hashes [group]mica.KeyHash
	var list [group]mica.Lookup
	return &cache{name: name,
		get: func(k *key) ([]byte, bool) {
			it, ok := get(p.Hash(k.bytes), k.bytes)
			return buf[:copy(buf[:], it.Value)], ok
		},
		set: func(k *key, v []byte) {
			if err := p.Put(p.Hash(k.bytes), k.bytes, v); err != nil {
				panic(err)
			}
		},
		batch: func(keys []key, check func(int, []byte, bool)) {
			for i := range keys {
				list[i].Hash, list[i].Key = p.Hash(keys[i].bytes), keys[i].bytes
			}
			getBatch(list[:len(keys)])
			for i := range keys {
				check(i, buf[:copy(buf[:], list[i].Item.Value)], list[i].Found)
			}
		},
		warm: func(keys []key) {
			for i := range keys {
				hashes[i] = p.Hash(keys[i].bytes)
			}
			p.Warm(hashes[:])
		}}
}

func newMap(n int) (*cache, error) {
	m := make(map[[keySize]byte][valueSize]byte, n)
	var mu sync.RWMutex
	var buf [valueSize]byte
	return &cache{name: "map and RWMutex",
		get: func(k *key) ([]byte, bool) {
			mu.RLock()
			defer mu.RUnlock()
			v, ok := m[[keySize]byte(k.bytes)]
			buf = v
			return buf[:], ok
		},
		set: func(k *key, v []byte) {
			mu.Lock()
			defer mu.Unlock()
			m[[keySize]byte(k.bytes)] = [valueSize]byte(v)
		}}, nil
}

func newRistretto(n int) (*cache, error) {
	c, err := ristretto.NewCache(&ristretto.Config[string, []byte]{NumCounters: int64(n) * 10,
		MaxCost: int64(n) * 2, BufferItems: 64, IgnoreInternalCost: true})
	if err != nil {
		return nil, err
	}
	filled := 0
	return &cache{name: "ristretto",
		get: func(k *key) ([]byte, bool) { return c.Get(k.text) },
		set: func(k *key, v []byte) {
			c.Set(k.text, slices.Clone(v), 1)
			if filled++; filled <= n && filled%1000 == 0 {
				c.Wait() // it drops what comes too fast
			}
		},
		settle: c.Wait}, nil
}

func newOtter(n int) (*cache, error) {
	c, err := otter.New(&otter.Options[string, []byte]{MaximumSize: n * 2})
	if err != nil {
		return nil, err
	}
	return &cache{name: "otter",
		get:    func(k *key) ([]byte, bool) { return c.GetIfPresent(k.text) },
		set:    func(k *key, v []byte) { c.Set(k.text, slices.Clone(v)) },
		settle: c.CleanUp}, nil
}

func newFastcache(n int) (*cache, error) {
	c := fastcache.New(n * 2 * 80)
	var buf []byte
	return &cache{name: "fastcache",
		get: func(k *key) (_ []byte, ok bool) {
			buf, ok = c.HasGet(buf[:0], k.bytes)
			return buf, ok
		},
		set: func(k *key, v []byte) { c.Set(k.bytes, v) }}, nil
}

func newFreecache(n int) (*cache, error) {
	c := freecache.NewCache(n * 2 * 100)
	return &cache{name: "freecache",
		get: func(k *key) ([]byte, bool) {
			v, err := c.Get(k.bytes)
			return v, err == nil
		},
		set: func(k *key, v []byte) {
			if err := c.Set(k.bytes, v, 0); err != nil {
				panic(fmt.Sprintf("freecache: %v", err))
			}
		}}, nil
}
