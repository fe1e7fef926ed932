package sim

import (
	"fmt"
	"slices"
	"time"
)

// ProcessorConfig describes the cores of a machine. Times are virtual.
type ProcessorConfig struct {
	// Cores is how many threads can run at a time, at least 1.
	Cores int
	// Slice is how long a thread keeps its core while others wait for one. 0: until it has
	// nothing to do.
	Slice time.Duration
	// Switch is the time that a core loses when it takes up another thread than its last one.
	Switch time.Duration
	// Wake is the time from what a sleeping thread waits for until the thread is ready to run.
	Wake time.Duration
}

// Processor is a set of virtual cores that threads share. A thread that is ready gets a core that
// is idle, its last one if possible, else it waits in one queue with the others, in order.
type Processor struct {
	net    *Network
	cfg    ProcessorConfig
	cores  []*core
	ready  []*Thread // waiting for a core, with something to do
	parked []*Thread // spinning, if they had a core
}

// NewProcessor makes a processor.
func (n *Network) NewProcessor(c ProcessorConfig) (*Processor, error) {
	if c.Cores < 1 || c.Cores > 1<<16 || c.Slice < 0 || c.Switch < 0 || c.Wake < 0 {
		return nil, fmt.Errorf("%w: %+v: Cores must be 1 to 65536, no time negative", errConfig, c)
	}
	p := &Processor{net: n, cfg: c}
	for range c.Cores {
		k := &core{proc: p, index: uint32(len(n.cores)), due: Never}
		n.cores = append(n.cores, k)
		p.cores = append(p.cores, k)
	}
	return p, nil
}

// Waiting returns how many threads wait for a core and have something to do.
func (p *Processor) Waiting() int { return len(p.ready) }

// core is one virtual core.
type core struct {
	proc  *Processor
	index uint32  // in Network.cores
	now   *Thread // nil if idle
	last  *Thread // the one it had last
	since Time    // now has it since
	ref   Time    // what now has done is counted up to here
	due   Time    // of the event that counts; others are out of date
}

// enqueue gives a thread a core, or puts it in the queue.
func (p *Processor) enqueue(t *Thread) {
	t.state = isReady
	if c := p.pick(t); c != nil {
		if c.now != nil { // it spins, and yields
			c.settle()
			p.park(c.now)
			c.now = nil
		}
		c.give(t)
		return
	}
	p.ready = append(p.ready, t)
	for _, c := range p.cores { // slices count from now on
		c.arm()
	}
}

// pick returns the core that a thread gets at once, nil if there is none.
func (p *Processor) pick(t *Thread) *core {
	var idle, yields *core
	for _, c := range p.cores {
		switch {
		case c.now == nil && c.last == t:
			return c
		case c.now == nil && idle == nil:
			idle = c
		case c.now != nil && c.now.state == isSpinning && c.now.wait.Yield && yields == nil:
			yields = c
		}
	}
	if idle != nil {
		return idle
	}
	return yields
}

func (p *Processor) park(t *Thread) {
	t.state, t.core = isParked, nil
	p.parked = append(p.parked, t)
}

// give lets a thread run on an idle core.
func (c *core) give(t *Thread) {
	now := c.proc.net.now
	c.now, t.core, t.state = t, c, isRunning
	c.ref = now
	if c.last != nil && c.last != t {
		c.ref = now.Add(c.proc.cfg.Switch)
	}
	c.since, c.last = c.ref, t // a slice of less than a switch leads on too
	c.run()
}

// next gives the core to the thread that waits longest, or to one that spins.
func (c *core) next() {
	p := c.proc
	c.now = nil
	if len(p.ready) > 0 {
		t := p.ready[0]
		p.ready = slices.Delete(p.ready, 0, 1)
		c.give(t)
		return
	}
	now := p.net.now
	for len(p.parked) > 0 {
		t := p.parked[0]
		p.parked = slices.Delete(p.parked, 0, 1)
		if t.until <= now {
			t.state = isAsleep
			continue
		}
		c.now, t.core, t.state = t, c, isSpinning
		c.since, c.ref, c.last = now, now, t
		c.arm()
		return
	}
}

// settle counts what the core's thread has done so far.
func (c *core) settle() {
	t, now := c.now, c.proc.net.now
	if now <= c.ref {
		return
	}
	d := now.Sub(c.ref)
	c.ref = now
	if t.state == isSpinning {
		t.stats.Spun += d
		return
	}
	t.done += d
	t.stats.Busy += d
}

// over reports whether others wait for a core and this one's thread has had its share.
func (c *core) over() bool {
	p := c.proc
	return len(p.ready) > 0 && p.cfg.Slice > 0 && p.net.now >= c.since.Add(p.cfg.Slice)
}

// arm makes the event of the moment at which the core has something to do next.
func (c *core) arm() {
	t := c.now
	if t == nil {
		return
	}
	due := t.until
	if t.state == isRunning {
		due = c.ref.Add(t.nextStep() - t.done)
	}
	if p := c.proc; len(p.ready) > 0 && p.cfg.Slice > 0 {
		due = min(due, max(c.since.Add(p.cfg.Slice), p.net.now))
	}
	if due != c.due {
		c.due = due
		if due != Never {
			c.proc.net.push(due, evCore, c.index)
		}
	}
}

// onEvent continues at the moment that was armed.
func (c *core) onEvent() {
	if c.proc.net.now != c.due {
		return
	}
	c.due = Never
	switch t := c.now; {
	case t == nil:
	case t.state == isRunning:
		c.run()
	default:
		c.settle()
		c.idle()
	}
}

// run lets the core's thread go on: with what is left of its burst, and with further bursts until
// one takes time.
func (c *core) run() {
	t := c.now
	for {
		c.settle()
		t.fire()
		if c.now != t { // it has ended
			return
		}
		if t.done < t.spent {
			if c.over() {
				c.release()
				return
			}
			c.arm()
			return
		}
		t.spent, t.done, t.steps = 0, 0, t.steps[:0]
		switch {
		case !t.work:
			c.idle()
			return
		case c.over():
			c.release()
			return
		}
		t.work, t.until = false, 0
		t.burst()
		if c.now != t {
			return
		}
	}
}

// release takes the core away from its thread, which would go on.
func (c *core) release() {
	t := c.now
	t.core, t.state = nil, isReady
	c.proc.ready = append(c.proc.ready, t)
	c.next()
}

// idle decides what becomes of a thread that has nothing to do.
func (c *core) idle() {
	t, now := c.now, c.proc.net.now
	if t.until == 0 { // it begins to wait
		t.until = Never
		if t.wait.SpinFor != SpinForever {
			t.until = now.Add(t.wait.SpinFor)
		}
	}
	switch {
	case now >= t.until:
		t.core, t.state = nil, isAsleep
		c.next()
	case len(c.proc.ready) > 0 && t.wait.Yield:
		c.proc.park(t)
		c.next()
	case c.over():
		c.release()
	default:
		t.state = isSpinning
		c.arm()
	}
}
