package grpcerpc

import "testing"

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
