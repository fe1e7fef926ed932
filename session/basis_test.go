package session

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/cc/timely"
	"github.com/userspace-rpc/erpc/msgbuf"
)

// TestLateFirstAnswers: a session whose first answers came late, since a host was busy, is told of
// no queue up to that time. It forgets that as soon as an answer shows that the path is shorter.
func TestLateFirstAnswers(t *testing.T) {
	cfg, err := timely.Config{}.Fill()
	if err != nil {
		t.Fatal(err)
	}
	const link = 1e9
	r := newPacedRig(t, rigParams, Timing{}, 0, msgbuf.Config{}, &Pacing{LinkRate: link,
		Algorithm: cc.Algorithm{Bypass: cfg.Bypass(0),
			New: func(rate float64) cc.Controller { return timely.New(&cfg, rate) }}})
	r.now = 100 * ms
	r.open(0)
	for range 3 {
		r.answered(15*time.Millisecond, 0)
	}
	for range 10 {
		r.answered(50*time.Microsecond, 0)
	}
	for range 100 {
		r.answered(3*time.Millisecond, 0)
	}
	if !r.cl.Congested() || r.cl.Rate() > link/2 {
		t.Errorf("behind a queue of 3 ms it sends at %.0f of %.0f bytes/s", r.cl.Rate(), link)
	}
	r.noLeak()
}
