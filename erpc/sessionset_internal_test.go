package erpc

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCallQueue compares the queue with a slice, in which calls that go ahead are first.
func TestCallQueue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var q callQueue
	var want []*goCall
	for range 20_000 {
		ahead := 0
		for ahead < len(want) && want[ahead].ahead {
			ahead++
		}
		switch k := new(goCall); rng.IntN(6) {
		case 0:
			q.pushBack(k)
			want = append(want, k)
		case 1:
			q.pushFront(k)
			want = slices.Insert(want, ahead, k)
		case 2:
			k.ahead = true
			q.pushBack(k)
			want = slices.Insert(want, ahead, k)
		case 3:
			k.ahead = true
			q.pushFront(k)
			want = slices.Insert(want, 0, k)
		default:
			if len(want) == 0 {
				continue
			}
			i := rng.IntN(len(want))
			q.remove(want[i])
			if k = want[i]; k.line != nil || k.next != nil || k.prev != nil {
				t.Fatal("a call that was taken out is still linked")
			}
			want = slices.Delete(want, i, i+1)
		}
		if q.n != len(want) {
			t.Fatalf("%d calls, want %d", q.n, len(want))
		}
		k := q.first
		for i := range want {
			if k != want[i] || k.line != &q {
				t.Fatalf("call %d of %d is another one", i, len(want))
			}
			k = k.next
		}
		if k != nil || len(want) > 0 && q.last != want[len(want)-1] || len(want) == 0 && q.last != nil {
			t.Fatal("the queue goes on behind its end")
		}
	}
}
