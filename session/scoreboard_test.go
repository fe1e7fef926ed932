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

// TestFarAhead: packets that are further ahead than any is kept, or than there is memory for, are
// sent again like those that were lost: none stands for another one, and no memory is taken.
func TestFarAhead(t *testing.T) {
	p := rigParams
	p.Credits, p.MaxMessage = 512, 1<<20
	const n = 400
	lost := []uint32{1, 44, 100} // 44 and maxAhead are as far apart as 300 is from 0
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	op := r.op(1, n*p.PerPacket, n*p.PerPacket)
	fill(op.Req.Bytes(), 3)
	dropped := map[[2]uint32]bool{}
	drop := func(list []dgram, typ wire.Type, first uint32) []dgram {
		return slices.DeleteFunc(list, func(p dgram) bool {
			h := p.header()
			key := [2]uint32{uint32(typ), h.PktNum}
			if h.Type != typ || dropped[key] || !slices.Contains(lost, h.PktNum-first) ||
				typ == wire.TypeResp && h.PktNum == first {
				return false
			}
			dropped[key] = true
			return true
		})
	}
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	done := false
	r.onEvent = func(ev Event) { done = done || ev.Kind == EventDone }
	for step := 0; !done && step < 100; step++ {
		in := drop(r.c2s, wire.TypeReq, 0)
		r.c2s = nil
		for _, p := range in {
			if ev := r.toServer(p); ev.Kind == EventRequest {
				_, _, data := r.sv.Request(ev.Slot)
				if err := checkFill(data, 3); err != nil {
					t.Fatalf("the request: %v", err)
				}
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
		if len(r.c2s)+len(r.s2c) == 0 {
			r.now += 20 * ms
			r.cl.Scan(r.now, r.cout)
			r.takeClient()
		}
	}
	if !done {
		t.Fatal("the request has not ended")
	}
	if err := checkFill(op.Resp.Bytes(), 8); err != nil {
		t.Errorf("the response: %v", err)
	}
	giveBack(op)
	r.noLeak()
}

// TestAheadTakesNoMemory: a packet of a large request that is far ahead of its first one is
// dropped.
func TestAheadTakesNoMemory(t *testing.T) {
	g := newHoard(t, 1, 1<<30, hoardParams)
	sv, size := g.svs[0], 8<<20
	g.packet(sv, 8, size, 0)
	had := sv.slots[0].req.Footprint()
	for _, k := range []int{1000, 255, 100, size/sv.PerPacket - 1, size / sv.PerPacket} {
		g.packet(sv, 8, size, k)
		if got := sv.slots[0].req.Footprint(); got != had {
			t.Errorf("packet %d: the request takes %d bytes, and took %d", k, got, had)
		}
		g.check()
	}
	for k := range size/sv.PerPacket + 1 {
		g.packet(sv, 8, size, k)
	}
	_, _, data := sv.Request(0)
	for i, b := range data {
		if b != 8+byte(i/sv.PerPacket) {
			t.Fatalf("byte %d is %#x", i, b)
		}
	}
	g.close()
}

// TestAllBehindIsLost: when what follows a hole is lost as well, it takes few round trips, each
// with twice as many packets as the one before.
func TestAllBehindIsLost(t *testing.T) {
	p := rigParams
	p.Credits = 64
	r := newRig(t, p, Timing{}, 0, msgbuf.Config{})
	r.open(0)
	const n = 60
	op := r.op(1, n*p.PerPacket, 10)
	if err := r.cl.Start(op, 0, 0, r.cout); err != nil {
		t.Fatal(err)
	}
	r.takeClient()
	r.c2s = slices.DeleteFunc(r.c2s, func(p dgram) bool {
		k := p.header().PktNum
		return k == 1 || k > 2
	})
	flights, done := 0, false
	r.onEvent = func(ev Event) { done = done || ev.Kind == EventDone }
	for ; len(r.c2s) > 0; flights++ {
		in := r.c2s
		r.c2s = nil
		for _, p := range in {
			if ev := r.toServer(p); ev.Kind == EventRequest {
				if err := r.respond(ev.Slot, 10); err != nil {
					t.Fatal(err)
				}
			}
		}
		in = r.s2c
		r.s2c = nil
		for _, p := range in {
			r.toClient(p)
		}
	}
	if !done || flights > 10 {
		t.Errorf("after %d flights: done %v", flights, done)
	}
	giveBack(op)
	r.noLeak()
}
