package sim

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

const us = time.Microsecond

func cores(tb testing.TB, n *Network, c ProcessorConfig) *Processor {
	tb.Helper()
	p, err := n.NewProcessor(c)
	must(tb, err)
	return p
}

func workers(tb testing.TB, p *Processor, count, limit int, w Waiting) *Workers {
	tb.Helper()
	ws, err := p.NewWorkers(count, limit, w)
	must(tb, err)
	return ws
}

// job returns a job that takes d, and notes when it has ended.
func job(n *Network, d time.Duration, ended *[]time.Duration) func() {
	return func() {
		n.Charge(d)
		n.Then(func() { *ended = append(*ended, n.Now().Sub(StartTime)) })
	}
}

func wantTimes(tb testing.TB, what string, got []time.Duration, want ...time.Duration) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("%s: %v, want %v", what, got, want)
	}
}

// echo returns a driver's function that takes d for each packet and sends it back.
func echo(tb testing.TB, e *Endpoint, d time.Duration) func(Time, *transport.RxPacket) {
	return func(_ Time, p *transport.RxPacket) {
		e.net.Charge(d)
		send(tb, e, p.From, number(p.Data), 1, len(p.Data))
	}
}

// A packet leaves when its thread has had the time that it was charged before.
func TestPacketsLeaveInTheirTurn(t *testing.T) {
	n := newNet(t, Config{PropDelay: 1 * us})
	p := cores(t, n, ProcessorConfig{Cores: 1})
	a := open(t, n, EndpointConfig{Node: 0})
	b := open(t, n, EndpointConfig{Node: 1, Processor: p, RunCost: 100, PacketCost: 10})
	attach(t, b, echo(t, b, 5*us))
	var at []time.Duration
	attach(t, a, func(now Time, _ *transport.RxPacket) { at = append(at, now.Sub(StartTime)) })
	n.After(10*us, func() { send(t, a, b.LocalAddr(), 0, 2, 10) })
	n.RunUntil(StartTime.Add(time.Second))
	// There 2 us; the run 100, two packets 20; then 5 us and 10 ns for each answer; back 2 us.
	wantTimes(t, "answers", at, 19130, 24140)
	want(t, "busy", b.Thread().Stats().Busy, 100+100+20+2*(5*us+10))
}

// Now, Charge, Then and After in a burst follow what is charged.
func TestTimeInABurst(t *testing.T) {
	n := newNet(t, Config{})
	p := cores(t, n, ProcessorConfig{Cores: 1})
	b := open(t, n, EndpointConfig{Processor: p})
	var at []time.Duration
	note := func() { at = append(at, n.Now().Sub(StartTime)) }
	n.Attach(b, runner(func() {
		n.Charge(3 * us)
		note()
		n.After(1*us, note)
		n.Charge(-5 * us)
		n.Then(note)
		b.Charge(2 * us)
		n.Then(note)
		note()
	}))
	n.RunUntil(StartTime.Add(time.Second))
	wantTimes(t, "noted", at, 3*us, 5*us, 3*us, 4*us, 5*us)
	b.Charge(7 * us) // between bursts: the next one pays
	b.Wake()
	n.RunUntil(n.Now().Add(time.Second))
	want(t, "busy", b.Thread().Stats().Busy, 5*us+7*us+5*us)
}

// runner is a driver that runs when woken.
type runner func()

func (f runner) RunOnce()     { f() }
func (runner) NextWake() Time { return Never }

// Workers run jobs in order, as many at a time as there are cores.
func TestWorkers(t *testing.T) {
	for count, want := range map[int][]time.Duration{
		1: {10 * us, 20 * us, 30 * us, 40 * us},
		2: {10 * us, 10 * us, 20 * us, 20 * us},
		9: {10 * us, 10 * us, 10 * us, 20 * us}, // there are three cores
	} {
		n := newNet(t, Config{})
		ws := workers(t, cores(t, n, ProcessorConfig{Cores: 3}), count, 0, Waiting{})
		var ended []time.Duration
		for range 4 {
			ws.Submit(job(n, 10*us, &ended))
		}
		n.RunUntil(StartTime.Add(time.Second))
		wantTimes(t, "ended", ended, want...)
		threads, jobs := ws.Stats()
		if threads.Busy != 40*us || jobs.Done != 4 {
			t.Errorf("%+v %+v", threads, jobs)
		}
	}
}

// The queue is bounded, and what a burst submits comes when its time has passed.
func TestSubmit(t *testing.T) {
	n := newNet(t, Config{})
	p := cores(t, n, ProcessorConfig{Cores: 2})
	ws := workers(t, p, 1, 1, Waiting{})
	var ended []time.Duration
	b := open(t, n, EndpointConfig{Processor: p})
	n.Attach(b, runner(func() {
		n.Charge(5 * us)
		ws.Submit(job(n, 10*us, &ended))
	}))
	n.RunUntil(StartTime.Add(time.Second))
	wantTimes(t, "ended", ended, 15*us)
	for range 3 { // one runs, one waits
		ws.Submit(job(n, 10*us, &ended))
		n.RunUntil(n.Now().Add(1))
	}
	_, jobs := ws.Stats()
	want(t, "refused", jobs.Refused, 1)
	want(t, "waited", jobs.MaxQueue, 1)
}

// A thread that waits gets the core when its owner's slice is over; what the owner did counts.
func TestSlices(t *testing.T) {
	run := func(slice time.Duration) (jobs, packets []time.Duration) {
		n := newNet(t, Config{})
		p := cores(t, n, ProcessorConfig{Cores: 1, Slice: slice, Switch: 1 * us})
		ws := workers(t, p, 1, 0, Waiting{})
		a := open(t, n, EndpointConfig{Node: 0})
		b := open(t, n, EndpointConfig{Node: 1, Processor: p})
		attach(t, b, echo(t, b, 2*us))
		attach(t, a, func(now Time, _ *transport.RxPacket) {
			packets = append(packets, now.Sub(StartTime))
		})
		n.RunUntil(StartTime.Add(10))
		n.now = StartTime.Add(100 * us)
		ws.Submit(job(n, 50*us, &jobs)) // begins at 101: another thread had the core
		n.After(15*us, func() { send(t, a, b.LocalAddr(), 0, 1, 10) })
		n.RunUntil(StartTime.Add(time.Second))
		return jobs, packets
	}
	jobs, packets := run(0)
	wantTimes(t, "job, no slices", jobs, 151*us)
	wantTimes(t, "packet, no slices", packets, 154*us)
	jobs, packets = run(20 * us) // the core is the packet's from 121 to 124
	wantTimes(t, "job", jobs, 121*us+3*us+1*us+30*us)
	wantTimes(t, "packet", packets, 124*us)
	jobs, packets = run(5 * us) // the slice was over when the packet came
	wantTimes(t, "job, short slices", jobs, 115*us+3*us+1*us+36*us)
	wantTimes(t, "packet, short slices", packets, 118*us)
}

// A sleeping thread needs to be woken; one that spins is there at once, until it sleeps too.
func TestWaiting(t *testing.T) {
	for spin, want := range map[time.Duration][]time.Duration{
		0: {17 * us, 107 * us}, 30 * us: {12 * us, 107 * us}, SpinForever: {12 * us, 102 * us},
	} {
		n := newNet(t, Config{})
		p := cores(t, n, ProcessorConfig{Cores: 1, Wake: 5 * us})
		a := open(t, n, EndpointConfig{Node: 0})
		b := open(t, n, EndpointConfig{Node: 1, Processor: p, Wait: Waiting{SpinFor: spin}})
		attach(t, b, echo(t, b, 2*us))
		var at []time.Duration
		attach(t, a, func(now Time, _ *transport.RxPacket) { at = append(at, now.Sub(StartTime)) })
		for _, d := range []time.Duration{10 * us, 100 * us} {
			n.After(d, func() { send(t, a, b.LocalAddr(), 0, 1, 10) })
		}
		n.RunUntil(StartTime.Add(200 * us))
		wantTimes(t, spin.String(), at, want...)
		s := b.Thread().Stats()
		spun := map[time.Duration]time.Duration{0: 0, 30 * us: 65 * us, SpinForever: 191 * us}
		if s.Busy != 4*us || s.Spun != spun[spin] {
			t.Errorf("spin %v: %+v, want %v spun", spin, s, spun[spin])
		}
	}
}

// A thread that spins keeps the core from others until its slice is over, unless it yields.
func TestSpinningBesideWork(t *testing.T) {
	for _, c := range []struct {
		yield     bool
		job, spun time.Duration
	}{{true, 110 * us, 100 * us}, {false, 130 * us, 100 * us}} {
		n := newNet(t, Config{})
		p := cores(t, n, ProcessorConfig{Cores: 1, Slice: 120 * us})
		ws := workers(t, p, 1, 0, Waiting{})
		b := open(t, n, EndpointConfig{Processor: p, Wait: Waiting{SpinFor: SpinForever, Yield: c.yield}})
		attach(t, b, nil)
		n.RunUntil(StartTime.Add(100 * us))
		var ended []time.Duration
		ws.Submit(job(n, 10*us, &ended))
		want(t, "spun", b.Thread().Stats().Spun, c.spun)
		n.RunUntil(StartTime.Add(time.Second))
		wantTimes(t, "ended", ended, c.job)
		threads, _ := ws.Stats()
		want(t, "a core's time", threads.Busy+b.Thread().Stats().Spun, time.Second)
	}
}

// Threads that spin without yielding share the cores in slices, whether they work or not.
func TestSpinnersShare(t *testing.T) {
	n := newNet(t, Config{})
	p := cores(t, n, ProcessorConfig{Cores: 2, Slice: 10 * us})
	w := Waiting{SpinFor: SpinForever}
	var all []*Thread
	for i := range 4 {
		b := open(t, n, EndpointConfig{Node: i, Processor: p, Wait: w})
		attach(t, b, nil)
		all = append(all, b.Thread())
	}
	n.RunUntil(StartTime.Add(1000 * us))
	for i, th := range all {
		if s := th.Stats().Spun; s < 480*us || s > 520*us {
			t.Errorf("thread %d spun for %v, want half of 1 ms", i, s)
		}
	}
}

// An endpoint that ends within a burst takes its packets with it, and leaves its core.
func TestCrashInABurst(t *testing.T) {
	for name, end := range map[string]func(*Endpoint){
		"crash": (*Endpoint).Crash, "close": func(e *Endpoint) { _ = e.Close() },
	} {
		n := newNet(t, Config{})
		p := cores(t, n, ProcessorConfig{Cores: 1})
		a := open(t, n, EndpointConfig{Node: 0})
		b := open(t, n, EndpointConfig{Node: 1, Processor: p})
		ws := workers(t, p, 1, 0, Waiting{})
		got := 0
		attach(t, a, func(Time, *transport.RxPacket) { got++ })
		attach(t, b, echo(t, b, 5*us))
		send(t, a, b.LocalAddr(), 0, 3, 10)
		var ended []time.Duration
		n.After(2*us, func() { ws.Submit(job(n, us, &ended)) })
		n.After(7*us, func() { end(b); end(b) })
		n.RunUntil(StartTime.Add(time.Second))
		want(t, name+": answers", got, 1)
		wantTimes(t, name, ended, 8*us)
		// ... and within its own burst.
		b = open(t, n, EndpointConfig{Node: 1, Processor: p})
		attach(t, b, func(_ Time, p *transport.RxPacket) {
			echo(t, b, 5*us)(0, p)
			end(b)
		})
		send(t, a, b.LocalAddr(), 0, 1, 10)
		n.RunUntil(n.Now().Add(time.Second))
		ws.Submit(job(n, us, &ended))
		n.RunUntil(n.Now().Add(time.Second))
		want(t, name+": answers", got, 1)
		want(t, name+": jobs", len(ended), 2)
	}
}

// Random loads: nothing is lost, cores do no more than they can, and a seed decides all.
func TestProcessorSeeds(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		if a, b := randomLoad(t, seed), randomLoad(t, seed); a != b {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}

func randomLoad(t *testing.T, seed uint64) uint64 {
	n := newNet(t, Config{Seed: seed, PropDelay: us})
	r := n.Rand()
	below := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	waiting := func() Waiting {
		return Waiting{[]time.Duration{0, below(20 * us), SpinForever}[r.IntN(3)], r.IntN(2) == 0}
	}
	p := cores(t, n, ProcessorConfig{Cores: 1 + r.IntN(3), Slice: 1 + below(50*us),
		Switch: below(2 * us), Wake: below(5 * us)})
	ws := workers(t, p, 1+r.IntN(3), 0, waiting())
	a := open(t, n, EndpointConfig{Node: 0})
	var charged time.Duration
	sent, got, jobs := 0, 0, 0
	attach(t, a, func(Time, *transport.RxPacket) { got++ })
	var threads []*Thread
	for range 1 + r.IntN(4) {
		b := open(t, n, EndpointConfig{Node: 1, Processor: p, Wait: waiting()})
		threads = append(threads, b.Thread())
		attach(t, b, func(_ Time, x *transport.RxPacket) {
			d := below(20 * us)
			charged += d
			echo(t, b, d)(0, x)
			if r.IntN(4) == 0 {
				d := below(100 * us)
				charged += d
				jobs++
				ws.Submit(func() { n.Charge(d); n.Then(b.Wake) })
			}
		})
		for range 50 {
			sent++
			n.After(below(time.Millisecond), func() { send(t, a, b.LocalAddr(), 0, 1, 10) })
		}
	}
	n.RunUntil(StartTime.Add(time.Second))
	sum, done := ws.Stats()
	for _, th := range threads {
		s := th.Stats()
		sum.Busy += s.Busy
		sum.Spun += s.Spun
	}
	if got != sent || done.Done != uint64(jobs) || sum.Busy != charged {
		t.Errorf("seed %d: %d of %d packets, %d of %d jobs, busy %v of %v", seed, got, sent, done.Done,
			jobs, sum.Busy, charged)
	}
	if most := time.Duration(p.cfg.Cores) * time.Second; sum.Busy+sum.Spun > most {
		t.Errorf("seed %d: %v of %v", seed, sum.Busy+sum.Spun, most)
	}
	if p.Waiting() > 0 && !slices.ContainsFunc(p.ready, func(t *Thread) bool { return !t.work }) {
		t.Errorf("seed %d: work is left", seed)
	}
	return mix(n.TraceHash(), uint64(sum.Spun))
}

func TestBadProcessors(t *testing.T) {
	n, m := newNet(t, Config{}), newNet(t, Config{})
	for _, c := range []ProcessorConfig{{}, {Cores: -1}, {Cores: 1, Slice: -1}, {Cores: 1, Switch: -1},
		{Cores: 1, Wake: -1}, {Cores: 1 << 20}} {
		if _, err := n.NewProcessor(c); !errors.Is(err, errConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	p := cores(t, n, ProcessorConfig{Cores: 1})
	for _, f := range []func() error{
		func() error { _, err := p.NewWorkers(0, 0, Waiting{}); return err },
		func() error { _, err := p.NewWorkers(1, -1, Waiting{}); return err },
		func() error { _, err := p.NewWorkers(1, 0, Waiting{SpinFor: -1}); return err },
		func() error { _, err := m.NewEndpoint(EndpointConfig{Processor: p}); return err },
		func() error {
			_, err := n.NewEndpoint(EndpointConfig{Processor: p, Wait: Waiting{SpinFor: -1}})
			return err
		},
	} {
		if err := f(); !errors.Is(err, errConfig) {
			t.Errorf("%v", err)
		}
	}
	n.Charge(time.Second) // nobody runs
	want(t, "time", n.Now(), StartTime)
}

// TestOwnThread: a thread without an endpoint wakes late, goes on at once while it spins, and
// changes how it waits.
func TestOwnThread(t *testing.T) {
	n := newNet(t, Config{})
	p := cores(t, n, ProcessorConfig{Cores: 1, Wake: 5 * us})
	var at []time.Duration
	th, err := p.NewThread(Waiting{SpinFor: 20 * us}, func() {
		at = append(at, n.Now().Sub(StartTime))
		n.Charge(10 * us)
	})
	if err != nil || !th.Asleep() {
		t.Fatal(err, th.Asleep())
	}
	th.Wake()                // 5 to 15 us, spins until 35
	n.After(20*us, th.Wake)  // 20 to 30, spins until 50
	n.After(25*us, th.Wake)  // 30 to 40, spins until 60
	n.After(100*us, th.Wake) // 105 to 115
	n.After(110*us, func() { _ = th.SetWaiting(Waiting{}) })
	n.After(120*us, th.Wake) // 125
	n.After(58*us, func() {
		if th.Asleep() {
			t.Error("asleep before its time")
		}
	})
	n.After(61*us, func() {
		if !th.Asleep() {
			t.Error("awake after its time")
		}
	})
	n.RunUntil(StartTime.Add(time.Millisecond))
	wantTimes(t, "bursts", at, 5*us, 20*us, 30*us, 105*us, 125*us)
	if st := th.Stats(); st.Busy != 50*us || st.Spun != 25*us || st.Wakes != 3 {
		t.Errorf("%+v", st)
	}
	if th.SetWaiting(Waiting{SpinFor: -1}) == nil {
		t.Error("a negative time to spin is taken")
	}
	if _, err := p.NewThread(Waiting{}, nil); err == nil {
		t.Error("a thread without a burst is made")
	}
}
