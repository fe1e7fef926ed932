package erpc_test

import (
	"fmt"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// BenchmarkSessions keeps 60 small RPCs in flight on sessions chosen at random, both
// sides together and no I/O: with many of them most are not in the cache.
func BenchmarkSessions(b *testing.B) {
	for _, count := range []int{8, 1000, 20_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			w := newStepper(b, erpc.Config{}, 32, 32)
			w.req.Free()
			w.resp.Free()
			sessions := make([]*erpc.Session, count)
			for i := range sessions {
				w.p.connect()
				sessions[i] = w.p.sess
			}
			left, rng := b.N, uint64(1)
			var ahead [8]*erpc.Session
			for i := range ahead {
				ahead[i] = sessions[i]
			}
			var again erpc.Continuation
			start := func(req, resp *erpc.MsgBuffer) {
				left--
				rng = rng*6364136223846793005 + 1442695040888963407
				next := &ahead[left%len(ahead)] // chosen some requests ago
				s := *next
				*next = sessions[(rng>>32)*uint64(count)>>32]
				(*next).Prefetch()
				if _, err := w.p.client.EnqueueRequest(s,
					erpc.Request{Type: 1, Req: req, Resp: resp, Done: again}); err != nil {
					b.Fatal(err)
				}
			}
			again = func(c erpc.Completion) {
				w.ended(c)
				if left > 0 {
					start(c.Req, c.Resp)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range min(60, b.N) {
				req, _ := w.p.client.Alloc(32)
				resp, _ := w.p.client.Alloc(32)
				start(req, resp)
			}
			for w.done < b.N {
				w.p.step()
			}
		})
	}
}
