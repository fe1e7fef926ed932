package waitlab

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/idle"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// server is a thread that serves connections.
type server struct {
	l     *lab
	th    *sim.Thread
	conns []*conn
	sweep time.Duration // of a turn
	calls time.Duration // to the system, in the turn after a sleep
	wakes uint64        // up to the last turn
	told  bool          // an eventfd of it was written to, since its last turn
}

// add makes a thread and lets it begin.
func (l *lab) add(w sim.Waiting, burst func()) (*sim.Thread, error) {
	t, err := l.proc.NewThread(w, burst)
	if err != nil {
		return nil, err
	}
	l.threads = append(l.threads, t)
	t.Wake()
	return t, nil
}

// server returns number i of n servers that share the connections, without a thread.
func (l *lab) server(i, n int) *server {
	s := &server{l: l}
	for k := i; k < len(l.conns); k += n {
		s.conns = append(s.conns, l.conns[k])
	}
	s.sweep = time.Duration(len(s.conns)) * l.Costs.Ring
	return s
}

// servers shares the connections out to n threads.
func (l *lab) servers(n int, w sim.Waiting) (list []*server, err error) {
	for i := range n {
		s := l.server(i, n)
		if s.th, err = l.add(w, func() { s.turn() }); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// build makes the threads of the mode.
func (l *lab) build() error {
	switch l.Mode {
	case BP:
		return l.buildSpinning(l.Conns, 0)
	case BPTS:
		return l.buildSpinning(l.Costs.Cores, l.Costs.Look)
	case EVENT:
		return l.buildEvent()
	case BPEV:
		return l.buildBPEV()
	}
	return l.buildAdaptive()
}

func (l *lab) buildSpinning(n int, look time.Duration) error {
	list, err := l.servers(n, sim.Waiting{SpinFor: sim.SpinForever})
	for _, s := range list {
		s.sweep += look
		for _, c := range s.conns {
			c.arrive = s.th.Wake
		}
	}
	return err
}

func (l *lab) buildEvent() error {
	list, err := l.servers(l.Costs.Cores, sim.Waiting{})
	for _, s := range list {
		s.calls = l.Costs.Look + 2*l.Costs.Read // the event, and asking for the next one
		for _, c := range s.conns {
			c.arrive = func() { c.interrupt(s.th) }
		}
	}
	return err
}

// turn serves what is in the rings. It reports whether there was anything.
func (s *server) turn() bool {
	slept := false
	if st := s.th.Stats(); st.Wakes != s.wakes {
		slept, s.wakes = s.wakes > 0, st.Wakes
	}
	s.told = false
	if slept {
		s.l.net.Charge(s.calls)
	}
	found := false
	for _, c := range s.conns {
		if !c.full {
			continue
		}
		if !found {
			s.l.net.Charge(s.sweep)
		}
		found, c.full = true, false
		s.l.net.Charge(s.l.Work.Service)
		c.answer(c.number)
	}
	return found
}

// poller is a thread of BPEV that looks at the rings of all connections of some workers.
type poller struct {
	l     *lab
	th    *sim.Thread
	conns []*conn
	of    map[*conn]*server
	sweep time.Duration
}

func (l *lab) buildBPEV() error {
	n := max(1, l.Costs.Cores-l.Pollers)
	workers, err := l.servers(n, sim.Waiting{SpinFor: max(0, l.SpinFor)})
	if err != nil {
		return err
	}
	w := sim.Waiting{SpinFor: l.PollersSpin}
	if l.PollersSpin < 0 {
		w.SpinFor = sim.SpinForever
	}
	var pollers []*poller
	for range l.Pollers {
		p := &poller{l: l, of: map[*conn]*server{}}
		if p.th, err = l.add(w, p.turn); err != nil {
			return err
		}
		pollers = append(pollers, p)
	}
	for i, s := range workers {
		s.calls = l.Costs.Look + l.Costs.Read
		for k, c := range s.conns {
			p := pollers[(k*n+i)%len(pollers)]
			p.conns = append(p.conns, c)
			p.of[c] = s
			p.sweep += l.Costs.Ring
			c.arrive = func() { l.arriveBPEV(c, s, p) }
		}
	}
	return nil
}

// arriveBPEV: the worker sees a request if it is awake, and the poller if it is.
func (l *lab) arriveBPEV(c *conn, s *server, p *poller) {
	if !s.th.Asleep() {
		s.th.Wake()
	}
	if p.th.Asleep() {
		c.interrupt(p.th)
		return
	}
	p.th.Wake()
}

// turn writes to the eventfds of workers that sleep and have not been told.
func (p *poller) turn() {
	p.l.net.Charge(p.sweep)
	for _, c := range p.conns {
		if s := p.of[c]; c.full && !s.told && s.th.Asleep() {
			s.told = true
			p.l.net.Charge(p.l.Costs.Write)
			p.l.net.Then(s.th.Wake)
		}
	}
}

// loop is a server that waits as package idle says.
type loop struct {
	*server
	policy idle.Policy
	last   sim.Time // work
	slept  bool
	timer  uint64 // the one that counts
}

const (
	// A pass that finds nothing takes pass; a system call to yield, yielding.
	pass     = 100 * ns
	yielding = 300 * ns // package idle says so
	// Config.SpinFor of package erpc has this default.
	spinFor = 200 * us
)

func (l *lab) buildAdaptive() error {
	for i := range l.Costs.Cores {
		o := &loop{server: l.server(i, l.Costs.Cores), last: l.net.Now()}
		o.policy.Init(idle.Config{Mode: idle.Adaptive, SpinFor: spinFor, Locked: true})
		o.calls = l.Costs.Look + 2*l.Costs.Read
		var err error
		if o.th, err = l.add(sim.Waiting{}, o.turn); err != nil {
			return err
		}
		for _, c := range o.conns {
			c.arrive = func() {
				if o.th.Asleep() {
					c.interrupt(o.th)
					return
				}
				o.th.Wake()
			}
		}
	}
	return nil
}

// turn is a pass of the event loop, as erpc's Rpc makes it: work, or a step of the policy.
func (o *loop) turn() {
	now := o.l.net.Now()
	o.timer++
	if o.slept {
		o.policy.Slept(now)
		o.slept = false
	}
	if o.server.turn() {
		if o.policy.Idling() {
			o.policy.Work(now)
		}
		o.th.Wake() // one more pass
		return
	}
	if !o.policy.Idling() {
		o.last = now
	}
	if o.policy.Polls(now) {
		o.spin(now, pass, false)
		return
	}
	switch o.policy.Idle(now, o.last, idle.State{Spare: 0}) {
	case idle.Sleep:
		o.slept = true
		o.wait(sim.Waiting{})
	case idle.Yield:
		o.spin(now, yielding, true)
	default:
		o.spin(now, pass, false)
	}
}

// spin keeps the core until the next pass, d from now. Passes that would find nothing and decide
// nothing are skipped: the policy is asked for each of them whether it is one.
func (o *loop) spin(now sim.Time, d time.Duration, yield bool) {
	at := now.Add(d)
	for !yield && o.policy.Polls(at) {
		at = at.Add(pass)
	}
	o.wait(sim.Waiting{SpinFor: sim.SpinForever, Yield: yield})
	mine := o.timer
	o.l.net.After(at.Sub(now), func() {
		if o.timer == mine {
			o.th.Wake()
		}
	})
}

func (o *loop) wait(w sim.Waiting) {
	if err := o.th.SetWaiting(w); err != nil && o.l.failure == nil {
		o.l.failure = err
	}
}
