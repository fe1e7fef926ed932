package erpc

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/cpuquota"
	"github.com/userspace-rpc/erpc/internal/idle"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/racesync"
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
	gap := e.Now().Sub(r.polledAt)
	// If packets may have waited for a while, they are handled before commands: a call must not begin
	// in a session whose end has already come. If the loop has just looked for packets it need not do
	// so first.
	behind := gap >= slowPass
	if !behind && !r.commands.Empty() {
		work = r.drainCommands()
	}
	r.settle() // also what handlers left that responded between two passes
	e.SetUnseen(0)
	if r.polling && gap >= slowPass {
		e.SetUnseen(gap) // nobody looked for packets meanwhile
		r.blind(gap)
	}
	r.polledAt = e.Now()
	if len(e.Out.Tx) > 0 && r.found <= fewPackets && !r.full {
		// Requests enqueued since the last pass do not wait for a look at the receive ring.
		if err := r.transmit(); err != nil {
			return work, err
		}
	}
	n, err := r.receive()
	if err != nil {
		return work, err
	}
	switch {
	case n == 0:
		r.emptyAt = e.Now()
	case gap < longGap:
		r.bursts.inTime++
	case r.bursts.oftenLate():
		r.lookBack()
	}
	batch := r.txBatch
	if r.txCostly && r.found > 0 {
		batch = math.MaxInt
	}
	r.found = n
	if err = r.takeBurst(n, batch); err != nil {
		return work, err
	}
	if r.batches.waiting > 0 {
		r.runBatches()
	}
	if e.HasConnects() {
		e.AnswerConnects()
		r.settle()
	}
	r.stats.RxPackets += uint64(n)
	work += n
	if behind && !r.commands.Empty() {
		work += r.drainCommands()
		r.settle()
	}
	r.doDue()
	if e.Out.Hungry() {
		e.Out.Feed(e.Now())
		r.settle()
	}
	if len(e.Out.Tx) > 0 {
		return work, r.transmit()
	}
	e.Out.Reset() // drain may have sent all
	return work, nil
}

const (
	// longGap is how long after the last look at the transport packets may have waited so long that
	// it is worth asking. Congestion controls take less for none.
	longGap = 50 * time.Microsecond
	// maxWaited bounds what packets can have waited, as the real-time clock has it, which may be set.
	maxWaited = time.Second
)

// burstTimes counts bursts by whether the loop was away for longGap before them. Older ones count
// less.
type burstTimes struct{ inTime, late uint32 }

// oftenLate counts a late burst, and returns whether such are so common that it is worth the cost
// of stamps to know for how long their packets have waited: some, and one in eight.
func (b *burstTimes) oftenLate() bool {
	b.late++
	if b.inTime+b.late >= 1024 {
		b.inTime, b.late = b.inTime/2, b.late/2
	}
	return b.late >= 4 && b.late > b.inTime/8
}

// lookBack finds out for how long the packets of a burst have waited, if the transport knows: this
// loop may have slept, and got no processor when they came, or have been busy with those before.
// That is the host's time, and no queue of the network.
func (r *Rpc) lookBack() {
	e := &r.engine
	waited := r.tr.Waited()
	if waited == 0 {
		return
	}
	waited = min(waited, maxWaited) - r.readClock().Sub(e.Now()) // until this pass began
	e.SetUnseen(max(e.Unseen(), min(waited, e.Now().Sub(r.emptyAt))))
}

// takeBurst takes the n packets of a burst. Those that go out meanwhile leave in batches.
func (r *Rpc) takeBurst(n, batch int) (err error) {
	e := &r.engine
	rx := r.rx[:n]
	for i := range rx {
		p, via := &rx[i], uint32(0)
		if e.Sealing() {
			var ok bool
			if via, ok = e.OpenedBy(i); !ok {
				continue
			}
		}
		if wire.IsBundle(p.Data) {
			if batch, err = r.unbundle(p, via, batch); err != nil {
				return err
			}
			continue
		}
		e.OnPacket(p, via)
		r.settle()
		if e.Out.Packets+r.batches.waiting+e.Handed >= batch {
			if batch, err = r.transmitFull(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// unbundle takes the packets of a bundle, one after the other.
func (r *Rpc) unbundle(p *transport.RxPacket, via uint32, batch int) (int, error) {
	var b engine.Bundle
	e := &r.engine
	if !e.OpenBundle(&b, p, via) {
		return batch, nil
	}
	r.found-- // the datagram was counted
	for e.OnBundled(&b) {
		r.found++
		r.settle()
		if e.Out.Packets+r.batches.waiting+e.Handed >= batch {
			var err error
			if batch, err = r.transmitFull(batch); err != nil {
				return batch, err
			}
		}
	}
	return batch, nil
}

// doDue does what time asks for.
func (r *Rpc) doDue() {
	e := &r.engine
	if e.Paced() > 0 {
		e.Release()
		r.settle()
	}
	if e.Now() >= e.NextScan() {
		r.tick()
	} else if e.Now() >= e.NextLook() {
		e.Look()
		r.settle()
	}
	if e.Now() >= r.after.at {
		r.runTimers()
	}
}

// letRun yields to the goroutines that this pass has work or results for: those that find no other
// processor run on this one.
//
//go:noinline
func (r *Rpc) letRun() {
	e := &r.engine
	e.Handed = 0
	if len(r.jobs.batch) > 0 {
		r.handOverJobs()
	}
	r.handOut()
}

// tick does what is due once per epoch.
func (r *Rpc) tick() {
	r.begun.Store(int64(r.engine.Now()))
	r.expire()
	r.engine.Handed += r.fresh.epoch()
	r.checkIdle()
	r.ring()
	r.engine.Tick()
	r.settle()
	if r.engine.Scarce() {
		r.trim()
	}
	if r.meter != nil {
		r.meter.refresh(r.engine.Now())
	}
	r.published.publish(r)
}

// idleWatch waits until no handler has run for a while.
type idleWatch struct {
	span  time.Duration
	since monotime.Time // since when no handler runs; 0 if one does
	fn    func()        // nil if nobody waits
}

// whenIdle calls fn once, in a tick, when no handler has run for a span of time.
func (r *Rpc) whenIdle(span time.Duration, fn func()) {
	r.idleWatch = idleWatch{span: span, fn: fn}
	r.engine.ScanNow()
}

func (r *Rpc) checkIdle() {
	w := &r.idleWatch
	switch {
	case w.fn == nil:
	case r.running() > 0 || r.engine.Late() > 0:
		w.since = 0
	case w.since == 0:
		w.since = r.engine.Now()
	case r.engine.Now().Sub(w.since) >= w.span || r.engine.Live() == 0:
		fn := w.fn
		w.fn = nil
		fn()
	}
}

// alarm is a call that is due at some time.
type alarm struct {
	at monotime.Time
	fn func() // nil if there is none
}

// setAlarm makes the first tick at or after a time call fn, once, in place of what it was to
// call before. nil takes that back.
func (r *Rpc) setAlarm(at monotime.Time, fn func()) { r.alarm = alarm{at, fn} }

// ring calls the alarm's function if that is due.
func (r *Rpc) ring() {
	if fn := r.alarm.fn; fn != nil && r.engine.Now() >= r.alarm.at {
		r.alarm.fn = nil
		fn()
	}
}

// wakeAt returns when the loop wants to run next.
func (r *Rpc) wakeAt() monotime.Time {
	e := &r.engine
	if len(e.Out.Tx) > 0 {
		return e.Now().Add(fullFor)
	}
	if len(r.jobs.batch) > 0 {
		return e.Now()
	}
	wake := min(e.WakeAt(), r.nextCall())
	if !r.fresh.empty() || r.idleWatch.fn != nil {
		wake = min(wake, e.NextScan())
	}
	if r.calls.deadlines > 0 {
		wake = min(wake, max(r.calls.soonest, e.NextScan()))
	}
	if r.alarm.fn != nil {
		wake = min(wake, max(r.alarm.at, e.NextScan()))
	}
	return wake
}

// receive takes a burst in.
func (r *Rpc) receive() (int, error) {
	r.engine.Recycle()
	n, err := r.tr.RxBurst(r.rx)
	if err != nil {
		return 0, err
	}
	racesync.Receive()
	if r.hasHanded() {
		n = r.takeHanded(n)
	}
	if r.recorder != nil {
		r.recordRx(r.rx[:n])
	}
	if r.engine.Sealing() {
		r.engine.OpenBurst(r.rx[:n])
	}
	if r.engine.Cold() && (n > 1 || n == 1 && wire.IsBundle(r.rx[0].Data)) {
		r.engine.Prefetch(r.rx[:n])
	}
	return n, nil
}

// transmitFull transmits a batch in the middle of a pass, after the requests that wait for batch
// handlers have run, and goroutines had their turn: so both sides work at the same time. It returns
// how many packets are a batch from now on.
func (r *Rpc) transmitFull(batch int) (int, error) {
	e := &r.engine
	if e.Handed > 0 {
		r.letRun()
		r.drainCommands()
		r.settle()
	}
	if r.batches.waiting > 0 {
		if r.runBatches(); e.Out.Packets < batch {
			return batch, nil // most of them are answered later
		}
	}
	if len(e.Out.Tx) == 0 {
		return batch, nil
	}
	if err := r.transmit(); err != nil {
		return batch, err
	}
	if len(r.engine.Out.Tx) > 0 {
		return math.MaxInt, nil // the transport is full
	}
	return batch, nil
}

// burst offers packets to the transport, and returns how many it took.
func (r *Rpc) burst(items []transport.TxItem) (int, error) {
	racesync.Send()
	return r.tr.TxBurst(items)
}

// transmit gives the TX batch to the transport.
func (r *Rpc) transmit() error {
	e := &r.engine
	r.finish()
	r.lastWork = e.Now() // an answer may come soon
	e.Out.Settled()
	if e.Sealing() {
		e.Seal(e.Out.Tx)
	}
	n, err := r.burst(e.Out.Tx)
	if err != nil {
		return err
	}
	if r.recorder != nil {
		r.recordTx(e.Out.Tx[:n])
	}
	r.stats.TxPackets += uint64(n)
	left := len(e.Out.Tx) - n
	if left > 0 {
		if left, err = r.insist(n); err != nil {
			return err
		}
	}
	if r.full = left > 0; r.full && left <= r.cfg.Burst*keepBursts {
		e.Out.Keep(left) // for the next pass; meanwhile packets can be received
	} else {
		r.stats.TxDropped += uint64(left)
		e.Out.Reset()
		left = 0
	}
	if e.Sealing() {
		e.Kept(left)
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
	for items := e.Out.Tx[taken:]; len(items) > 0; {
		if stalls == fewStalls {
			return len(items), nil
		}
		n, err := r.burst(items)
		if err != nil {
			return 0, err
		}
		r.stats.TxPackets += uint64(n)
		if r.recorder != nil {
			r.recordTx(items[:n])
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
	r.leaving = e.Now()
	if e.Out.HasAnswers() {
		r.leaving = r.readClock()
		if late = r.leaving.Sub(e.Now()); late < slowPass {
			late = 0
		}
	}
	if r.meter != nil {
		r.meter.answers.leave(r.leaving)
	}
	e.Out.Finish(late)
}

// drain sends the TX batch and waits until the transport refers to no buffer, also of the batches
// before: the rare, dear step that keeps zero-copy transmission safe (eRPC, section 4.2.2).
func (r *Rpc) drain() {
	e := &r.engine
	if len(e.Out.Tx) > 0 {
		r.finish()
		if e.Sealing() {
			e.Seal(e.Out.Tx)
		}
		r.sendAll(e.Out.Tx)
	}
	r.tr.Flush()
	e.Out.Flushed()
	if e.Sealing() {
		e.Kept(0)
	}
	r.stats.Flushes++
}

// sendAll offers items to the transport until it has taken all or is full.
func (r *Rpc) sendAll(items []transport.TxItem) {
	for stalls := 0; len(items) > 0 && stalls < maxStalls; {
		n, err := r.burst(items)
		if err != nil {
			return // the next pass meets the same error and returns it
		}
		r.stats.TxPackets += uint64(n)
		if r.recorder != nil {
			r.recordTx(items[:n])
		}
		items = items[n:]
		if stalls++; n > 0 {
			stalls = 0
		}
	}
	r.stats.TxDropped += uint64(len(items))
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
		now := r.engine.Now()
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
		at = r.wakeAt()
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
	now := r.engine.Now()
	r.polling = true
	if work > 0 || r.after.ran || r.engine.Handed > 0 {
		r.after.ran = false
		if r.idle.Idling() {
			r.idle.Work(now)
		}
		r.lastWork = now
		if r.engine.Handed > 0 {
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
	if r.jobs.pool != nil && r.jobs.running > 0 {
		r.jobs.pool.letRun()
		return
	}
	runtime.Gosched()
}

// idleState returns the state of the loop on which its way to wait depends.
func (r *Rpc) idleState() idle.State {
	running := r.jobs.running > 0
	return idle.State{
		Awaiting: running || len(r.engine.Active()) > 0,
		Handlers: running,
		Spare:    r.procs - loops.Load(),
		Calls:    r.stats.RequestsServed + r.stats.Completed,
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

// yieldEvery is after what time a loop that is about to sleep lets other goroutines run. The Go
// runtime takes the processor of a goroutine that has run for 10 ms without a switch away at each
// of its system calls, and to see that its monitor wakes up every 20 us.
const yieldEvery = 8 * time.Millisecond

// sleep blocks until a packet, a command or a timer comes.
func (r *Rpc) sleep(limit time.Duration) error {
	if r.waiting == 0 {
		if r.waiting = r.tr.Hints(r.heard); r.waiting > 0 {
			r.engine.ScanNow() // the next pass acts on them
			return nil
		}
	}
	if now := r.engine.Now(); now.Sub(r.yieldedAt) >= yieldEvery && !r.cfg.LockThread {
		r.yieldedAt = now
		runtime.Gosched()
	}
	timeout := r.wakeAt().Sub(r.engine.Now())
	if limit >= 0 {
		timeout = min(timeout, limit)
	}
	if timeout <= 0 {
		return nil
	}
	r.polling = false
	r.state.Store(asleep)
	var err error
	// A producer that pushed before sees that it is asleep, or we see its item.
	if r.commands.Empty() && !r.hasHanded() {
		if r.publishedLongAgo(timeout) {
			r.published.publish(r)
		}
		err = r.block(timeout)
	}
	now := r.readClock()
	r.begun.Store(int64(now)) // before it is awake, see stuckFor
	r.state.Store(awake)
	r.wokenFor.Store(false)
	r.idle.Slept(now) // one pass, then sleep again if nothing came
	return err
}

// publishedLongAgo reports whether others would see old counters while the loop sleeps for a time:
// longer than an epoch, or ten if a tick has just published them.
func (r *Rpc) publishedLongAgo(sleep time.Duration) bool {
	epoch := r.cfg.Timing.RTOMin / 4
	return sleep > 10*epoch || sleep > epoch && r.engine.Now().Sub(r.publishedAt) >= epoch
}

// stuckAfter is how long a loop that is awake may take to begin another pass, beside the epoch
// after which it says that it does.
const stuckAfter = time.Millisecond

// stuckFor returns for how long a loop that somebody runs has begun no pass though it is awake,
// since a callback keeps it or it gets no processor; 0 if that is not long. It is safe in any
// goroutine.
func (r *Rpc) stuckFor() time.Duration {
	if r.state.Load() != awake {
		return 0
	}
	since := r.clock().Sub(monotime.Time(r.begun.Load()))
	if since <= r.cfg.Timing.RTOMin/4+stuckAfter {
		return 0
	}
	return since
}

// napFor is how long answers to pings are left alone, so that they are taken together: each wake-up
// of the loop costs more than they do. Peers on a local network have answered by then.
const napFor = 10 * time.Millisecond

// block waits in the transport.
func (r *Rpc) block(timeout time.Duration) error {
	if r.engine.MayNap() {
		if err := r.tr.Nap(min(napFor, timeout)); err != transport.ErrUnsupported {
			return err
		}
	}
	if timeout > time.Hour {
		timeout = -1
	}
	return r.tr.Wait(timeout)
}
