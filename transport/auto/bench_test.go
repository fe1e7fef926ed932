package auto

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// BenchmarkEmptyPoll is an RxBurst that finds nothing: with the socket looked at each time
// (idle), and while packets come over shared memory (busy).
func BenchmarkEmptyPoll(b *testing.B) {
	needShared(b)
	c := listen(b, "127.0.0.1:0", meeting(b))
	pkts := make([]transport.RxPacket, 32)
	b.Run("idle", func(b *testing.B) {
		c.turns.busy = false
		for b.Loop() {
			_, _ = c.RxBurst(pkts)
		}
	})
	b.Run("busy", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if i&255 == 0 {
				c.turns.busy, c.turns.fresh = true, true // as if a packet had come
			}
			_, _ = c.RxBurst(pkts)
		}
	})
}

// BenchmarkTxRun is the choice of the way for a burst of 16 packets.
func BenchmarkTxRun(b *testing.B) {
	items := make([]transport.TxItem, 16)
	for b.Loop() {
		sameWay(items)
	}
}
