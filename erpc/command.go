package erpc

import (
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// command is something that another goroutine wants done in the Rpc's thread. One
// field is set.
type command struct {
	job *job       // a background handler has responded
	fn  func(*Rpc) // Post
	c   *goCall    // Client.Call: start, or cancel if it has been started
}

// post hands c to the loop and wakes it. It waits while the ring is full. It
// returns false if the Rpc is closed.
func (r *Rpc) post(c command) bool {
	for !r.commands.Push(c) {
		if r.closed.Load() {
			r.late.tidy(r, c.job)
			return false
		}
		r.Wake()
		runtime.Gosched()
	}
	r.wakeIfSleeping()
	if r.closed.Load() {
		r.late.tidy(r, nil)
		return false
	}
	return true
}

func (r *Rpc) wakeIfSleeping() {
	if r.sleeping.Load() && r.wokenFor.CompareAndSwap(false, true) {
		r.tr.Wake()
	}
}

// Post runs fn in the Rpc's thread, in the next pass of its loop. It is safe in any
// goroutine. It returns ErrClosed if the Rpc is closed.
func (r *Rpc) Post(fn func(*Rpc)) error {
	if r.closed.Load() || !r.post(command{fn: fn}) {
		return ErrClosed
	}
	return nil
}

// GiveWay says that a callback has woken other goroutines, which will have something for the loop:
// it lets them run before it looks for packets again. It is for callbacks and Dispatch handlers.
func (r *Rpc) GiveWay() { r.engine.handed++ }

// Wake makes a sleeping loop run a pass. It is safe in any goroutine.
func (r *Rpc) Wake() { r.tr.Wake() }

// start begins a request for a command. The request carries the deadline, 0 for none; the caller
// cancels the request then.
func (r *Rpc) start(s *Session, q *Request, deadline monotime.Time) (RequestID, error) {
	e := &r.engine
	e.calls.until = deadline
	id, err := e.start(s, q)
	e.calls.until = 0
	return id, err
}

// cancel ends a request for a command, when that is over.
func (r *Rpc) cancel(id RequestID) { r.engine.cancel(id, ErrCancelled) }

// dial starts to open a session for a command, and gives up after limit.
func (r *Rpc) dial(to transport.Addr, host string, limit time.Duration) (*Session, error) {
	return r.engine.dial(to, host, limit)
}

// drop ends a session for a command.
func (r *Rpc) drop(s *Session) { r.engine.closeSession(s) }

// setAlarm has fn called in the loop when the time has come; nil takes that back.
func (r *Rpc) setAlarm(at monotime.Time, fn func()) { r.engine.setAlarm(at, fn) }

// drainCommands runs the commands that have come, at most a ring full, so that
// commands that cause commands do not keep packets waiting.
func (r *Rpc) drainCommands() int {
	n := 0
	for limit := r.commands.Cap(); n < limit; n++ {
		c, ok := r.commands.Pop()
		if !ok {
			break
		}
		switch {
		case c.job != nil:
			r.engine.finishJob(c.job)
		case c.c != nil:
			c.c.onLoop(r)
		default:
			c.fn(r)
		}
	}
	return n
}
