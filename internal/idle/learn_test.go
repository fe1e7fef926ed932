package idle

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestThrottled: a loop whose process used up its quota sleeps at once, for longer each time that
// this is found again.
func TestThrottled(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Spin, Rest} {
		m := newMachine(Config{Mode: mode, SpinFor: 200 * us})
		want := minQuotaHold
		for range 10 {
			m.p.Throttled(m.now)
			start := m.now
			m.taken()
			m.spent = 0
			for m.now.Sub(start) < want-ms {
				m.spell(100 * us)
			}
			if n := m.taken(); n[Poll]+n[Yield] > 0 || n[Sleep] < 1000 {
				t.Fatalf("mode %d: steps %v within %v", mode, n, want)
			}
			m.now = start.Add(want)
			if m.p.rivals.want(m.now) {
				t.Fatalf("mode %d: believed for more than %v", mode, want)
			}
			want = min(2*want, maxQuotaHold)
		}
		m.now = m.now.Add(3 * maxQuotaHold)
		m.p.Throttled(m.now)
		if h := m.p.rivals.hold; h != minQuotaHold {
			t.Errorf("mode %d: after a long time without it believed for %v", mode, h)
		}
	}
}

// TestNoAllocations: the loop calls this in each idle pass.
func TestNoAllocations(t *testing.T) {
	m := newMachine(adaptive)
	since := m.now
	if n := testing.AllocsPerRun(1000, func() {
		m.step(since)
		m.p.Slept(m.now.Add(ms))
		m.p.Work(m.now)
		m.p.Throttled(m.now)
		m.now = m.now.Add(us)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIdle(b *testing.B) {
	m := newMachine(Config{Mode: Spin})
	since := m.now
	for b.Loop() {
		m.now += 50
		m.step(since)
	}
}

// TestBusyLoopSpins: a loop that works for a quarter of its time or more, at many calls, spins
// until packets that come within 50 us, though its sleeps cost little, and does not try to sleep.
// One that works less, or at few calls, or that is to save CPU, or whose packets come later,
// sleeps.
func TestBusyLoopSpins(t *testing.T) {
	for _, c := range []struct {
		mode        Mode
		work, after time.Duration
		calls       uint64
		sleeps      bool
	}{
		{Adaptive, 21 * us, 38 * us, 10, false},
		{Adaptive, 21 * us, 38 * us, 7, true},
		{Adaptive, 16 * us, 38 * us, 10, true},
		{Adaptive, 40 * us, 49 * us, 1000, false},
		{Adaptive, 90 * us, 90 * us, 1000, true},
		{Rest, 40 * us, 38 * us, 1000, true},
	} {
		m := newMachine(Config{Mode: c.mode, SpinFor: 200 * us})
		m.wake = 2 * us
		spells := func(n int) {
			for i := range n {
				m.now = m.now.Add(c.work)
				m.state.Calls += c.calls
				if m.spell(c.after); i%4 == 3 {
					m.spell(2 * c.after) // not regularly
				}
			}
		}
		work, calls := c.work, c.calls
		c.work, c.calls = 0, 0
		spells(2000) // sleeps, and finds that they cost little
		m.taken()
		c.work, c.calls = work, calls
		spells(1000)
		n := m.taken()[Sleep]
		if few := 4 * loadOf; c.sleeps && n < 900 || !c.sleeps && n > few {
			t.Errorf("%+v: slept %d of 1000 times", c, n)
		}
		m.p.Init(m.p.cfg)
		spells(1000)
		if n = m.taken()[Sleep]; c.calls == 1000 && !c.sleeps && n > 0 {
			t.Errorf("%+v: slept %d times from the start", c, n)
		}
	}
}

// TestLoadForgets: the averages follow a change within some fifty spells, and time before the first
// spell counts for none.
func TestLoadForgets(t *testing.T) {
	var l load
	calls := uint64(1) << 63 // from before
	now := monotime.Time(time.Hour)
	spell := func(work, idle time.Duration) bool {
		calls += 8
		l.begin(now.Add(work), calls)
		now = now.Add(work + idle)
		return l.end(now, idle)
	}
	if spell(0, 10*us) {
		t.Error("busy before it has worked")
	}
	for _, c := range []struct {
		work time.Duration
		busy bool
	}{{8 * us, true}, {3 * us, false}, {8 * us, true}} {
		n := 1
		for ; spell(c.work, 10*us) != c.busy; n++ {
			if n == 50 {
				t.Fatalf("busy %v not after %d spells", c.busy, n)
			}
		}
		for range 100 {
			spell(c.work, 10*us)
		}
	}
}
