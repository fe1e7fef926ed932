package erpc

import (
	"runtime"
	"time"
)

const (
	// Callers are quick if a turn of theirs takes lineFor and lineEach for each of them, at most.
	lineFor  = 20 * time.Microsecond
	lineEach = 2 * time.Microsecond
	// A turn that is not quick adds slowTurn to a sum, each other one takes 1 away. At slowTurns the
	// loop goes on beside the callers for minApart hand-outs, for twice as many each time, and for
	// half as many after each trustTurns quick turns.
	slowTurn   = 4
	slowTurns  = 16
	minApart   = 16
	maxApart   = 1 << 14
	trustTurns = 256
	// Each fairEvery-th time the loop goes behind all goroutines of the process: those of the global
	// queue, which the runtime serves rarely beside a local one, have their turn.
	fairEvery = 8
)

// handout wakes callers whose calls have ended: all that there are, at once, when the loop lets
// them run. The first wake-up makes the runtime wake another processor, if one is idle. When that
// comes, most callers have run on the loop's own.
//
// The loop waits in line behind the callers, in the queue of its own processor, so that their next
// calls leave together. With runtime.Gosched it would go to the global queue. There the processor
// that was woken finds it first, and the loop runs beside the callers, for each call or two, while
// both pass memory to and fro. The runtime has no call to wait in the local queue. So a goroutine
// stands in line for the loop, and wakes it. It is woken before the last caller, since who was
// woken last runs first.
//
// Callers that compute before they call again make the loop late. It measures that, and goes on
// beside them then.
type handout struct {
	ended []*goCall     // since callers were let run
	line  chan struct{} // wakes the goroutine that stands in line; nil if there is none
	turn  chan struct{} // wakes the loop

	count int // hand-outs since the loop went behind all goroutines
	apart int // hand-outs for which the loop goes on beside the callers
	hold  int // how many these were the last time
	sum   int
	trust int
}

// begin starts the goroutine that stands in line. It ends with the handout.
func (h *handout) begin() {
	line, turn := make(chan struct{}, 1), make(chan struct{}, 1)
	h.line, h.turn = line, turn
	go func() {
		for range line {
			turn <- struct{}{}
		}
	}()
}

// end wakes the callers that are left.
func (h *handout) end() {
	h.wake(false)
	close(h.line)
}

// wake wakes the callers, and who stands in line behind them if the loop waits.
func (h *handout) wake(waits bool) {
	last := len(h.ended) - 1
	for i, k := range h.ended {
		if i == last && waits {
			h.line <- struct{}{}
		}
		k.ended <- true
	}
	clear(h.ended)
	h.ended = h.ended[:0]
}

// handOut wakes the callers and lets them run.
func (r *Rpc) handOut() {
	h := &r.handout
	n := len(h.ended)
	if r.cfg.LockThread {
		h.wake(false)
		return
	}
	if n == 0 || !h.waits() {
		h.wake(false)
		runtime.Gosched()
		return
	}
	h.wake(true)
	from := r.clock()
	<-h.turn
	h.took(n, r.clock().Sub(from))
}

// waits reports whether the loop waits behind the callers.
func (h *handout) waits() bool {
	if h.apart > 0 {
		h.apart--
		return false
	}
	h.count = (h.count + 1) % fairEvery
	return h.count > 0
}

// took notes how long the turn of n callers was.
func (h *handout) took(n int, d time.Duration) {
	if d <= lineFor+time.Duration(n)*lineEach {
		h.sum = max(h.sum-1, 0)
		if h.trust++; h.trust == trustTurns {
			h.trust, h.hold = 0, h.hold/2
		}
		return
	}
	h.trust = 0
	if h.sum += slowTurn; h.sum >= slowTurns {
		h.sum = slowTurns - slowTurn
		h.hold = min(max(2*h.hold, minApart), maxApart)
		h.apart = h.hold
	}
}
