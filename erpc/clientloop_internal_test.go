package erpc

import (
	"math/rand/v2"
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// TestLoopAlarms: alarms of a Loop are called once, when they are due, and not after they were
// taken back; one may set others.
func TestLoopAlarms(t *testing.T) {
	st := newStub(t, Config{})
	l := &Loop{rpc: st.Rpc}
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 50
	alarms := make([]loopAlarm, n)
	due := make([]monotime.Time, n) // 0: not set
	called := 0
	for i := range alarms {
		alarms[i].fn = func() {
			if called++; due[i] == 0 || due[i] > st.now {
				t.Fatalf("alarm %d was called at %v, due %v", i, st.now, due[i])
			}
			due[i] = 0
			if next := rng.IntN(n); called%3 == 0 {
				due[next] = st.now.Add(1e6)
				l.set(&alarms[next], due[next])
			}
		}
	}
	for range 3000 {
		i := rng.IntN(n)
		if rng.IntN(4) == 0 {
			due[i] = 0
			l.set(&alarms[i], monotime.Never)
		} else {
			due[i] = st.now + monotime.Time(rng.Int64N(20e6))
			l.set(&alarms[i], due[i])
		}
		st.pass(2e6) // longer than an epoch
		for i := range due {
			if due[i] != 0 && due[i] <= st.now {
				t.Fatalf("alarm %d was due at %v, and it is %v", i, due[i], st.now)
			}
		}
	}
	if called < 1000 {
		t.Errorf("%d alarms were called", called)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
