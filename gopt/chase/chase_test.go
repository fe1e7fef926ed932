package chase_test

import (
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/chase"
)

func TestRing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 100, 1000} {
		ring := chase.New(n, r)
		for steps := 1; steps < n; steps++ {
			if n <= 100 && ring.Follow(0, steps) == 0 {
				t.Fatalf("a cycle of %d in a ring of %d", steps, n)
			}
		}
		if ring.Follow(0, n) != 0 {
			t.Errorf("a ring of %d is none", n)
		}
		at := make([]uint32, 77)
		for i := range at {
			at[i] = uint32(r.IntN(n))
		}
		want := make([]uint32, len(at))
		for i, a := range at {
			want[i] = ring.Follow(a, 13)
		}
		ring.FollowBatch(nil, 13)
		ring.FollowBatch(at, 13)
		for i := range at {
			if at[i] != want[i] {
				t.Fatalf("ring of %d: chain %d ends at %d, want %d", n, i, at[i], want[i])
			}
		}
	}
}
