package erpc

import (
	"testing"
	"testing/fstest"
	"time"

	"github.com/userspace-rpc/erpc/internal/cpuquota"
	"github.com/userspace-rpc/erpc/internal/idle"
)

// idlePass makes a pass and what the loop does after it. It reports whether that was to sleep.
func (st *stub) idlePass(d time.Duration) (slept bool) {
	st.tb.Helper()
	n := st.end.waits
	st.pass(d)
	if err := st.pause(0, -1); err != nil {
		st.tb.Fatal(err)
	}
	return st.end.waits > n
}

// TestWhenLoopsSleep: how long a loop that finds nothing spins, and what makes it sleep early.
func TestWhenLoopsSleep(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for name, c := range map[string]struct {
		cfg  Config
		set  func(st *stub)
		want time.Duration // until it sleeps; 0: it does not within 10 ms
	}{
		"adaptive":        {Config{}, func(st *stub) {}, us + 200*us},
		"adaptive, 1 ms":  {Config{SpinFor: ms}, func(st *stub) {}, us + ms},
		"spin":            {Config{Wait: WaitSpin}, func(st *stub) {}, 0},
		"sleep":           {Config{Wait: WaitSleep}, func(st *stub) {}, us},
		"sleep, crowded":  {Config{Wait: WaitSleep}, func(st *stub) { st.procs = loops.Load() - 1 }, us},
		"spin, throttled": {Config{Wait: WaitSpin}, func(st *stub) { st.idle.Throttled(st.now) }, us},
		"spin, its core is wanted": {Config{Wait: WaitSpin}, func(st *stub) {
			for range 3 {
				st.idlePass(5 * ms)
			}
		}, us},
	} {
		st := newStub(t, c.cfg)
		st.pass(us)
		st.procs = loops.Load() + 1
		c.set(st)
		st.lastWork = st.now
		got := time.Duration(0)
		for d := us; d <= 10*ms && got == 0; d += us {
			if st.idlePass(us) {
				got = d
			}
		}
		if got != c.want {
			t.Errorf("%s: slept after %v, want %v", name, got, c.want)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWorkEndsSpells: sleeps and work are told to the policy, which learns from both: that packets
// come late, and later that they come soon. It is the same for calls, which the pass that finds
// them sends at once.
func TestWorkEndsSpells(t *testing.T) {
	for _, sends := range []bool{false, true} {
		testWorkEndsSpells(t, sends)
	}
}

func testWorkEndsSpells(t *testing.T, sends bool) {
	const us = time.Microsecond
	st := newStub(t, Config{})
	st.procs = loops.Load() + 1
	st.end.onWait = func() { st.now = st.now.Add(time.Millisecond) }
	spell := func(most int) (passes int, slept bool) {
		for passes < most && !slept {
			slept = st.idlePass(us)
			passes++
		}
		if st.pass(us); sends {
			st.lastWork = st.now
		}
		if err := st.pause(1, -1); err != nil {
			t.Fatal(err)
		}
		if st.lastWork != st.now {
			t.Fatal("the work is not noted")
		}
		return passes, slept
	}
	for range 50 {
		spell(300)
	}
	if n, slept := spell(300); !slept || n > 5 {
		t.Errorf("sends %v: %d passes, slept %v, though packets come after a millisecond",
			sends, n, slept)
	}
	for range 50 {
		spell(1)
	}
	for range 50 {
		if _, slept := spell(8); slept {
			t.Fatalf("sends %v: slept though packets come soon", sends)
		}
	}
}

// TestTimerEndsSpell: a loop that has slept until a timer of the application does not go back to
// sleep at once. The timer may have sent a request, whose answer takes a time of its own. A timer
// of the protocol, such as the one for pings, changes nothing.
func TestTimerEndsSpell(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, app := range []bool{true, false} {
		st := newStub(t, Config{})
		st.procs = loops.Load() + 1
		st.pass(us)
		if app {
			if _, err := st.AfterFunc(ms, func() {}); err != nil {
				t.Fatal(err)
			}
		}
		st.end.onWait = func() { st.now = st.now.Add(2 * ms) }
		for !st.idlePass(us) {
		}
		st.end.onWait = nil
		if slept := st.idlePass(us); slept == app {
			t.Fatalf("timer %v: slept %v in the pass after the first sleep", app, slept)
		}
		passes := 0
		for !st.idlePass(us) {
			passes++
		}
		if spun := passes > 100; spun != app {
			t.Errorf("timer %v: slept again after %d passes", app, passes)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHandlersAreNoSpell: the time that handlers take is not one in which the loop waited. It
// does not sleep after it at once.
func TestHandlersAreNoSpell(t *testing.T) {
	const us = time.Microsecond
	st := newStub(t, Config{})
	st.procs = loops.Load() + 1
	for range 100 {
		st.pass(us)
		if err := st.pause(1, -1); err != nil {
			t.Fatal(err)
		}
		st.now = st.now.Add(time.Millisecond)
		for range 3 {
			if st.idlePass(us) {
				t.Fatal("slept though packets come soon")
			}
		}
	}
}

// TestIdleState: the policy gets the state of the loop.
func TestIdleState(t *testing.T) {
	st := newStub(t, Config{})
	st.procs = loops.Load() + 2
	check := func(step string, want idle.State) {
		t.Helper()
		if got := st.idleState(); got != want {
			t.Errorf("%s: %+v, want %+v", step, got, want)
		}
	}
	check("nothing to do", idle.State{Spare: 2})
	st.jobs.running = 1
	check("a handler runs", idle.State{Awaiting: true, Handlers: true, Spare: 2})
	st.jobs.running = 0
	s := st.dialTo(0)
	st.accepted(s, 0, 7)
	check("a session", idle.State{Spare: 2})
	req, err := st.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	done := func(c Completion) { c.Req.Free() }
	if _, err = st.EnqueueRequest(s, Request{Req: req, Done: done}); err != nil {
		t.Fatal(err)
	}
	check("a request", idle.State{Awaiting: true, Spare: 2})
	if err = st.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestQuotaUsedUp: a loop that spins notices that the process was kept off the cores.
func TestQuotaUsedUp(t *testing.T) {
	const dir = "sys/fs/cgroup/"
	files := fstest.MapFS{
		"proc/self/cgroup": {Data: []byte("0::/\n")},
		dir + "cpu.max":    {Data: []byte("50000 100000\n")},
		dir + "cpu.stat":   {Data: []byte("nr_throttled 7\n")},
	}
	st := newStub(t, Config{Wait: WaitSpin})
	st.procs = loops.Load() + 1
	st.quota = cpuquota.Of(files)
	spin := func() (slept int) {
		for range 200 {
			if st.idlePass(time.Millisecond / 10) {
				slept++
			}
		}
		return slept
	}
	spin()
	if n := spin() + spin() + spin() + spin() + spin() + spin(); n > 0 {
		t.Errorf("slept %d times", n)
	}
	files[dir+"cpu.stat"] = &fstest.MapFile{Data: []byte("nr_throttled 8\n")}
	for range 6 {
		spin()
	}
	if n := spin(); n != 200 {
		t.Errorf("slept %d of 200 times after the quota was used up", n)
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
