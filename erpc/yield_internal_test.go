package erpc

import "testing"

// TestYields: a loop that spins yields after every 64 idle passes, after every 16 if the process has
// more loops than processors, after each while background handlers work, and never on a thread of
// its own.
func TestYields(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(st *stub)
		every int // passes
	}{
		"alone":    {func(st *stub) { st.procs = loops.Load() }, 64},
		"crowded":  {func(st *stub) { st.procs = loops.Load() - 1 }, 16},
		"handlers": {func(st *stub) { st.engine.jobs.running = 1 }, 1},
		"locked":   {func(st *stub) { st.cfg.LockThread, st.engine.jobs.running = true, 1 }, 1 << 30},
	} {
		st := newStub(t, Config{})
		c.set(st)
		for st.idle = 1; st.idle <= 200; st.idle++ {
			if got := st.yields(); got != (st.idle%c.every == 0) {
				t.Fatalf("%s: after %d idle passes: %v", name, st.idle, got)
			}
		}
	}
}

// TestLoopsCount: an endpoint counts as a loop until it is closed.
func TestLoopsCount(t *testing.T) {
	before := loops.Load()
	st := newStub(t, Config{})
	if n := loops.Load(); n != before+1 {
		t.Errorf("%d loops, then %d", before, n)
	}
	for range 2 {
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := loops.Load(); n != before {
		t.Errorf("%d loops at the end, want %d", n, before)
	}
}
