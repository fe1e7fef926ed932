package erpc_test

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/internal/sys"
)

// BenchmarkTouch shows the least time of BenchmarkSessions but for its instructions: it only
// touches as many cache lines per operation, of as many pieces of memory of the same size, asked
// for as long ahead, and does nothing with them. The difference between few and many is the price
// of memory.
func BenchmarkTouch(b *testing.B) {
	const (
		size  = 1700 // bytes; of one end of a session, with its buffers
		lines = 10   // that a small RPC touches in it
		ahead = 60
	)
	type piece struct {
		_    *piece // pointers, as a session has
		data [size - 8]byte
	}
	for _, n := range []int{8, 1000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			// Both ends.
			ends := [2][]*piece{make([]*piece, n), make([]*piece, n)}
			for i := range 2 * n {
				ends[i&1][i/2] = new(piece)
			}
			var queue [2 * ahead]uint32
			rng := uint64(1)
			at := 0
			for b.Loop() {
				rng = rng*6364136223846793005 + 1442695040888963407 // Knuth's MMIX
				next := uint32((rng >> 32) * uint64(n) >> 32)
				sys.Prefetch(ends[0][next], lines*64)
				queue[at] = next
				half := queue[(at+ahead)%len(queue)]
				sys.Prefetch(ends[1][half], lines*64)
				if at++; at == len(queue) {
					at = 0
				}
				now := queue[at]
				for i := range ends {
					p := ends[i][now]
					for k := range lines {
						p.data[64*k]++
					}
				}
			}
		})
	}
}
