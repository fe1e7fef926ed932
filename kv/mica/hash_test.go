package mica

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// colliding returns keys that all have one Hash, since their first word wipes out what follows:
// the product of 0 is 0.
func colliding(n int) (list [][]byte) {
	for i := range n {
		key := binary.LittleEndian.AppendUint64(nil, k2)
		list = append(list, fmt.Appendf(key, "%08d the same end..", i))
	}
	return list
}

// TestFlood: keys that a client has made to collide evict nothing in a cache that has room, and a
// store takes all of them.
func TestFlood(t *testing.T) {
	keys := colliding(1000)
	for _, mode := range []Mode{Cache, Store} {
		p := open(t, Config{Memory: 1 << 20, Mode: mode})
		for i, key := range keys {
			if Hash(key) != Hash(keys[0]) {
				t.Fatalf("key %d does not collide", i)
			}
			if err := p.Put(p.Hash(key), key, key); err != nil {
				t.Fatalf("%v: key %d: %v", mode, i, err)
			}
		}
		for i, key := range keys {
			if it, found := p.Get(p.Hash(key), key); !found || string(it.Value) != string(key) {
				t.Fatalf("%v: key %d is not there", mode, i)
			}
		}
	}
}

// TestSecret: partitions know a key by different hashes, and one partition always by the same.
func TestSecret(t *testing.T) {
	a, b := open(t, Config{Memory: 1 << 16}), open(t, Config{Memory: 1 << 16})
	if h := a.Hash(name(1)); h != a.Hash(name(1)) || h == b.Hash(name(1)) {
		t.Errorf("%#x", h)
	}
}

func BenchmarkHash(b *testing.B) {
	p := open(b, Config{Memory: 1 << 16})
	for _, n := range []int{8, 16, 32, 250} {
		key := make([]byte, n)
		b.Run(fmt.Sprint(n, " public"), func(b *testing.B) {
			for b.Loop() {
				Hash(key)
			}
		})
		b.Run(fmt.Sprint(n, " keyed"), func(b *testing.B) {
			for b.Loop() {
				p.Hash(key)
			}
		})
	}
}
