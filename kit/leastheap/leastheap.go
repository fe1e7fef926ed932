package leastheap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/userspace-rpc/erpc/internal/memsize"
)

const (
	// minOfRuntime is the heap in bytes at which the runtime collects at first with a GOGC of
	// 100. It grows with GOGC.
	minOfRuntime = 4 << 20
	// spareTimes and spare make the memory limit: so many goals, for a state that has grown much in
	// one cycle, and bytes for what is not heap.
	spareTimes = 3
	spare      = 64 << 20
	// share is the part of the memory that the process may use, which a least heap may have.
	share = 8
)

// Default is the least heap of this project's commands in MiB.
const Default = 64

// keeper sets the percentage after each collection.
type keeper struct {
	min     uint64 // bytes
	most    uint64 // bytes of garbage
	percent int    // the caller's GOGC
	limit   int64  // the memory limit that was there

	mu      sync.Mutex
	over    bool
	set     int // GOGC at present
	samples []metrics.Sample
}

// Keep sets GOGC to percent, but lets the heap grow to least bytes at least before a collection,
// or to an eighth of the memory that the process may use, if that is less. With 0 for least, or a
// negative percent, which turns collections off, it only sets GOGC. A memory limit that is there,
// as by GOMEMLIMIT, stays where it is lower. stop ends it: GOGC is percent then, and the memory
// limit is what it was. One Keep at a time, since both are the process's.
func Keep(least uint64, percent int) (stop func()) {
	return KeepWithin(least, math.MaxUint64, percent)
}

// KeepWithin is Keep, with at most so many bytes of garbage before a collection, or a tenth of what
// the last one has left, if that is more: for a large state that costs the collector little, since
// it has few pointers.
func KeepWithin(least, most uint64, percent int) (stop func()) {
	if least == 0 || percent < 0 {
		debug.SetGCPercent(percent)
		return func() {}
	}
	k := &keeper{min: fit(least, memsize.Limit()), most: most, percent: percent,
		limit: debug.SetMemoryLimit(-1),
		samples: []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
			{Name: "/gc/scan/globals:bytes"}}}
	k.adjust()
	k.watch()
	return k.stop
}

// sentinel becomes garbage at once. It has a pointer, so that it does not share its memory with
// something that lives.
type sentinel struct{ _ *keeper }

// watch has the percentage set after the next collection, and after each one that follows.
func (k *keeper) watch() {
	runtime.AddCleanup(&sentinel{}, func(k *keeper) {
		if k.adjust() {
			k.watch()
		}
	}, k)
}

// adjust sets the percentage by what the last collection has left. It reports whether it shall go
// on.
func (k *keeper) adjust() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	metrics.Read(k.samples)
	live := k.samples[0].Value.Uint64()
	scan := live + k.samples[1].Value.Uint64() + k.samples[2].Value.Uint64()
	caller := within(scan, k.most, k.percent)
	if p := percent(live, scan, k.min, caller); p != k.set {
		k.set = p
		debug.SetGCPercent(p)
	}
	debug.SetMemoryLimit(min(k.limit, limit(goal(live, scan, caller), k.min)))
	return true
}

func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.over {
		k.over = true
		debug.SetGCPercent(k.percent)
		debug.SetMemoryLimit(k.limit)
	}
}

// fit is least, or the share of all memory if that is less; all is 0 if it is not known.
func fit(least uint64, all int64) uint64 {
	if all <= 0 {
		return least
	}
	return min(least, uint64(all)/share)
}

// goal is the heap at which the runtime's next collection ends, in bytes: live is what the last
// one has left, scan what GOGC counts, which is live, the stacks and the global variables.
func goal(live, scan uint64, percent int) uint64 {
	return live + uint64(float64(scan)*float64(percent)/100)
}

// within is the caller's percentage, or what leads to most bytes of garbage if that is less, but at
// least a tenth.
func within(scan, most uint64, caller int) int {
	if float64(scan)*float64(caller)/100 <= float64(most) {
		return caller
	}
	return min(caller, max(10, int(float64(most)/float64(scan)*100)))
}

// percent is the GOGC for the larger of two goals: least, and that of the caller's percentage. It
// is never more than makes the runtime's own least heap as large as least.
func percent(live, scan, least uint64, caller int) int {
	if least <= goal(live, scan, caller) {
		return caller
	}
	most := float64(least) / minOfRuntime * 100
	return max(caller, int(min(most, math.Ceil(float64(least-live)/float64(scan)*100))))
}

// limit is the memory limit for the larger of two goals, in bytes.
func limit(goal, least uint64) int64 {
	return int64(min(spareTimes*float64(max(goal, least))+spare, 1<<62))
}
