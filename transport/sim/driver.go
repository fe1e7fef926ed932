package sim

import "time"

// Driver owns an endpoint and makes it work, such as the event loop of
// an RPC endpoint.
type Driver interface {
	// RunOnce does one round of work: receive, process, send, without waiting.
	// Time stands still during it.
	RunOnce()
	// NextWake is asked after each RunOnce and returns the virtual time at which
	// the driver wants to run even if nothing arrives, or Never. A time that is not
	// in the future means one nanosecond from now, or when the processor is free; a
	// driver that polls pays for it in events.
	NextWake() Time
}

// Attach makes the network run d, at once and then whenever packets have arrived
// for e, the time that d named has come, Wake was called, or room is in the
// output queue after TxBurst took less than all. A run that received packets and
// left some is followed by another. Nil detaches.
func (n *Network) Attach(e *Endpoint, d Driver) {
	n.runs.remove(e)
	e.driver = nil
	if d != nil && !e.closed.Load() {
		e.driver = d
		e.wantRun(n.now)
	}
}

// Charge takes d of the endpoint's processor time, from the end of what is charged
// already: its driver runs no earlier than that. A handler that takes time calls it.
func (e *Endpoint) Charge(d time.Duration) {
	if t := e.thread; t.inBurst() {
		t.spent += max(d, 0)
		return
	} else if t != nil {
		t.debt += max(d, 0)
		return
	}
	e.busy = max(e.busy, e.net.now).Add(max(d, 0))
	if e.runPos >= 0 && e.runAt < e.busy {
		e.net.runs.set(e, e.busy, e.net.newSeq())
	}
}

// Pause stops the driver, as SIGSTOP stops a process: packets arrive until the
// receive ring is full.
func (e *Endpoint) Pause() {
	if e.paused || e.closed.Load() {
		return
	}
	e.paused = true
	e.net.runs.remove(e)
	e.net.noteEndpoint(trPause, e)
}

// Resume lets the driver run again, at once.
func (e *Endpoint) Resume() {
	if !e.paused || e.closed.Load() {
		return
	}
	e.paused = false
	e.net.noteEndpoint(trResume, e)
	e.wantRun(e.net.now)
}

// Crash ends the endpoint as a machine that dies would: the packets in its ring
// and those on their way to it vanish, those it sent go on. Every later call
// returns transport.ErrClosed. NewEndpoint may bind the address again.
func (e *Endpoint) Crash() {
	if e.gone {
		return
	}
	e.closed.Store(true)
	e.node.binds[e.addr.Port].crashID = e.net.lastID
	e.vanish(trCrash)
}

// wantRun makes the driver run at time t, or as soon after as it can, unless it
// runs earlier anyway.
func (e *Endpoint) wantRun(t Time) {
	if e.driver == nil || e.paused || e.closed.Load() {
		return
	}
	t = max(t, e.busy, e.net.now)
	if e.runPos >= 0 && e.runAt <= t {
		return
	}
	e.net.runs.set(e, t, e.net.newSeq())
}

// noteWakes takes note of calls of Wake and Close.
func (n *Network) noteWakes() {
	n.awake.Store(false)
	for i := len(n.endpoints) - 1; i >= 0; i-- { // backwards: vanish removes
		e := n.endpoints[i]
		if e.closed.Load() {
			e.vanish(trClose)
		} else if e.driver != nil && e.woken.Swap(false) {
			// Later than its last run, or two drivers that wake each other would
			// stop the time.
			e.wantRun(max(n.now, e.lastRun.Add(time.Nanosecond)))
		}
	}
}

// run lets the driver run, or its thread.
func (e *Endpoint) run() {
	n := e.net
	n.runs.remove(e)
	if e.thread != nil {
		e.thread.notify()
		return
	}
	outer := n.runner
	n.runner = e
	rx, tx := e.stats.RxPackets, e.stats.TxPackets
	received := e.pass()
	n.runner = outer
	rx, tx = e.stats.RxPackets-rx, e.stats.TxPackets-tx
	if cost := e.cfg.RunCost + e.cfg.PacketCost*time.Duration(rx+tx); cost > 0 {
		e.Charge(cost)
	}
	e.runAgain(received)
}

// drive is a burst of the endpoint's thread.
func (e *Endpoint) drive() {
	if e.driver == nil || e.paused || e.closed.Load() {
		return
	}
	e.thread.spent += e.cfg.RunCost
	e.runAgain(e.pass())
}

// pass lets the driver run, and reports whether it received packets.
func (e *Endpoint) pass() bool {
	e.net.noteEndpoint(trRun, e)
	e.lastRun = e.net.now
	e.stalled = false
	rx := e.stats.RxPackets
	e.driver.RunOnce()
	return e.stats.RxPackets > rx
}

// runAgain finds out when the driver is to run again.
func (e *Endpoint) runAgain(received bool) {
	n, d := e.net, e.driver
	if e.closed.Load() || e.driver == nil {
		return
	}
	if received && e.ring.length > 0 {
		e.wantRun(n.now)
	}
	if e.stalled && e.txFull() {
		nic := &e.node.nic
		e.wantRun(nic.queue[nic.head].at)
	}
	if t := d.NextWake(); t != Never {
		e.wantRun(max(t, n.now.Add(time.Nanosecond)))
	}
}
