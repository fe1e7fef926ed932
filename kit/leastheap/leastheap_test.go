package leastheap

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/memsize"
)

const mib = 1 << 20

// TestPercent: the goal is the larger one of the least heap and the caller's.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		name            string
		live, scan, min uint64
		caller, want    int
	}{
		{"nothing yet", 0, 0, 256 * mib, 100, 6400},
		{"little", 2 * mib, 3 * mib, 256 * mib, 100, 6400},
		{"some", 16 * mib, 16 * mib, 256 * mib, 100, 1500},
		{"stacks count", 16 * mib, 32 * mib, 256 * mib, 100, 750},
		{"rounded up", 100 * mib, 100 * mib, 256*mib + 1, 100, 157},
		{"as much as the caller's", 128 * mib, 128 * mib, 256 * mib, 100, 100},
		{"much", 1024 * mib, 1024 * mib, 256 * mib, 100, 100},
		{"much, stacks", 100 * mib, 157 * mib, 256 * mib, 100, 100},
		{"the caller's is more", 2 * mib, 2 * mib, 256 * mib, 10_000, 10_000},
		{"a caller's of 0", 2 * mib, 2 * mib, 8 * mib, 0, 200},
		{"less than the runtime's", 0, mib, 2 * mib, 100, 100},
	} {
		if got := percent(c.live, c.scan, c.min, c.caller); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestWithin: there is at most so much garbage, or a tenth of the state.
func TestWithin(t *testing.T) {
	for _, c := range []struct {
		scan, most   uint64
		caller, want int
	}{
		{0, 256 * mib, 400, 400}, {64 * mib, 256 * mib, 400, 400}, {65 * mib, 256 * mib, 400, 393},
		{1024 * mib, 256 * mib, 400, 25}, {2560 * mib, 256 * mib, 400, 10},
		{4096 * mib, 256 * mib, 400, 10}, {4096 * mib, 256 * mib, 5, 5},
		{4096 * mib, math.MaxUint64, 400, 400},
	} {
		if got := within(c.scan, c.most, c.caller); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestLimit: it is far from both goals, and never beyond all numbers.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		goal, min uint64
		want      int64
	}{
		{mib, 256 * mib, (3*256 + 64) * mib}, {1024 * mib, 256 * mib, (3*1024 + 64) * mib},
		{math.MaxInt64, mib, 1 << 62},
	} {
		if got := limit(c.goal, c.min); got != c.want {
			t.Errorf("limit(%d, %d) = %d, want %d", c.goal, c.min, got, c.want)
		}
	}
}

// number reads a metric.
func number(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// until collects until a condition is true, by a cleanup.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); runtime.GC() {
		if time.Now().After(end) {
			t.Fatalf("%s: goal %d, live %d, limit %d", what, number("/gc/heap/goal:bytes"),
				number("/gc/heap/live:bytes"), debug.SetMemoryLimit(-1))
		}
	}
}

// near is the condition that the goal is about want.
func near(want uint64) func() bool {
	return func() bool {
		g := number("/gc/heap/goal:bytes")
		return g > want*95/100 && g < want*110/100
	}
}

// restore leaves the process as it was.
func restore(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(-1)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	})
}

// TestStates: the goal follows the caller's percentage while the state is large, and is the least
// heap again when it is small. The memory limit is beyond both.
func TestStates(t *testing.T) {
	restore(t)
	old := debug.SetMemoryLimit(-1)
	stop := Keep(64*mib, 50)
	defer stop()
	until(t, "at first", near(64*mib))
	state := make([][]byte, 200*16)
	for i := range state {
		state[i] = make([]byte, mib/16)
	}
	until(t, "a large state", near(300*mib))
	until(t, "a large state", func() bool {
		limit := debug.SetMemoryLimit(-1)
		return limit > 900*mib && limit < 1100*mib
	})
	clear(state[10*16:]) // 10 MiB are left
	until(t, "a small state", near(64*mib))
	clear(state)
	until(t, "none", near(64*mib))
	stop()
	until(t, "after the end", func() bool { return number("/gc/heap/goal:bytes") < 8*mib })
	if p, l := debug.SetGCPercent(50), debug.SetMemoryLimit(-1); p != 50 || l != old {
		t.Errorf("after the end GOGC is %d and the limit %d", p, l)
	}
	runtime.KeepAlive(state)
}

// TestBounds: a memory limit that is lower stays, another one makes room for a state that comes in
// one cycle, and a least heap leaves most of the memory.
func TestBounds(t *testing.T) {
	restore(t)
	for _, c := range []struct{ there, want int64 }{
		{96 * mib, 96 * mib}, {math.MaxInt64, (3*16 + 64) * mib},
	} {
		debug.SetMemoryLimit(c.there)
		stop := Keep(16*mib, 100)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("a memory limit of %d, want %d", got, c.want)
		}
		stop()
	}
	if all := memsize.Limit(); all > 0 {
		debug.SetMemoryLimit(math.MaxInt64)
		stop := Keep(1<<50, 100)
		if got := debug.SetMemoryLimit(-1); got > all/2+64*mib {
			t.Errorf("a memory limit of %d where there is memory of %d", got, all)
		}
		stop()
	}
	for _, c := range []struct {
		min  uint64
		all  int64
		want uint64
	}{{256, 0, 256}, {256, 2048, 256}, {256, 2047, 255}, {256, 80, 10}} {
		if got := fit(c.min, c.all); got != c.want {
			t.Errorf("%d of %d: %d", c.min, c.all, got)
		}
	}
}

// TestNone: without a least heap, or with the collector off, GOGC is the caller's.
func TestNone(t *testing.T) {
	restore(t)
	old := debug.SetMemoryLimit(-1)
	for _, c := range []struct {
		min     uint64
		percent int
	}{{0, 77}, {64 * mib, -1}} {
		stop := Keep(c.min, c.percent)
		if p, l := debug.SetGCPercent(c.percent), debug.SetMemoryLimit(-1); p != c.percent || l != old {
			t.Errorf("GOGC %d and a limit of %d", p, l)
		}
		stop()
	}
}
