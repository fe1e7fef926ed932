package conformance

import (
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// testSizes sends packets of many sizes, alone and as a burst.
func testSizes(r *rig) {
	sizes := []int{1, 2, 7, 8, 24, 25}
	for n := 63; n <= 257; n++ {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, r.mtu()-1, r.mtu())
	var burst []spec
	for _, n := range sizes {
		if n > r.mtu() {
			continue
		}
		r.sendTo(spec{head: n, data: -1})
		burst = append(burst, spec{head: n, data: 0})
	}
	r.inWindows(burst, &flow{to: r.b})
}

// testSplits cuts packets into Head and Data everywhere.
func testSplits(r *rig) {
	for _, size := range []int{1, 2, 24, 25, 48, 100, 257, r.mtu() - 1, r.mtu()} {
		var burst []spec
		for head := 0; head <= size; head++ {
			if size > 257 && head > 70 && head < size-70 && head%97 != 0 {
				continue
			}
			burst = append(burst, spec{head: head, data: size - head})
		}
		r.inWindows(burst, &flow{to: r.b})
	}
}

// inWindows sends specs in bursts that fit the receiver.
func (r *rig) inWindows(specs []spec, flows ...*flow) {
	r.Helper()
	for len(specs) > 0 {
		n := min(len(specs), r.window(300))
		r.send(r.a, specs[:n], flows...)
		specs = specs[n:]
	}
}

// shapes are the size patterns of a burst: the i-th of n packets.
var shapes = []struct {
	name string
	size func(i, n, mtu int) int
}{
	{"small", func(i, n, mtu int) int { return 24 }},
	{"equal", func(i, n, mtu int) int { return min(200, mtu) }},
	{"full", func(i, n, mtu int) int { return mtu }},
	{"full, short last", func(i, n, mtu int) int {
		if i == n-1 {
			return 25
		}
		return mtu
	}},
	{"alternating", func(i, n, mtu int) int { return []int{24, mtu}[i%2] }},
	{"alternating by one", func(i, n, mtu int) int { return 64 + i%2 }},
	{"runs", func(i, n, mtu int) int { return []int{40, 300, 41, mtu}[i/5%4] }},
	{"growing", func(i, n, mtu int) int { return 24 + i*(mtu-24)/max(1, n-1) }},
	{"shrinking", func(i, n, mtu int) int { return mtu - i*(mtu-24)/max(1, n-1) }},
	{"mixed", func(i, n, mtu int) int { return 1 + (i*7919+n*104729)%mtu }},
}

var burstLengths = []int{1, 2, 3, 7, 8, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255,
	256, 257, 300}

// burst makes n packets of a shape, going to the destinations as route says.
func burst(r *rig, n int, size func(i, n, mtu int) int, route func(i int) int) []spec {
	specs := make([]spec, n)
	for i := range specs {
		s := min(max(1, size(i, n, r.mtu())), r.mtu())
		head := min(s, 24)
		specs[i] = spec{to: route(i), head: head, data: s - head}
	}
	return specs
}

// testBursts sends bursts of many lengths and size patterns to one destination.
func testBursts(r *rig) {
	for _, shape := range shapes {
		for _, n := range burstLengths {
			if n > r.window(300) {
				n = r.window(300)
			}
			r.send(r.a, burst(r, n, shape.size, func(int) int { return 0 }), &flow{to: r.b})
		}
	}
}

// testBurstsToTwo does the same with two destinations in one burst.
func testBurstsToTwo(r *rig) {
	c := r.other()
	routes := []func(i int) int{
		func(i int) int { return i % 2 },
		func(i int) int { return i / 9 % 2 },
		func(i int) int { return min(i, 1) },
	}
	for _, shape := range shapes {
		for i, n := range burstLengths {
			n = min(n, r.window(300), max(1, c.Caps().RxRing*3/4))
			specs := burst(r, n, shape.size, routes[i%len(routes)])
			r.send(r.a, specs, &flow{to: r.b}, &flow{to: c})
		}
	}
}

// testReceiveSlices receives with slices of several lengths, so that what is left
// over must be kept for the next call.
func testReceiveSlices(r *rig) {
	r.rx = make([]transport.RxPacket, 512)
	for _, length := range []int{1, 2, 7, 64, 512} {
		for _, shape := range shapes {
			specs := burst(r, r.window(100), shape.size, func(int) int { return 0 })
			r.send(r.a, specs, &flow{to: r.b, slice: length})
		}
	}
}

// testOversize sends packets that are too large between good ones: taken,
// counted as dropped, and no harm to their neighbours.
func testOversize(r *rig) {
	for _, extra := range []int{1, 2, 100, 70000} {
		r.unsendable(fmt.Sprintf("MTU+%d", extra), r.b.LocalAddr(), r.caps.MTU+extra)
	}
}

// testNoDestination sends packets to the zero Addr, which is no address.
func testNoDestination(r *rig) { r.unsendable("zero Addr", transport.Addr{}, 32) }

// unsendable puts a packet that cannot be sent at several places of a burst.
func (r *rig) unsendable(what string, dst transport.Addr, size int) {
	r.Helper()
	good := 5
	for _, at := range []int{0, 2, 5} {
		for split := range 2 {
			specs := burst(r, r.window(good), func(i, n, mtu int) int { return 60 + i },
				func(int) int { return 0 })
			f := []*flow{{to: r.b}}
			items := r.build(specs, f)
			bad := transport.TxItem{Dst: dst, Head: make([]byte, size)}
			if split == 1 {
				bad.Head, bad.Data = bad.Head[:24], bad.Head[24:]
			}
			at := min(at, len(items))
			items = append(items[:at:at], append([]transport.TxItem{bad}, items[at:]...)...)
			before := r.a.Stats()
			r.offer(r.a, items)
			after := r.a.Stats()
			if n := after.TxDropped - before.TxDropped; n != 1 {
				r.Fatalf("%s: TxDropped grew by %d, want 1", what, n)
			}
			if n := after.TxPackets - before.TxPackets; n != uint64(len(specs)) {
				r.Fatalf("%s: TxPackets grew by %d, want %d", what, n, len(specs))
			}
			r.collect(r.a, f[0])
			r.sendTo(spec{head: 24}) // anything else that was sent would show up here
		}
	}
}
