package conformance

import (
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// testStats compares the counters with what was sent and received. It counts only
// rounds in which nothing got lost.
func testStats(r *rig) {
	var old transport.Stats
	lost := 0
	for round := range 20 {
		specs := burst(r, r.window(1+round*3), shapes[round%len(shapes)].size, func(int) int { return 0 })
		f := []*flow{{to: r.b}}
		tx0, rx0, stalls := r.a.Stats(), r.b.Stats(), r.stalls
		if missing := r.try(r.a, specs, f); missing > 0 {
			if lost++; lost == attempts {
				r.Fatalf("%d packets lost on an idle network, and some in earlier rounds", missing)
			}
			r.drain(f)
			old = r.a.Stats()
			continue
		}
		var bytes uint64
		for _, s := range specs {
			bytes += uint64(s.size())
		}
		r.a.Flush()
		tx1, rx1, n := r.a.Stats(), r.b.Stats(), uint64(len(specs))
		r.grew("TxPackets", tx0.TxPackets, tx1.TxPackets, n)
		r.grew("TxBytes", tx0.TxBytes, tx1.TxBytes, bytes)
		r.grew("TxDropped", tx0.TxDropped, tx1.TxDropped, 0)
		r.grew("TxStalls", tx0.TxStalls, tx1.TxStalls, r.stalls-stalls)
		r.grew("RxPackets", rx0.RxPackets, rx1.RxPackets, n)
		r.grew("RxBytes", rx0.RxBytes, rx1.RxBytes, bytes)
		r.grew("RxDropped", rx0.RxDropped, rx1.RxDropped, 0)
		r.grew("sender's RxPackets", tx0.RxPackets, tx1.RxPackets, 0)
		r.grew("receiver's TxPackets", rx0.TxPackets, rx1.TxPackets, 0)
		if tx1.TxCalls < old.TxCalls || tx1.RxCalls < old.RxCalls {
			r.Errorf("counters went back from %+v to %+v", old, tx1)
		}
		old = tx1
	}
}

func (r *rig) grew(name string, before, after, want uint64) {
	r.Helper()
	if after-before != want {
		r.Errorf("%s grew by %d, want %d", name, after-before, want)
	}
}

// testAllocations: once warm, TxBurst, Flush and RxBurst allocate nothing. What
// Wait or the clock of a simulator allocate is not counted.
func testAllocations(r *rig) {
	const rounds = 50
	n := r.window(32)
	for _, shape := range shapes {
		var items []transport.TxItem
		for _, s := range burst(r, n, shape.size, func(int) int { return 0 }) {
			items = append(items, transport.TxItem{Dst: r.b.LocalAddr(), Head: make([]byte, s.head),
				Data: make([]byte, s.data)})
		}
		for range 3 {
			r.round(items, nil) // warm up
		}
		var allocs uint64
		for range rounds {
			r.round(items, &allocs)
		}
		if allocs >= rounds { // less is somebody else's, as in testing.AllocsPerRun
			r.Errorf("%d bursts of %d packets (%s) made %d allocations", rounds, n, shape.name, allocs)
		}
	}
}

// round moves items from a to b and adds the allocations of the hot calls to allocs.
func (r *rig) round(items []transport.TxItem, allocs *uint64) {
	r.Helper()
	got := 0
	left := items
	for limit := r.deadline(); got < len(items); {
		sent, n := 0, 0
		var txErr, rxErr error
		before := mallocs(allocs)
		if len(left) > 0 {
			sent, txErr = r.a.TxBurst(left)
			r.a.Flush()
		}
		n, rxErr = r.b.RxBurst(r.rx)
		if allocs != nil {
			*allocs += mallocs(allocs) - before
		}
		if txErr != nil || rxErr != nil {
			r.Fatalf("TxBurst: %v, RxBurst: %v", txErr, rxErr)
		}
		left, got = left[sent:], got+n
		if sent+n > 0 {
			limit = r.deadline()
			continue
		}
		if time.Now().After(limit) {
			return // lost packets: allowed, and others look for it
		}
		r.pause(r.b, shortWait)
	}
}

// mallocs returns the allocations of the process so far, if anyone counts.
func mallocs(counting *uint64) uint64 {
	if counting == nil {
		return 0
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
