package monotime

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// machine has a counter that can be tampered with, and a system's clock that is right.
type machine struct {
	count  uint64
	real   Time
	perUs  uint64 // ticks
	usable bool
	asked  int // whether it is usable
	c      *counter
}

func newMachine() *machine {
	m := &machine{count: 1 << 50, real: 1, perUs: 2500, usable: true}
	m.c = newCounter(func() uint64 { return m.count }, func() Time { return m.real },
		func() bool { m.asked++; return m.usable })
	return m
}

// pass lets time pass, in whole microseconds.
func (m *machine) pass(d time.Duration) {
	m.real = m.real.Add(d)
	m.count += uint64(d/time.Microsecond) * m.perUs
}

// used tells whether the time is the counter's.
func (c *counter) used() bool {
	s, _ := c.get()
	return s.span != 0
}

// start lets the counter be used.
func (m *machine) start(t *testing.T) {
	t.Helper()
	m.pass(warmUp + time.Millisecond)
	m.c.now()
	if !m.c.used() {
		t.Fatal("the counter is not used")
	}
}

// tampers are what becomes of counters.
var tampers = map[string]func(m *machine){
	"reset":          func(m *machine) { m.count = 0 },
	"set back":       func(m *machine) { m.count -= 2500 * 40_000 },
	"far ahead":      func(m *machine) { m.count += 1 << 45 },
	"ahead":          func(m *machine) { m.count += 2500 * 15_000 },
	"a little ahead": func(m *machine) { m.count += 2500 * 6_000 },
	"faster":         func(m *machine) { m.perUs = 4000 },
	"slower":         func(m *machine) { m.perUs = 1500 },
	"not trusted":    func(m *machine) { m.usable = false },
	"wraps":          func(m *machine) { m.count = ^uint64(0) - 100 },
}

// TestTampered: whatever becomes of the counter, after whatever time, the clock does not go back,
// does not stand still, and is right again after some milliseconds.
func TestTampered(t *testing.T) {
	const step = 100 * time.Microsecond
	for name, tamper := range tampers {
		for _, uptime := range []time.Duration{0, time.Millisecond, 11 * time.Second, 11 * time.Hour} {
			m := newMachine()
			m.start(t)
			m.pass(uptime)
			last := m.c.now()
			tamper(m)
			for i := range 2000 {
				m.pass(step)
				now := m.c.now()
				if moved := now.Sub(last); moved < step/4 {
					t.Errorf("%s after %v: step %d moved by %v", name, uptime, i, moved)
				}
				if ahead := now.Sub(m.real); ahead > span+time.Millisecond || ahead < -span {
					t.Fatalf("%s after %v: step %d: %v ahead", name, uptime, i, ahead)
				}
				if ahead := now.Sub(m.real); i > 400 && ahead.Abs() > 100*time.Microsecond {
					t.Fatalf("%s after %v: still %v ahead in step %d", name, uptime, ahead, i)
				}
				last = now
			}
		}
	}
}

// TestTrustedAgain: a counter that was wrong is used again later, each time after a longer while,
// and one that the system has given up is not.
func TestTrustedAgain(t *testing.T) {
	m := newMachine()
	m.start(t)
	var before time.Duration
	for range 8 {
		m.count = 0
		began := m.real
		for m.c.now(); !m.c.used(); m.c.now() {
			m.pass(time.Millisecond)
		}
		took := m.real.Sub(began)
		if took < before || took < warmUp || took > 2*maxPause {
			t.Errorf("used again after %v, before after %v", took, before)
		}
		before = took
		m.pass(time.Second)
		m.c.now()
	}
	m.usable = false
	for range 1000 {
		m.pass(time.Second)
		m.c.now()
	}
	if m.c.used() {
		t.Error("it is used although the system does not")
	}
	if m.asked > 200 {
		t.Errorf("the clock source was read %d times in %v", m.asked, m.real)
	}
}

// TestWhileCompared: a goroutine that reads the clock while another one compares it with the
// system's gets neither the time of the last reading, which may be long ago, nor one that is later
// than the next.
func TestWhileCompared(t *testing.T) {
	for _, quiet := range []time.Duration{span, 11 * time.Millisecond, time.Second, time.Hour} {
		m := newMachine()
		m.start(t)
		last := m.c.now()
		m.pass(quiet)
		m.c.busy.Store(true)
		now := m.c.now()
		m.c.busy.Store(false)
		if behind := m.real.Sub(now); behind > 2*time.Millisecond || now < last {
			t.Errorf("after %v: %v behind", quiet, behind)
		}
		if next := m.c.now(); next < now {
			t.Errorf("after %v: it goes back by %v", quiet, now.Sub(next))
		}
	}
}

// TestRandom does most of that at random times, again and again. What sets a counter back to where
// it was less than a span ago cannot be told from a thread that was stopped.
func TestRandom(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := newMachine()
		m.start(t)
		last := m.c.now()
		for range 3000 {
			switch r.IntN(400) {
			case 0:
				m.count += r.Uint64() | 1<<45 // far ahead, or far back
			case 1:
				m.count += 2500 * r.Uint64N(20_000)
			case 2:
				m.perUs = 1000 + r.Uint64N(4000)
			case 3:
				m.usable = false
			}
			if r.IntN(300) == 0 {
				m.usable, m.perUs = true, 2000+r.Uint64N(1000)
			}
			m.pass(time.Duration(r.IntN(1<<r.IntN(18))) * time.Microsecond)
			now := m.c.now()
			if now < last || now.Sub(m.real) > span+time.Millisecond {
				t.Fatalf("seed %d: %d after %d, the system's clock says %d", seed, now, last, m.real)
			}
			last = now
		}
	}
}

// TestSkew: the counter of one processor is a little behind that of another one. Its thread is told
// the begin of the scale, and the scale stays.
func TestSkew(t *testing.T) {
	m := newMachine()
	m.start(t)
	s, turn := m.c.get()
	m.count = s.ticks - 100
	if now := m.c.now(); now != s.start || m.c.turn.Load() != turn {
		t.Errorf("now %d, the scale began at %d", now, s.start)
	}
}

// TestSpansAllocateNothing: loops read the clock for hours, and compare it every span.
func TestSpansAllocateNothing(t *testing.T) {
	m := newMachine()
	m.start(t)
	_, before := m.c.get()
	n := testing.AllocsPerRun(100, func() {
		m.pass(span + time.Millisecond)
		m.c.now()
	})
	if _, turn := m.c.get(); n != 0 || turn < before+100 {
		t.Errorf("%v allocations for a span, %d scales in 101 spans", n, turn-before)
	}
}

// TestWholeScales: scales that all say the same time take each other's place while it is read.
// Parts of two would say another time.
func TestWholeScales(t *testing.T) {
	const ticks, want = 1 << 40, Time(1 << 30)
	c := newCounter(func() uint64 { return ticks }, func() Time { return want },
		func() bool { return true })
	put := func(i uint64) {
		c.put(&scale{moment: moment{ticks: ticks - i}, start: want.Add(-time.Duration(i)),
			span: 1 << 20, mult: 1 << 32})
	}
	put(0)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range 1_000_000 {
				s, _ := c.get()
				whole, ok := s.read(ticks)
				if now := c.now(); now != want || whole != want || !ok {
					t.Errorf("%d and %d (%t), want %d", now, whole, ok, want)
					return
				}
			}
		})
	}
	for i := range uint64(2_000_000) {
		put(i % 1000)
	}
	readers.Wait()
}

// TestThreads: several goroutines read while the counter is set back and jumps. None sees the time
// go back, also not when it has heard of another's.
func TestThreads(t *testing.T) {
	var offset atomic.Uint64
	var real atomic.Int64
	c := newCounter(func() uint64 { return uint64(real.Load()) + offset.Load() },
		func() Time { return Time(real.Load()) }, func() bool { return true })
	var wg sync.WaitGroup
	var heard atomic.Int64
	for id := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(id), 2))
			for range 50_000 {
				before := Time(heard.Load())
				now := c.now()
				if now < before {
					t.Errorf("%d after %d", now, before)
					return
				}
				for old := heard.Load(); int64(now) > old && !heard.CompareAndSwap(old, int64(now)); {
					old = heard.Load()
				}
				real.Add(int64(r.IntN(20_000)))
				if r.IntN(500) == 0 {
					offset.Add(r.Uint64() | 1<<40) // ahead or back, by much
				}
			}
		})
	}
	wg.Wait()
}

func TestScale(t *testing.T) {
	at := func(ticks uint64, time Time) moment { return moment{ticks: ticks, time: time} }
	for _, c := range []struct {
		a, b moment
		mult uint64 // 0: no scale
	}{
		{at(1000, 5), at(1000+2_500_000_000, 5+1_000_000_000), 1717986918}, // 2.5 GHz: 0.4 ns
		{at(0, 0), at(1<<40, 1<<40), 1 << 32},
		{at(^uint64(0)-9, 1), at(90, 101), 1 << 32}, // the counter wraps
		{at(0, 0), at(1e9, 0), 0},
		{at(0, 10), at(1e9, 5), 0},
		{at(0, 0), at(1e6, 1e9), 0},         // 1 MHz
		{at(1e9, 0), at(0, 1e9), 0},         // backwards
		{at(0, 0), at(1e12, 1e9), 0},        // 1 THz
		{at(0, 0), at(0, 1<<62), 0},         // stands still
		{at(0, 0), at(5e9, 1e9), 858993459}, // 5 GHz
	} {
		if mult := scaleFrom(c.a, c.b); mult != c.mult {
			t.Errorf("%+v to %+v: %d, want %d", c.a, c.b, mult, c.mult)
		}
	}
}
