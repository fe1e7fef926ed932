package erpc

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/cpuquota"
	"github.com/userspace-rpc/erpc/internal/idle"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/transport"
)

// pause waits as the configuration says after a pass that did work things, at most
// for limit (negative: no limit). A timer of the application that ran ends a spell as work does:
// what it has sent is answered after a time of its own.
func (r *Rpc) pause(work int, limit time.Duration) error {
	now := r.engine.in.Now
	r.polling = true
	if work > 0 || r.engine.after.ran {
		r.engine.after.ran = false
		if r.idle.Idling() {
			r.idle.Work(now)
		}
		r.lastWork = now
		if r.engine.handed > 0 {
			if nested, err := r.enter(); err == nil && !nested {
				r.letRun()
				r.leave()
			}
		}
		return nil
	}
	if r.idle.Polls(now) {
		return nil
	}
	return r.wait(now, limit)
}

// wait does the next step of a spell without work.
func (r *Rpc) wait(now monotime.Time, limit time.Duration) error {
	if !r.idle.Idling() {
		r.lastWork = now // the pass with the last work began before its handlers
	}
	switch r.idle.Idle(now, r.lastWork, r.idleState()) {
	case idle.Yield:
		r.lookAtQuota(now)
		sys.Yield()
	case idle.Switch:
		r.lookAtQuota(now)
		r.switchOver()
	case idle.Sleep:
		return r.sleep(limit)
	}
	return nil
}

// switchOver lets other goroutines run.
func (r *Rpc) switchOver() {
	if e := &r.engine; e.jobs.pool != nil && e.jobs.running > 0 {
		e.jobs.pool.letRun()
		return
	}
	runtime.Gosched()
}

// idleState returns the state of the loop on which its way to wait depends.
func (r *Rpc) idleState() idle.State {
	running := r.engine.jobs.running > 0
	return idle.State{
		Awaiting: running || len(r.engine.timers.active) > 0,
		Handlers: running,
		Spare:    r.procs - loops.Load(),
		Calls:    r.engine.stats.RequestsServed + r.engine.stats.Completed,
	}
}

// quota watches the CPU quota of the process, for all loops.
var quota = cpuquota.New()

// lookAtQuota tells the policy if the process has used up its quota since the last time. Only
// loops that spin look: the others use no more than their work takes.
func (r *Rpc) lookAtQuota(now monotime.Time) {
	if n := r.quota.Throttled(now); n != r.throttled {
		r.throttled = n
		r.idle.Throttled(now)
	}
}

// loops counts the endpoints of the process.
var loops atomic.Int64

// lockThread locks the caller to its thread if the configuration says so, and
// returns what undoes it.
func (r *Rpc) lockThread() func() {
	if !r.cfg.LockThread {
		return func() {}
	}
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// sleep blocks until a packet, a command or a timer comes.
func (r *Rpc) sleep(limit time.Duration) error {
	if r.waiting == 0 {
		if r.waiting = r.tr.Hints(r.heard); r.waiting > 0 {
			r.engine.timers.nextScan = r.engine.in.Now // the next pass acts on them
			return nil
		}
	}
	timeout := r.engine.wakeAt().Sub(r.engine.in.Now)
	if limit >= 0 {
		timeout = min(timeout, limit)
	}
	if timeout <= 0 {
		return nil
	}
	r.polling = false
	r.sleeping.Store(true)
	var err error
	// A producer that pushed before sees sleeping, or we see its item.
	if r.commands.Empty() && !r.hasHanded() {
		r.published.publish(r)
		err = r.block(timeout)
	}
	r.sleeping.Store(false)
	r.wokenFor.Store(false)
	r.idle.Slept(r.readClock()) // one pass, then sleep again if nothing came
	return err
}

// napFor is how long answers to pings are left alone, so that they are taken together: each wake-up
// of the loop costs more than they do. Peers on a local network have answered by then.
const napFor = 10 * time.Millisecond

// block waits in the transport.
func (r *Rpc) block(timeout time.Duration) error {
	if r.engine.mayNap() {
		if err := r.tr.Nap(min(napFor, timeout)); err != transport.ErrUnsupported {
			return err
		}
	}
	if timeout > time.Hour {
		timeout = -1
	}
	return r.tr.Wait(timeout)
}
