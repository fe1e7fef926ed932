package erpc

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// States of a loop. Who runs it changes them; a vacant one belongs to whoever makes it awake by
// compare-and-swap.
const (
	awake  uint32 = iota
	asleep        // in the transport
	vacant        // nobody runs it
)

const (
	// A caller is alone after aloneAfter calls, each of which began at most soonAfter after the last
	// one had ended, and apartFor after the last call that began when another one was under way.
	aloneAfter = 64
	soonAfter  = 30 * time.Microsecond
	lateCall   = 8 // a call that begins later takes so many away
	// A goroutine that was woken may get its processor milliseconds later, and calls again then.
	apartFor = 20 * time.Millisecond
	// After vacantFor the Loop's goroutine sees whether calls still come.
	vacantFor = 10 * time.Millisecond
)

// lead says who runs a Loop. A caller that is alone, and calls again as soon as it has its answer,
// runs the loop itself: its call needs no other goroutine, and no switch to one and back. The
// Loop's goroutine leaves the loop vacant when there is no call. A caller that finds it so takes
// it, runs passes until its call has ended, and leaves it vacant again. It gives the loop back to
// the goroutine if other calls are under way then, if its own one lasts (see freshCalls), so that
// its context counts, and when the Loop ends. Whatever else needs the loop (Post, Wake, Close)
// recalls the goroutine from a vacant one, and wakes a caller that sleeps in the transport.
//
// While it is vacant nobody waits for packets. None is awaited then but what a peer sends by
// itself, such as that it drains. The goroutine looks for that, and for timers, at most vacantFor
// after it has left. Stats takes a vacant loop for as long as it publishes.
//
// The caller runs whole passes, callbacks too, and polls or sleeps in the transport as the
// goroutine would. Only who made the loop awake by compare-and-swap touches the Rpc, until it
// leaves the loop vacant again or gives it to the goroutine; both publish what it has done. With
// GOMAXPROCS=1 a caller that polls gives way as the goroutine does. A callback that calls
// runtime.Goexit ends the loop, and one that panics ends the process, also if its caller would
// recover.
//
// A goroutine that waits for something else than the answer to a call, such as the next message of
// a stream, does the same by Lead, and sends by Do. Whoever has the loop's callbacks bring that
// about says when (Turn), and counts those who wait (Waits): the loop is not left vacant then.
//
// All but wanted and waiting belongs to who runs the loop.
type lead struct {
	timer     *time.Timer // wakes the goroutine
	calls     int         // under way or waiting, of all Clients, but for unhurried ones
	unhurried int         // calls of Client.Unhurried types, the same
	ended     monotime.Time
	turns     uint64        // of callers
	alone     int           // calls that followed each other soon
	beside    monotime.Time // the last call that began beside another one
	until     monotime.Time // when the timer runs out
	err       error         // with which a caller has left the loop
	waiter    waiter        // of Lead

	wanted  atomic.Bool  // the goroutine wants the loop back
	waiting atomic.Int32 // goroutines; see Loop.Waits
}

// begin notes that a call begins. One that nobody waits for is Start's, whose callers do not run
// the loop.
func (d *lead) begin(now monotime.Time, waits bool) {
	switch {
	case !waits:
		d.alone = 0
	case d.calls > 0:
		d.beside, d.alone = now, 0
	case now.Sub(d.ended) > soonAfter:
		d.alone = max(d.alone-lateCall, 0)
	default:
		d.alone = min(d.alone+1, 2*aloneAfter)
	}
	d.calls++
}

// end notes that a call has ended.
func (d *lead) end(now monotime.Time) {
	d.calls--
	d.ended = now
}

// turn notes that what a goroutine asked for has come: for one that is alone, or for others too.
func (d *lead) turn(now monotime.Time, alone bool) {
	if d.ended = now; alone {
		d.alone = min(d.alone+1, 2*aloneAfter)
	} else {
		d.beside, d.alone = now, 0
	}
}

// lone reports whether callers come alone, no call is under way and nobody waits.
func (d *lead) lone() bool {
	return d.alone >= aloneAfter && d.calls == 0 && d.waiting.Load() == 0 &&
		d.ended.Sub(d.beside) >= apartFor
}

// vacate leaves the loop to the next caller, if callers come alone and nothing is due before the
// goroutine looks. It reports false if the loop goes on.
func (l *Loop) vacate() bool {
	r, d := l.rpc, &l.lead
	pushed := r.commands.Pushed()
	if !d.lone() || d.wanted.Load() || l.closed.Load() || r.commands.Len() > 0 ||
		len(r.engine.Out.Tx) > 0 || r.wakeAt() < d.until || r.engine.Opening() ||
		!r.engine.Quiet() && r.calls.used() > d.unhurried ||
		r.cfg.LockThread || r.cfg.Simulation.Clock != nil {
		return false
	}
	now := r.engine.Now()
	if r.idle.Idling() {
		r.idle.Work(now)
	}
	r.lastWork, r.polling, r.engine.Handed = now, false, 0
	r.handout.wake(false)
	r.bar()
	r.state.Store(vacant)
	// Who came before sees that the loop is vacant, or we see what it wants. What is the loop's may
	// be somebody else's by now.
	if r.commands.Pushed() != pushed || r.hasHanded() || d.wanted.Load() || l.closed.Load() ||
		d.waiting.Load() > 0 {
		r.recall()
	}
	return true
}

// recall has the goroutine run a loop that is vacant.
func (r *Rpc) recall() {
	if r.state.Load() == vacant && r.state.CompareAndSwap(vacant, awake) {
		r.back <- struct{}{}
	}
}

// leave is vacate for the Loop's goroutine. It returns when the loop is the goroutine's again, with
// the error that a caller met.
func (l *Loop) leave() (left bool, err error) {
	r, d := l.rpc, &l.lead
	if !d.lone() {
		return false, nil
	}
	now := r.engine.Now()
	d.until = min(r.wakeAt(), now.Add(vacantFor))
	span := d.until.Sub(now)
	if span < soonAfter {
		return false, nil
	}
	r.lends.Store(true)
	defer r.lends.Store(false)
	if !l.vacate() {
		return false, nil
	}
	d.timer.Reset(span)
	select {
	case <-r.back:
		d.timer.Stop()
	case <-d.timer.C:
		if d.wanted.Store(true); !r.state.CompareAndSwap(vacant, awake) {
			<-r.back
		}
		d.wanted.Store(false)
	}
	r.takeOver()
	now = r.readClock()
	r.begun.Store(int64(now))
	if now.Sub(d.ended) >= vacantFor {
		d.alone = 0
	}
	return true, d.err
}

// leader is a goroutine that runs a loop for something. Both are called in the loop.
type leader interface {
	enough(now monotime.Time) bool // after a pass: it runs no more
	leaves()                       // before the loop may be somebody else's
}

// runFor runs the loop, which was vacant and is the caller's now, until it has enough.
func (l *Loop) runFor(x leader) {
	r, left := l.rpc, false
	defer func() {
		if left {
			return
		}
		if p := recover(); p != nil { // who recovers it would go on with half a pass
			text := fmt.Sprintf("%v, in a callback of an event loop\n%s", p, debug.Stack())
			go panic(text)
			select {}
		}
		l.lead.err = errLoopExit
		r.giveBack()
	}()
	r.takeOver()
	r.begun.Store(int64(r.readClock()))
	var err error
	for !l.closed.Load() {
		var work int
		if work, err = r.RunOnce(); err != nil || x.enough(r.engine.Now()) {
			break
		}
		if err = r.pause(work, vacantFor); err != nil {
			break
		}
	}
	turns := l.lead.turns + 1
	l.lead.turns = turns
	x.leaves()
	left = true
	if err != nil || !l.vacate() {
		l.lead.err = err
		r.giveBack()
	}
	if turns%fairEvery == 0 {
		runtime.Gosched() // a caller that polls never blocks
	}
}

// enough implements leader: the call has ended, or is not fresh any more.
func (k *goCall) enough(monotime.Time) bool { return k.freshAt == nil }

func (k *goCall) leaves() {
	if k.led = k.over; k.over && len(k.ended) > 0 {
		<-k.ended // that it lasts
	}
	k.leads = false
}

// runLoop runs the loop, which was vacant and is the caller's now, until its call, which is in the
// ring, has ended or is not fresh any more. It reports whether the call has ended.
func (k *goCall) runLoop() bool {
	k.leads = true
	k.client.loop.runFor(k)
	return k.led
}

// giveBack gives the loop to the goroutine.
func (r *Rpc) giveBack() {
	r.bar()
	r.back <- struct{}{}
}
