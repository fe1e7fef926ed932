package erpc

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	// In one shift handlers may run for shiftFor in all, and there are maxInShift of them at most.
	// The clock is read after every shiftClock handlers of one type.
	shiftFor   = 100 * time.Microsecond
	shiftClock = 8
	maxInShift = 64
	// At most maxOwn requests wait for shifts. The pool has the others.
	maxOwn = 1024
	// The watchdog looks every watchEvery while there are shifts. The handler of a shift that takes
	// longer than tooLong waits for something, or computes.
	watchEvery = 5 * time.Millisecond
	tooLong    = time.Millisecond
	// After dozeAfter looks without a new shift the watchdog waits for one.
	dozeAfter = 8
)

// errLoopExit ends a loop whose goroutine a callback has ended.
var errLoopExit = errors.New("a callback called runtime.Goexit in the event loop")

// handoff runs the event loop of a Server in goroutines that take turns. The one that has the loop
// runs quick handlers itself, between two passes: that is a shift. No goroutine has to be woken for
// it; that costs more than such a handler. If a handler does not return soon, another goroutine
// goes on with the loop and with the requests that are left, and the first one ends with its
// handler. Requests of types whose handlers are not quick go to the pool; see pace.
//
// Word says whose turn it is. Its upper bits count the turns, its lower ones the requests of the
// shift that were begun; they are 0 outside a shift. Requests begin, shifts end and turns change by
// compare-and-swap of word alone. So each request begins once, and one goroutine has the loop.
type handoff struct {
	r     *Rpc
	stop  func() bool
	enter func() // called before a goroutine starts that has a turn
	leave func() // called when it ends

	word  atomic.Uint64
	jobs  []*job       // of the shift; they belong to the goroutine whose turn it is
	began atomic.Int64 // the time when the shift began, as monotime.Time

	dozing atomic.Bool   // the watchdog waits for a call
	call   chan struct{} // has room for one

	end     chan error    // what the loop ended with
	over    chan struct{} // closed then
	watched chan struct{} // closed when the watchdog has ended
}

// turnShift is where the turns begin in handoff.word.
const turnShift = 16

// begun returns how many requests of the shift were begun.
func begun(word uint64) int { return int(word & (1<<turnShift - 1)) }

// mayHandOff reports whether a handoff may run the endpoint's loop. Config.Workers is a promise
// about the goroutines that run handlers, and a handoff has one more.
func (r *Rpc) mayHandOff() bool {
	return r.jobs.pool != nil && r.cfg.Workers == 0 && !r.cfg.LockThread &&
		r.cfg.Simulation.Clock == nil
}

// runHandoff is Run by a handoff. Handlers may be at work in some of its goroutines when it
// returns.
func (r *Rpc) runHandoff(stop func() bool, enter, leave func()) error {
	y := &handoff{
		r: r, stop: stop, enter: enter, leave: leave, call: make(chan struct{}, 1),
		end: make(chan error, 1), over: make(chan struct{}), watched: make(chan struct{}),
	}
	r.jobs.paces = new(paces)
	y.start(0, nil)
	go y.watchdog()
	err := <-y.end
	close(y.over)
	<-y.watched
	return err
}

// start begins turn n in a new goroutine. The rest are requests of a shift before.
func (y *handoff) start(n uint64, rest []*job) {
	y.enter()
	go func() {
		defer y.leave()
		returned := false
		defer func() {
			if !returned {
				y.exited(n)
			}
		}()
		y.r.takeOver()
		y.r.jobs.toPool(rest)
		mine, err := y.turn(n)
		if returned = true; mine {
			y.r.unbind(0)
			y.end <- err
		}
	}()
}

// turn runs the loop. It reports false when the loop is another goroutine's.
func (y *handoff) turn(n uint64) (mine bool, err error) {
	for !y.stop() {
		work, err := y.r.RunOnce()
		if err != nil {
			return true, err
		}
		if work == 0 && y.stop() { // a timer's callback may have changed its mind
			break
		}
		if len(y.r.jobs.own) > 0 {
			if !y.shift(n) {
				return false, nil
			}
			work++ // the answers
		}
		if err = y.r.pause(work, -1); err != nil {
			return true, err
		}
	}
	return true, nil
}

// shift runs the handlers of some requests: as many as have answers for one batch of packets, so
// that the client works at these while the next ones run. It reports false when the loop is another
// goroutine's. Between the first request and the end that may be so at any time.
func (y *handoff) shift(n uint64) (mine bool) {
	jobs := &y.r.jobs
	own, rest := jobs.own, []*job(nil)
	if limit := min(y.r.txBatch, maxInShift); len(own) > limit {
		own, rest = own[:limit], own[limit:]
	}
	var types [maxInShift + 1]int // what comes after the last one is of no type
	for i, j := range own {
		types[i] = 1 + int(j.handle.Type())
	}
	y.jobs, jobs.own = own, append(y.jobs[:0], rest...)
	clear(rest)
	from := y.r.clock()
	y.began.Store(int64(from))
	y.r.bar() // a handler is not a callback, and the loop may be another goroutine's soon
	word, ran, later := n<<turnShift, 0, 0
	var took shiftTimes
	for last := from; ran < len(own) && last.Sub(from) < shiftFor; {
		if !y.word.CompareAndSwap(word, word+1) {
			return false
		}
		if word++; y.dozing.Load() && y.dozing.CompareAndSwap(true, false) {
			y.call <- struct{}{}
		}
		own[ran].Run() // the job may be used again before that returns
		if !own[ran].responded() {
			later++
		}
		took.n++
		if ran++; took.n == shiftClock || types[ran] != types[ran-1] {
			now := y.r.clock()
			took.note(types[ran-1]-1, now.Sub(last))
			last = now
		}
	}
	if !y.word.CompareAndSwap(word, n<<turnShift) {
		return false
	}
	y.r.unbar()
	y.r.engine.Handed += later // goroutines that it woke work at them
	y.settle(own[ran:], &took)
	clear(own)
	return true
}

// settle does what is to be done after a shift: it notes what handlers took, and has what is left
// run in the next shift, or by the pool if its type is slow.
func (y *handoff) settle(left []*job, took *shiftTimes) {
	jobs, now := &y.r.jobs, y.r.clock()
	for _, m := range took.all[:took.used] {
		jobs.paces.types[m.typ].note(now, m.took, m.n)
	}
	switch {
	case len(left) == 0:
	case jobs.paces.quick(left[0].work, left[0].handle.Type(), now):
		jobs.own = append(jobs.own, left...)
	default:
		jobs.toPool(left)
	}
}

// shiftTimes are the times that the handlers of a shift took: the first ones if types change often.
type shiftTimes struct {
	n    int // handlers since the last one
	used int
	all  [8]struct {
		typ  int
		n    int
		took time.Duration
	}
}

func (t *shiftTimes) note(typ int, took time.Duration) {
	if t.used < len(t.all) {
		m := &t.all[t.used]
		m.typ, m.n, m.took = typ, t.n, took
		t.used++
	}
	t.n = 0
}

// watchdog gives the loop to another goroutine when a shift takes too long.
func (y *handoff) watchdog() {
	defer close(y.watched)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var seen int64
	for quiet := 0; ; {
		select {
		case <-y.over:
			return
		case <-tick.C:
		}
		word := y.word.Load()
		began := y.began.Load() // of that shift, or later
		if quiet++; began != seen {
			seen, quiet = began, 0
		}
		if begun(word) > 0 {
			quiet = 0
			if y.r.clock().Sub(monotime.Time(began)) >= tooLong {
				y.take(word)
			}
		}
		if quiet >= dozeAfter {
			tick.Stop()
			if !y.doze(began) {
				return
			}
			tick.Reset(watchEvery)
		}
	}
}

// doze waits for a shift after the one that began then. It returns false if the loop has ended.
func (y *handoff) doze(began int64) bool {
	y.dozing.Store(true)
	if y.began.Load() != began && y.dozing.CompareAndSwap(true, false) {
		return true
	}
	select {
	case <-y.over:
		return false
	case <-y.call:
		return true
	}
}

// take gives the loop to a new goroutine if word, of a shift, has not changed.
func (y *handoff) take(word uint64) {
	n := word>>turnShift + 1
	if !y.word.CompareAndSwap(word, n<<turnShift) {
		return
	}
	at, now := begun(word), y.r.clock()
	took := now.Sub(monotime.Time(y.began.Load()))
	j := y.jobs[at-1]
	y.r.jobs.paces.stall(j.work, j.handle.Type(), now, took)
	rest := y.jobs[at:]
	y.jobs = nil
	y.start(n, rest)
}

// exited goes on with the loop after a handler has called runtime.Goexit in turn n, unless that
// has been done.
func (y *handoff) exited(n uint64) {
	switch word := y.word.Load(); {
	case word>>turnShift != n:
	case begun(word) > 0:
		y.take(word)
	default:
		y.end <- errLoopExit
	}
}
