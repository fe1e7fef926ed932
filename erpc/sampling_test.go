package erpc_test

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
)

// busyTypes is a pair whose server has handlers in the loop that take as long as cost says.
type busyTypes struct {
	*memPair
	calls [4]uint64
	spent [4]time.Duration
	cost  func(typ uint8, call uint64) time.Duration
}

func newBusyTypes(t *testing.T, cost func(typ uint8, call uint64) time.Duration) *busyTypes {
	b := &busyTypes{cost: cost}
	b.memPair = newMemPair(t, erpc.Config{}, func(n *erpc.Nexus) {
		for typ := range uint8(4) {
			is(t, "register", n.Register(typ, erpc.Dispatch, b.handle), nil)
		}
	})
	b.snap(b.server)
	return b
}

func (b *busyTypes) handle(h erpc.ReqHandle) {
	typ := h.Type()
	d := b.cost(typ, b.calls[typ])
	b.calls[typ]++
	b.spent[typ] += d
	b.net.now += erpc.Time(d)
	_ = h.RespondBytes(h.Data())
}

// call makes one call.
func (b *busyTypes) call(typ uint8) {
	b.tb.Helper()
	req, err := b.client.Alloc(8)
	if err != nil {
		b.tb.Fatal(err)
	}
	ended := false
	_, err = b.client.EnqueueRequest(b.sess, erpc.Request{
		Type: typ, Req: req, Done: func(c erpc.Completion) {
			ended = true
			c.Req.Free()
			c.Resp.Free()
		},
	})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.until(func() bool { return ended })
}

// within reports whether a figure is right within 10 %.
func within[T ~int64 | uint64](got, want T) bool {
	return float64(got) > 0.9*float64(want) && float64(got) < 1.1*float64(want)
}

// TestSlowInlineHandler: a handler in the loop that takes long, among four types whose requests
// come in turns, is shown with its time: by the statistics of its type, at each quantile and in the
// sum, and in the record. The others are not shown as slow.
func TestSlowInlineHandler(t *testing.T) {
	for _, slow := range []time.Duration{8 * time.Millisecond, 100 * time.Microsecond} {
		for place := range uint8(4) {
			b := newBusyTypes(t, func(typ uint8, _ uint64) time.Duration {
				if typ == place {
					return slow
				}
				return time.Microsecond
			})
			b.record(b.server, 4096)
			for i := range uint8(200) {
				b.call(i % 4)
			}
			for _, ts := range b.snap(b.server).Types {
				want := time.Microsecond
				if ts.Type == place {
					want = slow
				}
				h, l := &ts.Server.Handler, &ts.Server.Latency
				if !within(h.Quantile(0.5), want) || !within(h.Quantile(0.99), want) ||
					!within(h.Sum, int64(b.spent[ts.Type])) || !within(h.Count, b.calls[ts.Type]) {
					t.Errorf("slow %d: type %d: %d of %v, p50 %v, p99 %v", place, ts.Type, h.Count,
						time.Duration(h.Sum), h.Quantile(0.5), h.Quantile(0.99))
				}
				if !within(l.Quantile(0.5), want) || l.Count != b.calls[ts.Type] {
					t.Errorf("slow %d: type %d: %d latencies, p50 %v", place, ts.Type, l.Count,
						l.Quantile(0.5))
				}
			}
			for _, c := range b.fly(b.server).Calls() {
				if c.Type == place && !within(c.Took(), int64(slow)) {
					t.Errorf("the record has %v for a handler of %v", time.Duration(c.Took()), slow)
				}
			}
			b.close()
		}
	}
}

// TestSampledSums: whatever the periods of a load are, the count of the handlers that were timed is
// that of all, and the sum is about.
func TestSampledSums(t *testing.T) {
	for name, load := range map[string]struct {
		typ  func(call int) uint8
		cost func(typ uint8, call uint64) time.Duration
	}{
		"one of sixteen is slow": {
			func(int) uint8 { return 1 },
			func(_ uint8, call uint64) time.Duration {
				if call%16 == 3 {
					return 20 * time.Microsecond
				}
				return 100
			},
		},
		"each other one is slow, of four types in turns": {
			func(call int) uint8 { return uint8(call % 4) },
			func(typ uint8, call uint64) time.Duration {
				if typ == 2 && call%2 == 0 {
					return 10 * time.Microsecond
				}
				return 100
			},
		},
		"three of four types come seldom": {
			func(call int) uint8 {
				if call%64 < 3 {
					return uint8(call % 64)
				}
				return 3
			},
			func(typ uint8, _ uint64) time.Duration { return time.Duration(4-typ) * time.Microsecond },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBusyTypes(t, load.cost)
			b.tick = 100 // so a call takes some us
			const n = 40_000
			for i := range n {
				b.call(load.typ(i))
			}
			for _, ts := range b.snap(b.server).Types {
				h := &ts.Server.Handler
				part := float64(h.Sum) / float64(b.spent[ts.Type])
				if !within(h.Count, b.calls[ts.Type]) || part < 0.75 || part > 1.25 {
					t.Errorf("type %d: %d in %v, of %d in %v", ts.Type, h.Count, time.Duration(h.Sum),
						b.calls[ts.Type], b.spent[ts.Type])
				}
			}
			b.close()
		})
	}
}
