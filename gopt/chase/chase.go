package chase

import (
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/gopt"
)

//go:generate go run github.com/userspace-rpc/erpc/cmd/gopt .

// Ring is numbers that form one cycle: behind i comes r[i].
type Ring []uint32

// New returns a Ring of n numbers, 1 to 2^32, in random order.
func New(n int, r *rand.Rand) Ring {
	ring := make(Ring, n)
	for i := range ring {
		ring[i] = uint32(i)
	}
	for i := n - 1; i > 0; i-- { // Sattolo's algorithm: a single cycle
		j := r.IntN(i)
		ring[i], ring[j] = ring[j], ring[i]
	}
	return ring
}

// Follow returns where steps steps lead from start.
//
//gopt:batch B=32 name=followBatch shared=steps
func (r Ring) Follow(start uint32, steps int) uint32 {
	for range steps {
		gopt.Expensive(&r[start])
		start = r[start]
	}
	return start
}

// FollowBatch replaces each of at by where steps steps lead from there.
func (r Ring) FollowBatch(at []uint32, steps int) {
	for len(at) > 0 {
		n := min(len(at), gopt.Batch)
		group := at[:n]
		for range steps {
			gopt.PrefetchAt(r, group, 1)
			for i, x := range group {
				group[i] = r[x]
			}
		}
		at = at[n:]
	}
}
