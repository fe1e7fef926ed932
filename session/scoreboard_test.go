package session

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestScoreboard: it says the same as a set.
func TestScoreboard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b scoreboard
		set := map[uint32]bool{}
		next := rapid.Uint32Range(0, 1000).Draw(t, "first missing")
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			k := next + rapid.Uint32Range(1, maxAhead-1).Draw(t, "ahead")
			if rapid.IntRange(0, 3).Draw(t, "fills") == 0 {
				next = b.pass(next + 1)
				maps.DeleteFunc(set, func(k uint32, _ bool) bool { return k < next })
			} else if b.add(k) == set[k] {
				t.Fatalf("%d is there: %v", k, set[k])
			} else {
				set[k] = true
			}
			if b.n != len(set) || set[next] {
				t.Fatalf("%d of %d packets, %d is there: %v", b.n, len(set), next, set[next])
			}
			hole := uint32(0)
			if len(set) > 0 {
				hole = slices.Min(slices.Collect(maps.Keys(set))) - next
			}
			if b.hole(next) != hole {
				t.Fatalf("a hole of %d, want %d", b.hole(next), hole)
			}
		}
	})
}

// TestLostPacketsAlone: of a request and a response of many packets, only those that were lost are
// sent again.
func TestLostPacketsAlone(t *testing.T) {
	p := rigParams
	p.Credits = 64
	for _, lost := range [][]uint32{{1}, {5, 6, 7}, {2, 30}, {1, 2, 4, 9, 39}, {38}} {
		r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
		r.open(0)
		const n = 40
		op := r.op(1, n*p.PerPacket, n*p.PerPacket)
		again := map[bool]int{} // by direction
		seen := map[[2]uint32]int{}
		r.onTx = func(fromClient bool, p dgram, _ int) {
			h := p.header()
			if h.Type != wire.TypeReq && h.Type != wire.TypeResp {
				return
			}
			key := [2]uint32{uint32(h.Type), h.PktNum}
			if seen[key]++; seen[key] > 1 {
				again[fromClient]++
			}
		}
		drop := func(list []dgram, typ wire.Type, first uint32) []dgram {
			return slices.DeleteFunc(list, func(p dgram) bool {
				h := p.header()
				return h.Type == typ && seen[[2]uint32{uint32(typ), h.PktNum}] == 1 &&
					h.PktNum != n-1 && slices.Contains(lost, h.PktNum-first)
			})
		}
		if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
			t.Fatal(err)
		}
		r.takeClient()
		done := false
		r.onEvent = func(ev Event) { done = done || ev.Kind == EventDone }
		for len(r.c2s)+len(r.s2c) > 0 {
			in := drop(r.c2s, wire.TypeReq, 0)
			r.c2s = nil
			for _, p := range in {
				if ev := r.toServer(p); ev.Kind == EventRequest {
					if err := r.respond(ev.Slot, n*r.params.PerPacket); err != nil {
						t.Fatal(err)
					}
				}
			}
			in = drop(r.s2c, wire.TypeResp, n-1)
			r.s2c = nil
			for _, p := range in {
				r.toClient(p)
			}
		}
		if !done || again[true] > len(lost)+2 || again[false] > len(lost)+2 {
			t.Errorf("lost %v each way: done %v, %d and %d packets were sent again", lost, done,
				again[true], again[false])
		}
		if done {
			giveBack(op)
			r.noLeak()
		}
	}
}
