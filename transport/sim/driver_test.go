package sim

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// rel returns times relative to the start.
func rel(runs []Time) []time.Duration {
	out := make([]time.Duration, len(runs))
	for i, t := range runs {
		out[i] = t.Sub(StartTime)
	}
	return out
}

func wantRuns(t *testing.T, d *drainer, want ...time.Duration) {
	t.Helper()
	if got := rel(d.runs); !slices.Equal(got, want) {
		t.Errorf("ran at %v, want %v", got, want)
	}
}

// The driver runs at attachment, on arrival, at its time and when woken, not else.
func TestWhenDriversRun(t *testing.T) {
	n := newNet(t, Config{PropDelay: 50})
	a, b := pairOf(t, n)
	d := attach(t, b, nil)
	d.log = true
	n.After(1000, func() { send(t, a, b.LocalAddr(), 0, 3, 10) })
	n.After(1999, func() { d.wake = StartTime + 3000; b.Wake() })
	n.After(2500, b.Wake)
	n.After(3000, func() { d.wake = 0 })
	n.RunUntil(StartTime + 10000)
	// Three arrivals at one time: the first makes the driver run after all of
	// them, since they were scheduled before it.
	wantRuns(t, d, 0, 1100, 1999, 2500, 3000)
	n.Attach(b, nil)
	send(t, a, b.LocalAddr(), 0, 3, 10)
	b.Wake()
	n.RunUntil(StartTime + 20000)
	want(t, "runs after detachment", len(d.runs), 5)
}

// A run that leaves packets is followed by another; one that receives nothing is not.
func TestRunsUntilDrained(t *testing.T) {
	n := newNet(t, Config{})
	a, b := pairOf(t, n)
	send(t, a, b.LocalAddr(), 0, 100, 10)
	for n.Step() {
	}
	got := 0
	d := attach(t, b, func(Time, *transport.RxPacket) { got++ })
	d.log = true
	for n.Step() {
	}
	want(t, "received", got, 100)
	wantRuns(t, d, 0, 0, 0, 0)
	lazy := &blaster{a: b} // never receives
	n.Attach(b, lazy)
	send(t, a, b.LocalAddr(), 0, 5, 10)
	for n.Step() {
	}
	want(t, "runs", len(lazy.runs), 2) // attachment and arrival are one time, but two events
}

// A processor that is busy runs nothing.
func TestProcessorTime(t *testing.T) {
	n := newNet(t, Config{})
	a := open(t, n, EndpointConfig{Node: 0})
	b := open(t, n, EndpointConfig{Node: 1, RunCost: 100, PacketCost: 10})
	d := attach(t, b, func(_ Time, p *transport.RxPacket) {
		if number(p.Data) == 7 {
			b.Charge(5000)
		}
	})
	d.log = true
	n.After(1000, func() { send(t, a, b.LocalAddr(), 0, 5, 10) })
	n.After(1001, func() { send(t, a, b.LocalAddr(), 5, 2, 10) })
	n.After(1160, func() { send(t, a, b.LocalAddr(), 7, 1, 10) })
	n.After(1300, b.Wake)
	n.After(1400, func() { send(t, a, b.LocalAddr(), 8, 1, 10) })
	for n.Step() {
	}
	// 1000: 5 packets, 150 ns. 1150: 2 packets, 120 ns. 1270: packet 7, 5110 ns.
	wantRuns(t, d, 0, 1000, 1150, 1270, 6380)
}

// Time passes even if a driver always wants to run at once, and if two wake each other.
func TestTimePasses(t *testing.T) {
	n := newNet(t, Config{})
	a, b := pairOf(t, n)
	d := attach(t, a, nil)
	d.wake = 1
	d.log = true
	n.Attach(b, &waker{other: a, self: b})
	n.RunUntil(StartTime + 100)
	want(t, "time", n.Now(), StartTime+100)
	if k := len(d.runs); k < 100 || k > 202 {
		t.Errorf("%d runs in 100 ns", k)
	}
}

// waker wakes itself and another at each run.
type waker struct{ other, self *Endpoint }

func (w *waker) RunOnce()       { w.other.Wake(); w.self.Wake() }
func (w *waker) NextWake() Time { return 0 }

// A paused driver does not run; its ring fills and drops from its tail.
func TestPauseAndResume(t *testing.T) {
	n := newNet(t, Config{RxRing: 4})
	a, b := pairOf(t, n)
	var got []int
	d := attach(t, b, func(_ Time, p *transport.RxPacket) { got = append(got, number(p.Data)) })
	d.log = true
	n.RunUntil(StartTime + 10)
	b.Pause()
	b.Pause()
	send(t, a, b.LocalAddr(), 0, 6, 10)
	b.Wake()
	n.RunUntil(StartTime + 5000)
	want(t, "received while paused", len(got), 0)
	want(t, "dropped", b.Stats().RxDropped, 2)
	b.Resume()
	b.Resume()
	for n.Step() {
	}
	if !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("received %v", got)
	}
	wantRuns(t, d, 0, 5000)
}

// A driver may crash, close, pause or detach its own endpoint.
func TestEndingWithinARun(t *testing.T) {
	for name, end := range map[string]func(*Endpoint){
		"crash": (*Endpoint).Crash, "pause": (*Endpoint).Pause,
		"close":  func(e *Endpoint) { _ = e.Close() },
		"detach": func(e *Endpoint) { e.net.Attach(e, nil) },
	} {
		n := newNet(t, Config{})
		a, b := pairOf(t, n)
		d := attach(t, b, nil)
		d.log, d.wake = true, 1
		d.f = func(Time, *transport.RxPacket) { end(b) }
		send(t, a, b.LocalAddr(), 0, 3, 10)
		n.RunUntil(n.Now() + 100)
		before := len(d.runs)
		send(t, a, b.LocalAddr(), 0, 3, 10)
		n.RunUntil(n.Now() + 100)
		if len(d.runs) != before {
			t.Errorf("%s: ran afterwards", name)
		}
	}
}

// Wake and Close may come from other goroutines.
func TestForeignWakeAndClose(t *testing.T) {
	n := newNet(t, Config{})
	a, b := pairOf(t, n)
	d := attach(t, b, nil)
	d.log = true
	for n.Step() {
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				b.Wake()
				_, _ = b.LocalAddr(), b.Caps()
			}
			_ = a.Close()
		})
	}
	for range 1000 {
		n.Step()
	}
	wg.Wait()
	for n.Step() {
	}
	if len(d.runs) < 2 {
		t.Error("never woken")
	}
	if !a.gone {
		t.Error("the closed endpoint is still there")
	}
}
