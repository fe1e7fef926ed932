package idle

import "testing"

// TestThrottled: a loop whose process used up its quota sleeps at once, for longer each time that
// this is found again.
func TestThrottled(t *testing.T) {
	for _, mode := range []Mode{Adaptive, Spin, Rest} {
		m := newMachine(Config{Mode: mode, SpinFor: 200 * us})
		want := leastQuotaHold
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
			want = min(2*want, mostQuotaHold)
		}
		m.now = m.now.Add(3 * mostQuotaHold)
		m.p.Throttled(m.now)
		if h := m.p.rivals.hold; h != leastQuotaHold {
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
