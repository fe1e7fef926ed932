package index_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

// benchMap has so many random keys of 8 bytes, and some of them to look up.
func benchMap(b *testing.B, n, look int) (m *index.Map, keys [][]byte) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	m = index.NewMap()
	var all []uint64
	for i := range n {
		var key [8]byte
		all = append(all, r.Uint64())
		binary.BigEndian.PutUint64(key[:], all[i])
		if _, _, err := m.Put(key[:], uint64(i)); err != nil {
			b.Fatal(err)
		}
	}
	for range look {
		keys = append(keys, binary.BigEndian.AppendUint64(nil, all[r.IntN(n)]))
	}
	return m, keys
}

// BenchmarkLookups has 16 keys, which stay in the cache, and 64 Ki, which do not. An operation is a
// GET, or a walk of 128 keys.
func BenchmarkLookups(b *testing.B) {
	for _, size := range []struct {
		name string
		look int
	}{{"hot", 16}, {"cold", 1 << 16}} {
		m, keys := benchMap(b, 1_000_000, size.look)
		var sum uint64
		b.Run(size.name+"/get", func(b *testing.B) {
			for i := range b.N {
				v, _ := m.Get(keys[i%size.look])
				sum += v
			}
		})
		b.Run(size.name+"/batch16", func(b *testing.B) {
			var values [16]uint64
			var ok [16]bool
			for i := 0; i < b.N; i += 16 {
				at := i % size.look
				m.GetBatch(keys[at:at+16], values[:], ok[:])
			}
		})
		b.Run(size.name+"/scan128", func(b *testing.B) {
			for i := range b.N {
				m.Scan(keys[i%size.look], 128, func(_ []byte, v uint64) bool { sum += v; return true })
			}
		})
		b.Run(size.name+"/sum128", func(b *testing.B) {
			for i := range b.N {
				s, _ := m.SumAfter(keys[i%size.look], 128)
				sum += s
			}
		})
	}
}
