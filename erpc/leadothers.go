package erpc

import "github.com/userspace-rpc/erpc/internal/monotime"

// waiter is a goroutine that runs the loop until something has come for it.
type waiter struct {
	came func() bool
	from monotime.Time
}

// enough implements leader. Who waits for long gives the loop back.
func (w *waiter) enough(now monotime.Time) bool {
	return w.came() || now.Sub(w.from) >= vacantFor
}

func (w *waiter) leaves() { w.came = nil }

// onePass is a goroutine that runs the loop for one pass.
type onePass struct{}

func (onePass) enough(monotime.Time) bool { return true }
func (onePass) leaves()                   {}

// isVacant reports whether nobody seems to run the loop.
func (r *Rpc) isVacant() bool { return r.lends.Load() && r.state.Load() == vacant }

// Do is Post, but that a caller who finds the loop vacant makes the pass itself. So it must not
// hold a lock that a callback may want.
func (l *Loop) Do(fn func(*Rpc)) error {
	r := l.rpc
	if !r.isVacant() {
		return r.Post(fn)
	}
	if !r.push(command{fn: fn}) {
		return ErrClosed
	}
	if r.state.CompareAndSwap(vacant, awake) {
		l.runFor(onePass{})
	} else if !r.pushed() {
		return ErrClosed
	}
	return nil
}

// Lead has the caller run the loop if that is vacant, until came reports, after a pass, that it
// need not wait any more; 10 ms at most. It reports false, at once, if somebody else runs the loop:
// that goes on until nobody waits. The caller must be counted by Waits, and hold no lock that a
// callback may want.
func (l *Loop) Lead(came func() bool) bool {
	r := l.rpc
	if !r.isVacant() || !r.state.CompareAndSwap(vacant, awake) {
		return false
	}
	l.lead.waiter = waiter{came, r.clock()}
	l.runFor(&l.lead.waiter)
	return true
}

// Waits counts n more goroutines, or fewer if it is negative, that wait for what callbacks do,
// beside callers of Clients. While there is one somebody runs the loop. It is safe in any
// goroutine.
func (l *Loop) Waits(n int) { l.lead.waiting.Add(int32(n)) }

// Turn says, in the loop, that something has come for a goroutine that waits for it. Alone says
// that it has come for no other one, and that the goroutine sends a message soon after each that it
// receives. Such ones may run the loop themselves, by Lead.
func (l *Loop) Turn(alone bool) {
	l.lead.turn(l.rpc.engine.Now(), alone && l.lead.waiting.Load() == 0)
}

// Unhurried says that answers to calls of Start of some types come when the server has something to
// say. Callers may run the loop beside them, and so such an answer is taken up to 10 ms late. The
// error is ErrClosed.
func (c *Client) Unhurried(types ...uint8) error {
	return c.rpc.Post(func(*Rpc) {
		for _, t := range types {
			c.unhurried[t] = true
		}
	})
}

// leadBegin counts a call that begins.
func (k *goCall) leadBegin(now monotime.Time) {
	d := &k.client.loop.lead
	if k.slow = k.done != nil && k.client.unhurried[k.typ]; k.slow {
		d.unhurried++
		return
	}
	d.begin(now, k.done == nil)
}

// leadEnd counts a call that has ended.
func (k *goCall) leadEnd(now monotime.Time) {
	d := &k.client.loop.lead
	if k.slow {
		d.unhurried--
		return
	}
	d.end(now)
}
