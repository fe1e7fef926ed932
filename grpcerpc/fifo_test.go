package grpcerpc

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// TestFIFO: order holds, and a queue that is never empty stays small.
func TestFIFO(t *testing.T) {
	var q fifo[int]
	next := 0
	for i := range 100000 {
		q.push(i)
		if i%1000 < 10 {
			continue // some gather
		}
		for q.len() > 5 {
			if got := q.pop(); got != next || *q.first() != next+1 {
				t.Fatalf("got %d, want %d", got, next)
			}
			next++
		}
		if cap(q.list) > 100 {
			t.Fatalf("%d places for %d", cap(q.list), q.len())
		}
	}
	for q.len() > 0 {
		q.pop()
	}
}

// TestFIFOPooled: queues that share memory have each their own, in order, and leave nothing in what
// they give back.
func TestFIFOPooled(t *testing.T) {
	pool := &sync.Pool{}
	queues := make([]fifo[*int], 3)
	want := make([][]int, len(queues))
	for i := range queues {
		queues[i].pool = pool
	}
	r := rand.New(rand.NewPCG(1, 2))
	for next := range 300 {
		i := r.IntN(len(queues))
		q := &queues[i]
		for n := range r.IntN(6 * maxSpare) {
			v := next<<16 + n
			q.push(&v)
			want[i] = append(want[i], v)
		}
		some := len(want[i])
		if r.IntN(2) == 0 {
			some = r.IntN(some + 1)
		}
		for range some {
			if got := *q.pop(); got != want[i][0] {
				t.Fatalf("queue %d: got %x, want %x", i, got, want[i][0])
			}
			want[i] = want[i][1:]
		}
		if box, _ := pool.Get().(*[]*int); box != nil {
			for _, v := range (*box)[:cap(*box)] {
				if v != nil {
					t.Fatal("memory in the pool holds what was taken from a queue")
				}
			}
			pool.Put(box)
		}
	}
}
