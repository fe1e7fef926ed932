package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// Waiting says what a thread of a Processor does when it has nothing to do. The zero value sleeps
// at once.
type Waiting struct {
	// SpinFor is how long the thread looks for work, on its core, until it sleeps.
	SpinFor time.Duration
	// Yield lets a spinning thread give its core at once to one that has something to do. Without it
	// the other waits until the slice is over.
	Yield bool
}

// SpinForever is a Waiting.SpinFor without end.
const SpinForever = time.Duration(math.MaxInt64)

// ThreadStats counts what a thread did with the cores.
type ThreadStats struct {
	Busy  time.Duration // a core's time spent on work
	Spun  time.Duration // ... on looking for work
	Runs  uint64        // bursts of work
	Wakes uint64        // times that it was woken from sleep
}

type threadState uint8

const (
	isAsleep   threadState = iota
	isWaking               // until it is ready
	isReady                // waiting for a core
	isRunning              // on a core, in a burst
	isSpinning             // on a core, without anything to do
	isParked               // as isSpinning, but without a core
)

// Thread runs on a Processor: the driver of an endpoint, or a worker. It works in bursts. A
// burst happens at one moment in the simulation; it is charged time while it happens; then the
// thread has a core for as long, and what the burst did is seen by others bit by bit.
type Thread struct {
	proc  *Processor
	index uint32 // in Network.threads
	wait  Waiting
	start func() // a burst: does something, and charges for it
	work  bool   // there is something to do
	state threadState
	core  *core         // nil if it has none
	until Time          // it spins until then
	spent time.Duration // charged in this burst
	done  time.Duration // of it, how much has passed
	debt  time.Duration // charged between bursts
	steps []step        // of this burst, in order
	fired int           // steps that were made
	stats ThreadStats
}

// step is something that happens within a burst, after so much of its time.
type step struct {
	at     time.Duration
	from   *Endpoint // of a packet; else do is called
	packet uint32
	do     func()
}

func (p *Processor) newThread(w Waiting, start func()) (*Thread, error) {
	if w.SpinFor < 0 {
		return nil, fmt.Errorf("%w: SpinFor %v, must not be negative", errConfig, w.SpinFor)
	}
	n := p.net
	t := &Thread{proc: p, index: uint32(len(n.threads)), wait: w, start: start}
	n.threads = append(n.threads, t)
	return t, nil
}

// NewThread adds a thread without an endpoint, asleep. Each time that it is woken, burst is called
// when the thread has a core: it does something, and calls Network.Charge for its time.
func (p *Processor) NewThread(w Waiting, burst func()) (*Thread, error) {
	if burst == nil {
		return nil, fmt.Errorf("%w: burst is nil", errConfig)
	}
	return p.newThread(w, burst)
}

// Wake says that there is something to do. A thread that spins begins its burst at once, one
// in a burst begins another one after it, one that sleeps comes after ProcessorConfig.Wake.
func (t *Thread) Wake() { t.notify() }

// SetWaiting changes what the thread does when it has nothing to do, from its present or next
// burst on.
func (t *Thread) SetWaiting(w Waiting) error {
	if w.SpinFor < 0 {
		return fmt.Errorf("%w: SpinFor %v, must not be negative", errConfig, w.SpinFor)
	}
	t.wait = w
	return nil
}

// Asleep reports whether the thread sleeps and has not been woken.
func (t *Thread) Asleep() bool {
	return t.state == isAsleep || t.state == isParked && t.until <= t.proc.net.now
}

// Stats returns the counters as of now.
func (t *Thread) Stats() ThreadStats {
	if t.core != nil {
		t.core.settle()
	}
	return t.stats
}

// notify says that there is something to do.
func (t *Thread) notify() {
	p := t.proc
	if t.state == isParked && t.until <= p.net.now { // it has gone to sleep meanwhile
		p.unpark(t)
		t.state = isAsleep
	}
	t.work = true
	switch t.state {
	case isAsleep:
		t.state = isWaking
		t.stats.Wakes++
		p.net.push(p.net.now.Add(p.cfg.Wake), evThread, t.index)
	case isSpinning:
		t.core.settle()
		t.state = isRunning
		t.core.run()
	case isParked:
		p.unpark(t)
		p.enqueue(t)
	}
}

func (p *Processor) unpark(t *Thread) {
	p.parked = slices.Delete(p.parked, slices.Index(p.parked, t), slices.Index(p.parked, t)+1)
}

// inBurst reports whether this is called from a burst of the thread.
func (t *Thread) inBurst() bool { return t != nil && t.proc.net.running == t }

// burst does what there is to do.
func (t *Thread) burst() {
	n := t.proc.net
	t.stats.Runs++
	t.spent, t.debt, t.fired = t.debt, 0, 0
	outer := n.running
	n.running = t
	t.start()
	n.running = outer
}

// fire makes the steps whose time has come.
func (t *Thread) fire() {
	n := t.proc.net
	for t.fired < len(t.steps) && t.steps[t.fired].at <= t.done {
		s := &t.steps[t.fired]
		t.fired++
		if s.from != nil {
			s.from.unsent--
			n.launch(s.from, s.packet)
			continue
		}
		do := s.do
		s.do = nil
		do()
	}
}

// nextStep returns the time of the burst after which there is something to do: a step, or its end.
func (t *Thread) nextStep() time.Duration {
	if t.fired < len(t.steps) {
		return t.steps[t.fired].at
	}
	return t.spent
}

// end takes the thread off its processor, for good.
func (t *Thread) end() {
	n := t.proc.net
	for _, s := range t.steps[min(t.fired, len(t.steps)):] {
		if s.from != nil {
			n.pool.put(s.packet)
		}
	}
	t.steps, t.fired, t.work, t.spent, t.done = nil, 0, false, 0, 0
	switch t.state {
	case isRunning, isSpinning:
		c := t.core
		c.settle()
		t.core = nil
		c.next()
	case isReady:
		if i := slices.Index(t.proc.ready, t); i >= 0 {
			t.proc.ready = slices.Delete(t.proc.ready, i, i+1)
		}
	case isParked:
		t.proc.unpark(t)
	}
	t.state = isAsleep
}

// Charge takes d of the processor time of whatever runs at present: the driver or the worker that
// this is called from. Elsewhere it does nothing.
func (n *Network) Charge(d time.Duration) {
	switch {
	case n.running != nil:
		n.running.spent += max(d, 0)
	case n.runner != nil:
		n.runner.Charge(d)
	}
}

// Then calls f when the thread of a Processor that runs at present has had all time that it is
// charged so far; at once if none runs.
func (n *Network) Then(f func()) {
	if t := n.running; t != nil {
		t.steps = append(t.steps, step{at: t.spent, do: f})
		return
	}
	f()
}

// Workers are threads that run jobs from one queue, in order.
type Workers struct {
	net     *Network
	threads []*Thread
	queue   []func()
	limit   int
	stats   WorkersStats
}

// WorkersStats counts jobs.
type WorkersStats struct {
	Done, Refused uint64
	MaxQueue      int // most jobs that waited
}

// NewWorkers starts count workers on a processor. At most limit jobs wait; 0 is no limit.
func (p *Processor) NewWorkers(count, limit int, w Waiting) (*Workers, error) {
	if count < 1 || limit < 0 {
		return nil, fmt.Errorf("%w: %d workers and %d jobs, must be at least 1 and 0",
			errConfig, count, limit)
	}
	ws := &Workers{net: p.net, limit: limit}
	for range count {
		t, err := p.newThread(w, nil)
		if err != nil {
			return nil, err
		}
		t.start = func() { ws.take(t) }
		ws.threads = append(ws.threads, t)
	}
	return ws, nil
}

// Submit has a worker call job, once the caller's charges have passed. The job calls
// Network.Charge for its time, and Network.Then for what is to be seen by others at its end. False:
// too many jobs wait.
func (w *Workers) Submit(job func()) bool {
	if w.limit > 0 && len(w.queue) >= w.limit {
		w.stats.Refused++
		return false
	}
	w.net.Then(func() {
		w.queue = append(w.queue, job)
		w.stats.MaxQueue = max(w.stats.MaxQueue, len(w.queue))
		w.call()
	})
	return true
}

// call has the worker come that can come first.
func (w *Workers) call() {
	var best *Thread
	rank := func(t *Thread) int {
		switch {
		case t.work || t.state == isRunning || t.state == isReady || t.state == isWaking:
			return 0 // it looks for jobs when it is done
		case t.state == isAsleep:
			return 1
		case t.state == isParked:
			return 2
		}
		return 3
	}
	for _, t := range w.threads {
		if r := rank(t); r > 0 && (best == nil || r > rank(best)) {
			best = t
		}
	}
	if best != nil {
		best.notify()
		return
	}
	for _, t := range w.threads {
		t.work = true
	}
}

// take is a burst of a worker.
func (w *Workers) take(t *Thread) {
	if len(w.queue) == 0 {
		return
	}
	job := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	w.stats.Done++
	t.work = len(w.queue) > 0
	job()
}

// Stats returns what the workers did together, and the jobs.
func (w *Workers) Stats() (ThreadStats, WorkersStats) {
	var sum ThreadStats
	for _, t := range w.threads {
		s := t.Stats()
		sum.Busy += s.Busy
		sum.Spun += s.Spun
		sum.Runs += s.Runs
		sum.Wakes += s.Wakes
	}
	return sum, w.stats
}

// txLater is TxBurst within a burst of the endpoint's thread: packets leave one by one.
func (e *Endpoint) txLater(dst *node, it *transport.TxItem) {
	t := e.thread
	t.spent += e.cfg.PacketCost
	i, _ := e.net.pack(e, dst, it)
	t.steps = append(t.steps, step{at: t.spent, from: e, packet: i})
	e.unsent++
}
