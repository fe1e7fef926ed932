package erpc

import "github.com/userspace-rpc/erpc/internal/gid"

// Rpc.owner is 0 if any goroutine may enter, a goroutine that is inside, or one of these.
const (
	// Added to a goroutine, whose number is even: it runs the loop, and is outside. Nobody else may
	// enter.
	outside uintptr = 1
	// Nobody may enter.
	barred uintptr = 2
)

// enter makes sure that the caller may use the Rpc: nobody is inside nor runs the loop, or the
// caller itself does. It is nested if it is inside; leave must not be called then.
func (r *Rpc) enter() (nested bool, err error) {
	g := gid.Current()
	if o := r.owner.Load(); o == g && gid.Exact {
		return true, nil
	} else if o == g|outside && gid.Exact {
		r.owner.Store(g)
	} else if !r.owner.CompareAndSwap(0, g) {
		if !gid.Exact { // the goroutine cannot be told apart: a callback is the likely caller
			return true, nil
		}
		return false, ErrWrongThread
	}
	if r.closed.Load() {
		r.owner.Store(r.rest)
		return false, ErrClosed
	}
	r.engine.in.Now = r.readClock()
	if len(r.engine.jobs.batch) > 0 {
		r.engine.handOver() // of the last pass, after which there is always another one
	}
	return false, nil
}

// leave settles what the caller has caused, and lets others in.
func (r *Rpc) leave() {
	r.engine.settle()
	r.owner.Store(r.rest)
}

// bind makes the caller the one that runs the loop, until unbind. It returns what unbind needs.
func (r *Rpc) bind() (before uintptr, err error) {
	if !gid.Exact {
		return 0, nil
	}
	me := gid.Current() | outside
	if r.owner.Load() == me {
		return me, nil // inside stop of another Run
	}
	if !r.owner.CompareAndSwap(0, me) {
		return 0, ErrWrongThread // also a callback's, which must not run the loop
	}
	r.rest = me
	return 0, nil
}

// unbind undoes bind, in the same goroutine. If a callback has ended that, the Rpc stays as it is.
func (r *Rpc) unbind(before uintptr) {
	if gid.Exact && r.owner.Load() == gid.Current()|outside {
		r.rest = before
		r.owner.Store(before)
	}
}

// bar keeps everybody out, the one that runs the loop too, until that calls unbar or another
// goroutine takes the loop over.
func (r *Rpc) bar() {
	if gid.Exact {
		r.owner.Store(barred)
	}
}

// unbar undoes bar.
func (r *Rpc) unbar() { r.owner.Store(r.rest) }

// takeOver makes the caller the one that runs the loop, which nobody does or which is barred.
func (r *Rpc) takeOver() {
	r.rest = 0
	if gid.Exact {
		r.rest = gid.Current() | outside
	}
	r.owner.Store(r.rest)
}
