package erpc

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/cpuquota"
	"github.com/userspace-rpc/erpc/internal/idle"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// A full transport is offered packets again in the next pass, after fewStalls tries, as
// long as they are no more than keepBursts times Config.Burst.
const (
	fewStalls  = 4
	keepBursts = 8
	fullFor    = time.Microsecond // until it is worth trying again
)

// If a pass found at most fewPackets, the next one sends before it receives: then latency counts,
// and there is little that could leave together with more.
const fewPackets = 4

// maxStalls is how often a full transport is offered the same packets before they
// are dropped where the batch cannot wait; go-back-N repeats them later.
const maxStalls = 64

// RunOnce makes one pass of the event loop without waiting. It returns how many
// packets and commands it handled. Errors: ErrWrongThread, ErrClosed, and those of
// a transport that has become unusable.
func (r *Rpc) RunOnce() (int, error) {
	nested, err := r.enter() // reads the clock: the one time in this pass
	if err != nil {
		return 0, err
	}
	if nested {
		return 0, ErrWrongThread // a callback must not run the loop
	}
	work, err := r.pass()
	r.owner.Store(r.rest) // all is settled
	return work, err
}

func (r *Rpc) pass() (int, error) {
	e := &r.engine
	work := 0
	gap := e.in.Now.Sub(r.polledAt)
	// If packets may have waited for a while, they are handled before commands: a call must not begin
	// in a session whose end has already come. If the loop has just looked for packets it need not do
	// so first.
	behind := gap >= slowPass
	if !behind && !r.commands.Empty() {
		work = r.drainCommands()
	}
	e.settle() // also what handlers left that responded between two passes
	e.in.Unseen = 0
	if r.polling && gap >= slowPass {
		e.in.Unseen = gap // nobody looked for packets meanwhile
		e.blind(gap)
	}
	r.polledAt = e.in.Now
	if len(e.out.Tx) > 0 && r.found <= fewPackets && !r.full {
		// Requests enqueued since the last pass do not wait for a look at the receive ring.
		if err := r.transmit(); err != nil {
			return work, err
		}
	}
	n, err := r.receive()
	if err != nil {
		return work, err
	}
	batch := r.txBatch
	if r.txCostly && r.found > 0 {
		batch = math.MaxInt
	}
	r.found = n
	if err = r.takeBurst(n, batch); err != nil {
		return work, err
	}
	if e.batches.waiting > 0 {
		e.runBatches()
	}
	if len(e.handshakes.connects) > 0 {
		e.answerConnects()
		e.settle()
	}
	e.stats.RxPackets += uint64(n)
	work += n
	if behind && !r.commands.Empty() {
		work += r.drainCommands()
		e.settle()
	}
	r.doDue()
	if len(e.out.Tx) > 0 {
		return work, r.transmit()
	}
	e.out.Reset() // drain may have sent all
	return work, nil
}

// takeBurst takes the n packets of a burst. Those that go out meanwhile leave in batches.
func (r *Rpc) takeBurst(n, batch int) (err error) {
	e := &r.engine
	for i := range r.rx[:n] {
		p, via := &r.rx[i], uint32(0)
		if e.sealing {
			if via = e.recordLayer.by[i]; via == dropped {
				continue
			}
		}
		if wire.IsBundle(p.Data) {
			if batch, err = r.unbundle(p, via, batch); err != nil {
				return err
			}
			continue
		}
		e.onPacket(p, via)
		e.settle()
		if e.out.Packets+e.batches.waiting+e.handed >= batch {
			if batch, err = r.transmitFull(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// doDue does what time asks for.
func (r *Rpc) doDue() {
	e := &r.engine
	if w := e.timers.wheel; w != nil && w.Len() > 0 {
		e.release()
		e.settle()
	}
	if e.in.Now >= e.timers.nextScan {
		r.tick()
	}
	if e.in.Now >= e.after.at {
		e.runTimers()
	}
}

// letRun yields to the goroutines that this pass has work or results for: those that find no other
// processor run on this one.
//
//go:noinline
func (r *Rpc) letRun() {
	e := &r.engine
	e.handed = 0
	if len(e.jobs.batch) > 0 {
		e.handOver()
	}
	if !r.cfg.LockThread {
		runtime.Gosched()
	}
}

// tick does what is due once per epoch.
func (r *Rpc) tick() {
	r.engine.tick()
	r.engine.settle()
	if r.engine.timers.trim {
		r.trim()
	}
	r.published.publish(r)
}

// receive takes a burst in.
func (r *Rpc) receive() (int, error) {
	r.engine.recordLayer.spare = r.engine.recordLayer.spare[:0]
	n, err := r.tr.RxBurst(r.rx)
	if err != nil {
		return 0, err
	}
	if r.hasHanded() {
		n = r.takeHanded(n)
	}
	if r.engine.recorder != nil {
		r.engine.recordRx(r.rx[:n])
	}
	if r.engine.sealing {
		r.engine.openBurst(r.rx[:n])
	}
	if r.engine.table.live >= coldSessions && (n > 1 || n == 1 && wire.IsBundle(r.rx[0].Data)) {
		r.engine.prefetch(r.rx[:n])
	}
	return n, nil
}

// transmitFull transmits a batch in the middle of a pass, after the requests that wait for batch
// handlers have run, and goroutines had their turn: so both sides work at the same time. It returns
// how many packets are a batch from now on.
func (r *Rpc) transmitFull(batch int) (int, error) {
	e := &r.engine
	if e.handed > 0 {
		r.letRun()
		r.drainCommands()
		e.settle()
	}
	if e.batches.waiting > 0 {
		if e.runBatches(); e.out.Packets < batch {
			return batch, nil // most of them are answered later
		}
	}
	if len(e.out.Tx) == 0 {
		return batch, nil
	}
	if err := r.transmit(); err != nil {
		return batch, err
	}
	if len(r.engine.out.Tx) > 0 {
		return math.MaxInt, nil // the transport is full
	}
	return batch, nil
}

// transmit gives the TX batch to the transport.
func (r *Rpc) transmit() error {
	e := &r.engine
	r.finish()
	r.lastWork = e.in.Now // an answer may come soon
	e.out.Settled()
	if e.sealing {
		e.seal(e.out.Tx)
	}
	n, err := r.tr.TxBurst(e.out.Tx)
	if err != nil {
		return err
	}
	if e.recorder != nil {
		e.recordTx(e.out.Tx[:n])
	}
	e.stats.TxPackets += uint64(n)
	left := len(e.out.Tx) - n
	if left > 0 {
		if left, err = r.insist(n); err != nil {
			return err
		}
	}
	if r.full = left > 0; r.full && left <= r.cfg.Burst*keepBursts {
		e.out.Keep(left) // for the next pass; meanwhile packets can be received
	} else {
		e.stats.TxDropped += uint64(left)
		e.out.Reset()
		left = 0
	}
	if e.sealing {
		e.recordLayer.kept(left)
	}
	return nil
}

// insist offers the batch, all but the first taken packets, to a transport that has taken only
// those. It returns how many are left.
//
//go:noinline
func (r *Rpc) insist(taken int) (int, error) {
	e, stalls := &r.engine, 0
	if taken == 0 {
		stalls = 1
	}
	for items := e.out.Tx[taken:]; len(items) > 0; {
		if stalls == fewStalls {
			return len(items), nil
		}
		n, err := r.tr.TxBurst(items)
		if err != nil {
			return 0, err
		}
		e.stats.TxPackets += uint64(n)
		if e.recorder != nil {
			e.recordTx(items[:n])
		}
		items = items[n:]
		if stalls++; n > 0 {
			stalls = 0
		}
	}
	return 0, nil
}

// slowPass is how long a pass may take until it is accounted for. Below it the difference is
// not worth rewriting headers.
const slowPass = 10_000

// finish makes the TX batch ready. The time of this pass is added to the hold times in the answers
// that leave now, since the server held the requests for it. Else slow handlers would look like
// congestion.
func (r *Rpc) finish() {
	e, late := &r.engine, time.Duration(0)
	e.leaving = e.in.Now
	if e.out.HasAnswers() {
		e.leaving = r.readClock()
		if late = e.leaving.Sub(e.in.Now); late < slowPass {
			late = 0
		}
	}
	e.out.Finish(late)
}

// drain sends the TX batch and waits until the transport refers to no buffer, also of the batches
// before: the rare, dear step that keeps zero-copy transmission safe (eRPC, section 4.2.2).
func (r *Rpc) drain() {
	e := &r.engine
	if len(e.out.Tx) > 0 {
		r.finish()
		if e.sealing {
			e.seal(e.out.Tx)
		}
		r.sendAll(e.out.Tx)
	}
	r.tr.Flush()
	e.out.Flushed()
	if e.sealing {
		e.recordLayer.kept(0)
	}
	e.stats.Flushes++
}

// sendAll offers items to the transport until it has taken all or is full.
func (r *Rpc) sendAll(items []transport.TxItem) {
	e := &r.engine
	for stalls := 0; len(items) > 0 && stalls < maxStalls; {
		n, err := r.tr.TxBurst(items)
		if err != nil {
			return // the next pass meets the same error and returns it
		}
		e.stats.TxPackets += uint64(n)
		if e.recorder != nil {
			e.recordTx(items[:n])
		}
		items = items[n:]
		if stalls++; n > 0 {
			stalls = 0
		}
	}
	e.stats.TxDropped += uint64(len(items))
}

// Run runs the event loop until stop returns true, asked once or twice per pass, or
// until the transport fails or the Rpc is closed.
func (r *Rpc) Run(stop func() bool) error {
	before, err := r.bind()
	if err != nil {
		return err
	}
	defer r.unbind(before)
	if stop() {
		return nil
	}
	defer r.lockThread()()
	for {
		work, err := r.RunOnce()
		if err != nil {
			return err
		}
		if work == 0 && stop() { // a timer's callback may have changed its mind
			return nil
		}
		if err = r.pause(work, -1); err != nil {
			return err
		}
		if stop() {
			return nil
		}
	}
}

// RunFor runs the event loop for about d.
func (r *Rpc) RunFor(d time.Duration) error {
	before, err := r.bind()
	if err != nil {
		return err
	}
	defer r.unbind(before)
	defer r.lockThread()()
	end := r.readClock().Add(d)
	for {
		work, err := r.RunOnce()
		if err != nil {
			return err
		}
		now := r.engine.in.Now
		if now >= end {
			return nil
		}
		if err = r.pause(work, end.Sub(now)); err != nil {
			return err
		}
	}
}

// NextWake returns when the loop wants to run next if no packet and no command
// comes, by the clock as it is now. Simulations use it instead of sleeping.
func (r *Rpc) NextWake() Time {
	at := r.readClock()
	if r.commands.Empty() && !r.hasHanded() {
		at = r.engine.wakeAt()
	}
	if at == monotime.Never {
		return at
	}
	return at - Time(r.shift.Load())
}

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
