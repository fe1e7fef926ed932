package erpc

import (
	"errors"
	"math"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
)

// Timer is a call that Rpc.AfterFunc has arranged. Like its Rpc it belongs to the loop's thread.
type Timer struct {
	rpc   *Rpc
	fn    func()
	at    monotime.Time
	seq   uint64 // of timers due at the same time the lower one runs first
	place int    // in callTimers.heap, from 1; 0 if it does not run
}

// callTimers holds the timers of an endpoint that are to run.
type callTimers struct {
	at   monotime.Time // when the first one is due, Never without one
	ran  bool          // one did, since the loop last waited
	heap []*Timer      // a binary heap
	seq  uint64        // of the timer set last
}

func newCallTimers() callTimers { return callTimers{at: monotime.Never} }

// AfterFunc calls fn once, in the loop, in the first pass that begins d or more after this one did,
// or after this call if no pass is under way. A d of zero or less means the next pass. The loop
// does not sleep past that time, and NextWake knows it. fn is a callback like a Continuation: it
// may use the Rpc, must not block, and a panic in it is not caught.
//
// A timer that its Rpc outlives costs nothing more; Close drops those that have not run. Errors:
// ErrRequest if fn is nil, ErrWrongThread, ErrClosed.
func (r *Rpc) AfterFunc(d time.Duration, fn func()) (*Timer, error) {
	if fn == nil {
		return nil, ErrRequest
	}
	t := &Timer{rpc: r, fn: fn}
	if err := t.Reset(d); err != nil {
		return nil, err
	}
	return t, nil
}

// Reset makes the timer call its function d from now, as AfterFunc does, in place of what it was to
// do before. A timer that has run or was stopped runs again; its function may call Reset, for work
// that repeats. It does not allocate once the loop has had as many timers. Errors: ErrWrongThread,
// ErrClosed.
func (t *Timer) Reset(d time.Duration) error {
	nested, err := t.rpc.enter()
	if err != nil {
		return err
	}
	e := &t.rpc.engine
	d = min(max(d, 0), time.Duration(math.MaxInt64-int64(e.in.Now)))
	e.after.set(t, e.in.Now.Add(d))
	if !nested {
		t.rpc.leave()
	}
	return nil
}

// Stop sees that the timer's function does not run any more, unless Reset is called. It is no error
// to stop a timer that has run, was stopped, or whose Rpc is closed. The error is ErrWrongThread:
// then nothing was stopped.
func (t *Timer) Stop() error {
	nested, err := t.rpc.enter()
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	t.rpc.engine.after.remove(t)
	if !nested {
		t.rpc.leave()
	}
	return nil
}

// set puts a timer in, or moves it.
func (c *callTimers) set(t *Timer, at monotime.Time) {
	c.remove(t)
	c.seq++
	t.at, t.seq = at, c.seq
	c.heap = append(c.heap, t)
	t.place = len(c.heap)
	c.up(t.place)
	c.changed()
}

// remove takes a timer out, if it is in.
func (c *callTimers) remove(t *Timer) {
	i, last := t.place, len(c.heap)
	if i == 0 {
		return
	}
	c.swap(i, last)
	c.heap[last-1] = nil
	c.heap = c.heap[:last-1]
	t.place = 0
	if i < last {
		c.down(i)
		c.up(i)
	}
	c.changed()
}

// changed follows each change of the heap.
func (c *callTimers) changed() {
	c.at = monotime.Never
	if len(c.heap) > 0 {
		c.at = c.heap[0].at
	}
	if invariants.Enabled {
		c.check()
	}
}

// less reports whether the timer at place i runs before that at place j.
func (c *callTimers) less(i, j int) bool {
	a, b := c.heap[i-1], c.heap[j-1]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (c *callTimers) swap(i, j int) {
	c.heap[i-1], c.heap[j-1] = c.heap[j-1], c.heap[i-1]
	c.heap[i-1].place, c.heap[j-1].place = i, j
}

// up moves the timer at place i before those that run later.
func (c *callTimers) up(i int) {
	for ; i > 1 && c.less(i, i/2); i /= 2 {
		c.swap(i, i/2)
	}
}

// down moves the timer at place i behind those that run earlier.
func (c *callTimers) down(i int) {
	for {
		first := i
		for child := 2 * i; child <= min(2*i+1, len(c.heap)); child++ {
			if c.less(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		c.swap(i, first)
		i = first
	}
}

// check panics if a timer is not in its place.
func (c *callTimers) check() {
	for i, t := range c.heap {
		if t.place != i+1 || i > 0 && c.less(i+1, (i+1)/2) {
			panic("erpc: a timer is not in its place")
		}
	}
}

// runTimers calls the functions that are due. Timers that are set meanwhile wait for the next pass.
//
//go:noinline
func (e *engine) runTimers() {
	c, now, last := &e.after, e.in.Now, e.after.seq
	for len(c.heap) > 0 && c.heap[0].at <= now && c.heap[0].seq <= last {
		t := c.heap[0]
		c.remove(t)
		c.ran = true
		t.fn()
		e.settle()
	}
}

// nextCall returns when the loop is to wake up for timers. Loops sleep for an hour, or without end.
func (e *engine) nextCall() monotime.Time {
	if len(e.after.heap) == 0 {
		return monotime.Never
	}
	return min(e.after.at, e.in.Now.Add(time.Hour))
}
