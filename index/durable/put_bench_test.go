package durable

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/index"
)

// BenchmarkPut puts a million random keys in a map without a log and in one that is synced every
// second, and then the same keys again, in turns of 10,000. An operation is a turn of both; of the
// turns it has the medians: ns of a PUT without and with the log, and the rate with it as a part of
// that without.
func BenchmarkPut(b *testing.B) {
	const keys, turn = 1_000_000, 10_000
	r := rand.New(rand.NewPCG(1, 2))
	list := make([][8]byte, keys)
	for i := range list {
		binary.BigEndian.PutUint64(list[i][:], r.Uint64())
	}
	s, err := Open(b.TempDir(), index.NewMap(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	run := func(at int, put func(key []byte, value uint64) (uint64, bool, error)) float64 {
		began := time.Now()
		for n := range turn {
			if _, _, err := put(list[(at+n)%keys][:], uint64(n)); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(began)) / turn
	}
	m := index.NewMap()
	var without, with, part []float64
	for at := 0; b.Loop(); at += turn {
		x, y := run(at, m.Put), run(at, s.Put)
		without, with, part = append(without, x), append(with, y), append(part, x/y)
	}
	for name, list := range map[string][]float64{"ns-without": without, "ns-with": with,
		"rate": part} {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], name)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
