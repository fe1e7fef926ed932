package session_test

import (
	"testing"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
)

// TestProbesDoNotHideALoss: while requests are repeated the peer is probed more
// often than heartbeats come. It is given up all the same, and no sooner.
func TestProbesDoNotHideALoss(t *testing.T) {
	const heartbeat, timeout = 500, 3000
	var e session.End
	var l session.Liveness
	var w session.Watch
	out := session.NewOut(8, false)
	w.Heard(0)
	lost := monotime.Time(0)
	for now := monotime.Time(0); now < 10*timeout && lost == 0; now += 10 {
		if now%200 == 0 {
			l.Probe(&e, uint64(now), now, out)
		}
		if now%100 == 0 {
			if _, alive := w.PingDue(now, heartbeat, heartbeat, timeout); !alive {
				lost = now
			}
		}
		out.Reset()
	}
	if lost < timeout || lost > timeout+2*heartbeat {
		t.Errorf("peer silent from 0 on given up at %d, timeout %d", lost, timeout)
	}
}
