package erpc_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// BenchmarkIdlePass is a pass of the loop that finds nothing, by the machine's clock: it
// is half of what a spinning endpoint adds to the time until it sees a packet.
func BenchmarkIdlePass(b *testing.B) {
	n, err := erpc.NewNexus(erpc.Config{})
	if err != nil {
		b.Fatal(err)
	}
	r, err := n.NewRpc((&memNet{}).end(true))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := r.RunOnce(); err != nil {
			b.Fatal(err)
		}
	}
}
