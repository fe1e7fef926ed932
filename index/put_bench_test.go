package index_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

// BenchmarkPut puts random keys of 8 bytes into maps that grow from nothing, with few keys, which
// stay in the cache, or many, and over keys that are there. An operation is a PUT.
func BenchmarkPut(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"hot", 2_000}, {"cold", 1_000_000}} {
		r := rand.New(rand.NewPCG(1, 2))
		keys := make([][8]byte, size.n)
		for i := range keys {
			binary.BigEndian.PutUint64(keys[i][:], r.Uint64())
		}
		b.Run(size.name+"/new", func(b *testing.B) {
			b.ReportAllocs()
			m := index.NewMap()
			for i := range b.N {
				if i%size.n == 0 {
					m = index.NewMap()
				}
				_, _, _ = m.Put(keys[i%size.n][:], uint64(i)) // keys are not too long
			}
		})
		m := index.NewMap()
		for i := range keys {
			_, _, _ = m.Put(keys[i][:], 0)
		}
		b.Run(size.name+"/over", func(b *testing.B) {
			for i := range b.N {
				_, _, _ = m.Put(keys[i%size.n][:], uint64(i))
			}
		})
	}
}
