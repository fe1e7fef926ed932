package echo

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Work makes a handler spend time before it answers. The zero Work is none. At most one of the
// two fields is set.
type Work struct {
	Sleep   time.Duration // it blocks for so long
	Compute time.Duration // it uses the CPU for so long, if nobody takes it away
}

// maxWork is the longest that Set takes.
const maxWork = time.Second

// String returns w in the form that Set reads.
func (w Work) String() string {
	switch {
	case w.Sleep > 0:
		return "sleep:" + w.Sleep.String()
	case w.Compute > 0:
		return "compute:" + w.Compute.String()
	}
	return "none"
}

// Set implements flag.Value: none, sleep:1ms, compute:50us.
func (w *Work) Set(text string) error {
	if text == "none" {
		*w = Work{}
		return nil
	}
	kind, long, _ := strings.Cut(text, ":")
	d, err := time.ParseDuration(long)
	switch {
	case err != nil:
	case d <= 0 || d > maxWork:
		return fmt.Errorf("%v: want more than 0 and at most %v", d, maxWork)
	case kind == "sleep":
		*w = Work{Sleep: d}
		return nil
	case kind == "compute":
		*w = Work{Compute: d}
		return nil
	}
	return fmt.Errorf("want none, sleep:TIME or compute:TIME")
}

// worker returns a function that does the work; nil if there is none.
func (w Work) worker() func() {
	switch {
	case w.Sleep > 0:
		return func() { time.Sleep(w.Sleep) }
	case w.Compute > 0:
		n := steps(w.Compute, stepTime())
		return func() { churned.Store(churn(n)) }
	}
	return nil
}

// churned keeps the last result of churn, so that the compiler cannot leave the computation out.
var churned atomic.Uint64

// churn computes n steps, each of which needs the one before.
//
//go:noinline
func churn(n int) uint64 {
	x := uint64(n) | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// A calibration times this many steps, this often. The shortest time counts: in the others
// the thread was interrupted, or the core was slow to wake.
const (
	trialSteps = 100_000
	trials     = 30
)

// stepTime is how long a step of churn takes in this process, in ns. It is measured once.
var stepTime = sync.OnceValue(func() float64 {
	return calibrate(func(n int) time.Duration {
		begin := time.Now()
		churned.Store(churn(n))
		return time.Since(begin)
	})
})

// calibrate returns the time of a step in ns, where run does n steps and says how long it took.
func calibrate(run func(n int) time.Duration) float64 {
	best := run(trialSteps)
	for range trials - 1 {
		best = min(best, run(trialSteps))
	}
	return max(float64(best), 1) / trialSteps
}

// steps is how many steps of step ns take d; at least one.
func steps(d time.Duration, step float64) int { return max(1, int(float64(d)/step)) }
