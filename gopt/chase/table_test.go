package chase

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/turns"
)

// unmarked is Follow without marks.
func (r Ring) unmarked(start uint32, steps int) uint32 {
	for range steps {
		start = r[start]
	}
	return start
}

// TestGenerated: the generated function ends where Follow does, and may write over what it reads.
func TestGenerated(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	ring := New(500, r)
	for n := range 100 {
		for _, steps := range []int{0, 1, 7} {
			at, want := make([]uint32, n), make([]uint32, n)
			for i := range at {
				at[i] = uint32(r.IntN(len(ring)))
				want[i] = ring.Follow(at[i], steps)
			}
			ring.followBatch(at, steps, at)
			if !slices.Equal(at, want) {
				t.Fatalf("%d chains, %d steps: %d, want %d", n, steps, at, want)
			}
		}
	}
}

func BenchmarkTable(b *testing.B) {
	const steps = 100 // times are those of 100 steps
	r := rand.New(rand.NewPCG(1, 2))
	turns.Bench(b, "chase", func(size int) turns.Set {
		ring := New(size/4, r)
		at, out := make([]uint32, turns.Lookups), make([]uint32, turns.Lookups)
		one := func(follow func(start uint32, steps int) uint32) func(from, to int) {
			return func(from, to int) {
				for i := from; i < to; i++ {
					out[i] = follow(at[i], steps)
				}
			}
		}
		return turns.Set{
			Draw: func() {
				for i := range at {
					at[i] = uint32(r.IntN(len(ring)))
				}
			},
			Result: func(i int) uint64 { return uint64(out[i]) },
			Ways: turns.Ways(one(ring.Follow), one(ring.unmarked),
				func(from, to int) {
					copy(out[from:to], at[from:to])
					ring.FollowBatch(out[from:to], steps)
				},
				func(from, to int) { ring.followBatch(at[from:to], steps, out[from:to]) }),
		}
	})
}
