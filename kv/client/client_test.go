package client

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestNoError: what most operations end with costs nothing.
func TestNoError(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if known(nil) != nil {
			t.Error("an error")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestChoose: servers have like shares, and when one goes only its keys move.
func TestChoose(t *testing.T) {
	const n = 40_000
	var servers []uint64
	for i := range 8 {
		servers = append(servers, nameHash(fmt.Sprint("10.0.0.", i, ":31870")))
	}
	var shares [8]int
	for i := range n {
		hash := mica.Hash(fmt.Append(nil, "key ", i))
		at := choose(servers, hash)
		shares[at]++
		if without := choose(servers[:7], hash); at != 7 && without != at {
			t.Fatalf("key %d moved from server %d to %d", i, at, without)
		}
		if choose(servers[:1], hash) != 0 {
			t.Fatal("one server")
		}
	}
	for i, share := range shares {
		if share < n/8-500 || share > n/8+500 { // seven sigmas
			t.Errorf("server %d has %d of %d keys", i, share, n)
		}
	}
}

// TestReachable: an unspecified host of a partition is that of its server's name.
func TestReachable(t *testing.T) {
	for _, c := range [][3]string{{"0.0.0.0:5", "db:1", "db:5"},
		{"[::]:5", "10.1.2.3:1", "10.1.2.3:5"}, {":5", "db:1", "db:5"},
		{"10.0.0.1:5", "db:1", "10.0.0.1:5"}, {"shm:x", "db:1", "shm:x"}} {
		if got := reachable(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}
