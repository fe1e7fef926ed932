package lab

import "testing"

// TestBareDrop: a bare node forgets no entry that raft has not given out yet.
func TestBareDrop(t *testing.T) {
	all, err := newBares(3)
	if err != nil {
		t.Fatal(err)
	}
	const puts = 3
	for range puts {
		all[0].propose([]byte("x"))
		all[0].ready()
	}
	for _, b := range all {
		b.drop() // the leader has entries that no follower has
	}
	for range 2 * puts {
		for _, b := range all {
			b.take()
			b.rest()
		}
	}
	for i, b := range all {
		if b.put != puts {
			t.Errorf("node %d committed %d entries of %d", i+1, b.put, puts)
		}
		b.drop()
		if first, _ := b.log.FirstIndex(); first <= puts {
			t.Errorf("node %d keeps its log from %d on", i+1, first)
		}
	}
}
