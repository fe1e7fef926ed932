package hostiletest

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	longFlag = flag.Duration("hostile.for", 0, "how long each test makes trouble; 0: seconds")
	seedFlag = flag.Uint64("hostile.seed", 0, "the seed of all choices; 0: a new one")
)

// patience bounds what must happen; only a test that hangs waits so long.
const patience = 90 * time.Second

// burst is how many hostile packets at most lie in the server's socket before a call of a victim.
const burst = 100

func TestMain(m *testing.M) {
	if runRole() {
		return
	}
	os.Exit(m.Run())
}

// lab holds what all tests of this package begin with.
type lab struct {
	testing.TB
	seed  uint64
	heap  uint64 // in use at the start, bytes
	start time.Time
}

// begin prints the seed and sees at the end that goroutines and memory are as they were.
func begin(t testing.TB) *lab {
	t.Helper()
	l := &lab{TB: t, seed: *seedFlag, start: time.Now()}
	for l.seed == 0 {
		l.seed = rand.Uint64()
	}
	t.Logf("-run '^%s$' -hostile.seed %d -hostile.for %v", t.Name(), l.seed, l.span())
	running := goleak.IgnoreCurrent()
	l.heap = heapInUse()
	t.Cleanup(func() {
		if err := goleak.Find(running); err != nil {
			t.Errorf("goroutines are left: %v", err)
		}
		if now := heapInUse(); now > l.heap+heapSlack {
			t.Errorf("the heap grew from %d to %d bytes", l.heap, now)
		}
	})
	return l
}

// step logs how far a test is.
func (l *lab) step(what string) {
	l.Helper()
	l.Logf("after %v: %s", time.Since(l.start).Round(time.Millisecond), what)
}

// heapSlack is how much the heap may grow: what the runtime and package testing keep.
const heapSlack = 2 << 20

// socketMemory is the memory for packets of a busy server's and a busy client's socket, in bytes.
const socketMemory = 2 * 33 << 16

func heapInUse() uint64 {
	var m runtime.MemStats
	for range 3 { // sync.Pools are emptied by the second collection
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// rng returns the generator of one part of a test.
func (l *lab) rng(part string, number int) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(part))
	return rand.New(rand.NewPCG(l.seed, h.Sum64()+uint64(number)))
}

// long reports whether this is the run of make hostile.
func (l *lab) long() bool { return *longFlag > 0 }

// span is how long a test makes trouble.
func (l *lab) span() time.Duration {
	switch {
	case l.long():
		return *longFlag
	case testing.Short():
		return 1500 * time.Millisecond
	}
	return 2500 * time.Millisecond
}

// pick returns short, or in a long run much more.
func (l *lab) pick(short, long int) int {
	if l.long() {
		return long
	}
	return short
}

// within waits until done is closed.
func (l *lab) within(what string, done <-chan struct{}) {
	l.Helper()
	select {
	case <-done:
	case <-time.After(l.span() + patience):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
		l.Fatalf("%s: it hangs", what)
	}
}

// until waits for a condition.
func (l *lab) until(what string, cond func() bool) {
	l.Helper()
	for end := time.Now().Add(patience); !cond(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			l.Fatalf("%s: it never came about", what)
		}
	}
}

// between returns a random span of time.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}
