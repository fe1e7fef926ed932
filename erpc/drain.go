package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// notice is how far a client has been told that this side shuts down.
type notice struct {
	at    monotime.Time // when it is told again
	tries uint8
	acked bool
}

// noticesPerTick bounds how many clients are told at a time: they all answer.
const noticesPerTick = 256

// startNotices begins to tell all clients that this side shuts down, so that they send nothing
// new here.
func (e *engine) startNotices() {
	for _, s := range e.table.byNumber {
		if s != nil && s.sv != nil && s.state == sessConnected {
			e.notices = append(e.notices, s)
		}
	}
	e.timers.nextScan = e.in.Now
}

// repeatNotices tells clients that have not acknowledged it, each less and less often.
func (e *engine) repeatNotices() {
	sent := 0
	for i := 0; i < len(e.notices); {
		s := e.notices[i]
		if s.state != sessConnected || s.srv.notice.acked {
			last := len(e.notices) - 1
			e.notices[i] = e.notices[last]
			e.notices[last] = nil
			e.notices = e.notices[:last]
			continue
		}
		i++
		if n := &s.srv.notice; e.in.Now >= n.at && sent < noticesPerTick {
			sent++
			t := &e.cfg.Timing
			n.at = e.in.Now.Add(min(t.ConnectRetry<<min(n.tries, 10), max(t.RTOMax, time.Millisecond)))
			n.tries = min(n.tries+1, 10)
			s.live.Drain(s.end, s.sv.AppendTaken(nil, false), e.out)
		}
	}
}

// onDrain takes a server's word that it shuts down.
func (e *engine) onDrain(s *Session, a *wire.Alive, t wire.Taken) {
	if s.cl == nil || s.state != sessConnected {
		return
	}
	s.live.DrainAck(s.end, a.Seq, e.out)
	news := s.cl.Drain(e.out)
	if news && t.Slots() > 0 {
		e.out.Flush()
		s.cl.NotTaken(t, ErrDraining, e.in.Now, e.out)
	}
	if news {
		e.settle()
		e.notify(s, SessionDraining)
	}
}
