package node

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestTrustSaid: a replica that waits to be added says that it hears anybody, unless members have a
// role of their own.
func TestTrustSaid(t *testing.T) {
	const anybody = "hears anybody until it is added"
	member := replica.Boot(map[uint64]string{1: "a", 2: "b"})
	for _, c := range []struct {
		trust Trust
		start replica.Start
		want  bool
	}{
		{Trust{}, replica.Start{}, true}, {Trust{}, member, false},
		{Trust{Role: Role{Key: func(string) bool { return true }}}, replica.Start{}, false},
		{Trust{Role: Role{Certificates: []string{"*"}}}, replica.Start{}, false},
		{Trust{Anywhere: true}, replica.Start{}, false}, // which says as much
	} {
		n, err := New(Config{Config: replica.Config{ID: 1}, Start: c.start, Trust: c.trust})
		if err != nil {
			t.Fatal(err)
		}
		if got := n.Trust(); strings.Contains(got, anybody) != c.want ||
			!strings.HasPrefix(got, c.trust.String()) {
			t.Errorf("%+v, a member %v: %q", c.trust, !n.rep.Memberless(), got)
		}
	}
}
