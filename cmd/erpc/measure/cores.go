package measure

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// crowded says that event loops outnumber the cores that they may run on; "" if they do not. The
// flags' pins are the cores of loops, -1 for one that may run on any of those allowed.
func crowded(pins, allowed []int) string {
	cores := make(map[int]bool)
	for _, c := range pins {
		if c < 0 {
			cores = nil
			break
		}
		cores[c] = true
	}
	n := len(cores)
	if cores == nil {
		n = len(allowed)
	}
	if n == 0 || n >= len(pins) {
		return ""
	}
	plural := "s"
	if n == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d event loops take turns on %d core%s: "+
		"with cores of their own they do better", len(pins), n, plural)
}

// nearCores is below how many ns of round trip two cores share a cache. Measured on
// machines of this kind: 110 ns within one, 470 ns between two.
const nearCores = 250

// coreRoundTrip measures how long a cache line takes from one core to another and back,
// ns. This alone moves shared memory four times. It is 0 if it cannot be told.
func coreRoundTrip(a, b int) float64 {
	if a < 0 || b < 0 || a == b {
		return 0
	}
	const chunk, rounds = 500, 20_000
	var word atomic.Uint64
	var failed atomic.Bool
	best := time.Duration(math.MaxInt64) // of all chunks: somebody else may want the cores too
	var wg sync.WaitGroup
	// side answers each odd or even number with the next one. A thread that was pinned is
	// not given back: it ends with its goroutine.
	side := func(core int, from uint64) {
		runtime.LockOSThread()
		if cli.PinThread(core) != nil {
			failed.Store(true)
		}
		begin := monotime.Now()
		for i := from; i < 2*rounds; i += 2 {
			for word.Load() != i && !failed.Load() {
			}
			word.Store(i + 1)
			if from == 0 && i%(2*chunk) == 0 {
				now := monotime.Now()
				if i > 0 {
					best = min(best, now.Sub(begin))
				}
				begin = now
			}
		}
	}
	wg.Go(func() { side(a, 0) })
	wg.Go(func() { side(b, 1) })
	wg.Wait()
	if failed.Load() {
		return 0
	}
	return float64(best) / chunk
}
