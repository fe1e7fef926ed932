package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
)

// TestWakeAt: the loop sleeps until the first thing that it, or its engine, has to do by itself.
func TestWakeAt(t *testing.T) {
	const ms = time.Millisecond
	st := newStub(t, Config{})
	e := &st.engine
	st.pass(0) // makes the next epoch one to come
	now, epoch := e.Now(), e.NextScan()
	if epoch <= now || epoch > now.Add(ms+ms/2) {
		t.Fatalf("an epoch at %v, now is %v", epoch, now)
	}
	reset := func() {
		st.setAlarm(0, nil)
		st.idleWatch, st.calls.deadlines, st.jobs.batch = idleWatch{}, 0, nil
		e.Out.Reset()
	}
	type wakeCase struct {
		name string
		set  func()
		want monotime.Time
	}
	check := func(cases []wakeCase) {
		t.Helper()
		for _, c := range cases {
			reset()
			c.set()
			if got := st.wakeAt(); got != c.want {
				t.Errorf("%s: wakes at %v, want %v", c.name, got, c.want)
			}
		}
	}
	check([]wakeCase{
		{"nothing", func() {}, monotime.Never},
		{"a deadline", func() { st.calls.deadlines = 1 }, epoch},
		{"somebody waits for handlers", func() { st.idleWatch.fn = func() {} }, epoch},
		{"an alarm", func() { st.setAlarm(now.Add(200*ms), func() {}) }, now.Add(200 * ms)},
		{"an alarm that is overdue", func() { st.setAlarm(now.Add(-80*ms), func() {}) }, epoch},
		{"requests for workers", func() { st.jobs.batch = make([]*job, 1) }, now},
	})
	reset()
	s := st.dialTo(1)
	st.accepted(s, 1, 7)
	st.pass(ms * 5 / 4)
	now, epoch = e.Now(), e.NextScan()
	sweep := e.WakeAt()
	if sweep < now.Add(100*ms) || sweep == monotime.Never {
		t.Fatalf("with a session the engine wakes at %v, now is %v", sweep, now)
	}
	check([]wakeCase{
		{"a session", func() {}, sweep},
		{"a session and a deadline", func() { st.calls.deadlines = 1 }, epoch},
		{"an alarm before the sweep", func() { st.setAlarm(sweep-1, func() {}) }, sweep - 1},
		{"an alarm after the sweep", func() { st.setAlarm(sweep+1, func() {}) }, sweep},
		{"packets are kept", func() {
			st.calls.deadlines, e.Out.Tx = 1, append(e.Out.Tx, session.Tx{})
		}, now.Add(time.Microsecond)},
	})
	reset()
	if _, err := st.AfterFunc(3*time.Microsecond, func() {}); err != nil {
		t.Fatal(err)
	}
	if got := st.wakeAt(); got != now.Add(3*time.Microsecond) {
		t.Errorf("a timer of the application: wakes at %v", got)
	}
}

// TestAlarm: an alarm goes off once, in the first epoch at or after its time. It may set the next.
func TestAlarm(t *testing.T) {
	const step = 100 * time.Microsecond
	st := newStub(t, Config{})
	var calls []monotime.Time
	ring := func() { calls = append(calls, st.now) }
	from := st.now
	second := func() {
		ring()
		st.setAlarm(st.now.Add(5*time.Millisecond), ring)
	}
	st.setAlarm(from.Add(10*time.Millisecond), second)
	for range 1000 {
		st.pass(step)
	}
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	for _, late := range []time.Duration{
		calls[0].Sub(from) - 10*time.Millisecond, calls[1].Sub(calls[0]) - 5*time.Millisecond,
	} {
		if epoch := st.engineConfig.Timing.RTOMin / 4; late < 0 || late >= epoch+step {
			t.Errorf("an alarm %v late", late)
		}
	}
	st.setAlarm(st.now, ring)
	st.setAlarm(0, nil)
	for range 100 {
		st.pass(step)
	}
	if len(calls) != 2 {
		t.Error("an alarm that was taken back went off")
	}
}
