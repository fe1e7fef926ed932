package waitlab

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/transport/sim"
)

// Mode is a way of waiting.
type Mode uint8

// The modes, as package waitlab describes them.
const (
	BP Mode = iota
	BPTS
	EVENT
	BPEV
	Adaptive
	modes
)

var names = [modes]string{"BP", "BPTS", "EVENT", "BPEV", "adaptive"}

func (m Mode) String() string {
	if m >= modes {
		return fmt.Sprintf("Mode(%d)", m)
	}
	return names[m]
}

// Modes returns all of them.
func Modes() []Mode { return []Mode{BP, BPTS, EVENT, BPEV, Adaptive} }

// Run describes one run.
type Run struct {
	Mode  Mode
	Conns int
	Pause time.Duration // of a client, after an answer
	Costs Costs
	Work  Work
	// SpinFor is how long a worker of BPEV spins; default: a round trip and an eighth. Negative:
	// not at all.
	SpinFor time.Duration
	Pollers int // of BPEV; default 2, at most half of the cores, at least 1
	// PollersSpin is how long pollers spin without news; default DefaultPollersSpin, negative: for
	// ever, as in the paper.
	PollersSpin time.Duration
	Warm, Span  time.Duration // virtual time before anything counts, and that counts
	Seed        uint64
}

// DefaultPollersSpin is longer than any pause of the paper's clients.
const DefaultPollersSpin = time.Millisecond

// Result has the measurements of a run.
type Result struct {
	Rate     float64       // calls per second
	P50, P99 time.Duration // of a call, at the client; 0 without calls
	CPU      float64       // cores in use at the server, at work or spinning
	Spun     float64       // ... of them spinning
	Idle     float64       // cores in use when no client has called for a while
	Wakes    float64       // of sleeping threads, per call
}

// ErrRun is matched by errors about a Run.
var ErrRun = errors.New("waitlab: bad run")

func (r *Run) check() error {
	switch {
	case r.Mode >= modes:
		return fmt.Errorf("%w: %v", ErrRun, r.Mode)
	case r.Conns < 1 || r.Conns > 1<<14:
		return fmt.Errorf("%w: %d connections", ErrRun, r.Conns)
	case r.Costs.Cores < 1 || r.Work.Wire < 0 || r.Work.Service < 0 || r.Work.Client < 0:
		return fmt.Errorf("%w: %d cores, calls of %+v", ErrRun, r.Costs.Cores, r.Work)
	case r.Pause < 0 || r.Span <= 0 || r.Warm < 0 || r.Pollers < 0:
		return fmt.Errorf("%w: pause %v, span %v after %v, %d pollers", ErrRun, r.Pause, r.Span,
			r.Warm, r.Pollers)
	}
	if r.SpinFor == 0 {
		r.SpinFor = r.Work.RoundTrip() * 9 / 8
	}
	if r.Pollers == 0 {
		r.Pollers = max(1, min(2, r.Costs.Cores/2))
	}
	if r.PollersSpin == 0 {
		r.PollersSpin = DefaultPollersSpin
	}
	return nil
}

// lab is a run under way.
type lab struct {
	Run
	net     *sim.Network
	proc    *sim.Processor
	conns   []*conn
	threads []*sim.Thread
	// free is when the core that handles interrupts has no more of them; irq is its time so far.
	free    sim.Time
	irq     time.Duration
	stop    bool // clients send no more
	counts  bool
	took    []time.Duration
	failure error
}

// conn is a connection: its receive ring at the server, and its client.
type conn struct {
	l      *lab
	full   bool     // a request is in the ring
	sent   sim.Time // it was
	number uint64   // of the request under way; an answer repeats it
	raised bool     // an interrupt is
	arrive func()   // tells the server
}

// Simulate carries a run out.
func Simulate(r Run) (res Result, err error) {
	if err := r.check(); err != nil {
		return res, err
	}
	l := &lab{Run: r}
	if l.net, err = sim.New(sim.Config{Seed: r.Seed}); err != nil {
		return res, err
	}
	threads := map[Mode]int{BP: r.Conns}[r.Mode]
	l.proc, err = l.net.NewProcessor(sim.ProcessorConfig{Cores: r.Costs.Cores,
		Slice: r.Costs.slice(threads), Switch: r.Costs.Switch, Wake: r.Costs.Wake})
	if err != nil {
		return res, err
	}
	for range r.Conns {
		l.conns = append(l.conns, &conn{l: l})
	}
	if err := l.build(); err != nil {
		return res, err
	}
	for _, c := range l.conns {
		first := r.Work.RoundTrip() + r.Pause
		l.net.After(time.Duration(l.net.Rand().Int64N(int64(first)+1)), c.send)
	}
	return l.measure()
}

func (l *lab) measure() (res Result, err error) {
	l.run(l.Warm)
	before := l.totals()
	l.counts = true
	l.run(l.Span)
	after := l.totals()
	l.counts, l.stop = false, true
	l.run(100 * ms) // the last answers, and then some
	quiet := l.totals()
	l.run(100 * ms)
	end := l.totals()
	n, span := float64(len(l.took)), l.Span.Seconds()
	res = Result{Rate: n / span, CPU: (after.used() - before.used()).Seconds() / span,
		Spun: (after.Spun - before.Spun).Seconds() / span,
		Idle: (end.used() - quiet.used()).Seconds() / .1}
	if n > 0 {
		slices.Sort(l.took)
		at := func(q float64) time.Duration { return l.took[int(math.Ceil(q*n))-1] }
		res.P50, res.P99 = at(.5), at(.99)
		res.Wakes = float64(after.Wakes-before.Wakes) / n
	}
	return res, l.failure
}

func (l *lab) run(d time.Duration) { l.net.RunUntil(l.net.Now().Add(d)) }

type totals struct {
	sim.ThreadStats
	irq time.Duration
}

func (t *totals) used() time.Duration { return t.Busy + t.Spun + t.irq }

func (l *lab) totals() (sum totals) {
	for _, t := range l.threads {
		s := t.Stats()
		sum.Busy += s.Busy
		sum.Spun += s.Spun
		sum.Wakes += s.Wakes
	}
	sum.irq = l.irq
	return sum
}

// send is the client's request. Its time begins here; the client's own part of it comes at the
// end.
func (c *conn) send() {
	l := c.l
	if l.stop {
		return
	}
	c.number++
	c.sent = l.net.Now()
	l.net.After(l.Work.Wire, func() {
		c.full = true
		c.arrive()
	})
}

// answer sends an answer once what the calling thread is charged has passed.
func (c *conn) answer(number uint64) {
	l := c.l
	l.net.Then(func() { l.net.After(l.Work.Wire+l.Work.Client, func() { c.done(number) }) })
}

// done is the end of a call at the client.
func (c *conn) done(number uint64) {
	l := c.l
	if number != c.number && l.failure == nil {
		l.failure = fmt.Errorf("waitlab: answer %d to request %d", number, c.number)
	}
	if l.counts {
		l.took = append(l.took, l.net.Now().Sub(c.sent))
	}
	l.net.After(l.Pause, c.send)
}

// interrupt wakes a thread by way of the core that handles interrupts. A connection has one at a
// time: until it is handled, further requests raise none.
func (c *conn) interrupt(t *sim.Thread) {
	if c.raised {
		return
	}
	c.raised = true
	l := c.l
	now := l.net.Now()
	l.free = max(l.free, now).Add(l.Costs.Interrupt)
	l.net.After(l.free.Sub(now), func() {
		l.irq += l.Costs.Interrupt
		c.raised = false
		t.Wake()
	})
}
