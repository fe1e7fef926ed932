package erpc

import (
	"fmt"
	"testing"
)

// BenchmarkCountCall counts calls at a client, without the search for the call. They are of one
// type, or of three in turns. The latency changes with each call, or after 24: a bundle of small
// responses has as many.
func BenchmarkCountCall(b *testing.B) {
	for _, types := range []int{1, 3} {
		for _, same := range []int{24, 1} {
			b.Run(fmt.Sprintf("types=%d/run=%d", types, same), func(b *testing.B) {
				var st [3]CallStats
				r, now, n, typ, counted := newRuns(), Time(1e9), 0, 0, uint64(0)
				for b.Loop() {
					if n++; n == same {
						n = 0
						now = 1e9 + (now*5+1)&0x3fff // latencies of 0 to 16 us
					}
					if typ++; typ >= types {
						typ = 0
					}
					if stamp := stampOf(1e9, uint8(typ)); !r.more(now, stamp, 32, 32) {
						r.begin(&st[typ], now, stamp, 32, 32)
					}
					counted++
				}
				if r.fold(); st[0].Count()+st[1].Count()+st[2].Count() != counted {
					b.Fatal("a call was not counted")
				}
			})
		}
	}
}
