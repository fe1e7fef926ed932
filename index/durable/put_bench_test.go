package durable

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/index"
)

// BenchmarkPut puts a million random keys in a map, without a log and with one that is synced every
// second, and then the same keys again.
func BenchmarkPut(b *testing.B) {
	const keys = 1_000_000
	r := rand.New(rand.NewPCG(1, 2))
	list := make([][8]byte, keys)
	for i := range list {
		binary.BigEndian.PutUint64(list[i][:], r.Uint64())
	}
	run := func(b *testing.B, put func(key []byte, value uint64) (uint64, bool, error)) {
		for n := 0; b.Loop(); n++ {
			if _, _, err := put(list[n%keys][:], uint64(n)); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("memory", func(b *testing.B) { run(b, index.NewMap().Put) })
	b.Run("everysec", func(b *testing.B) {
		s, err := Open(b.TempDir(), index.NewMap(), Config{})
		if err != nil {
			b.Fatal(err)
		}
		run(b, s.Put)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	})
}
