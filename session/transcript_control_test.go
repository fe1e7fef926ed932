package session

import (
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/wire"
)

// fakeControl is a congestion control that does what the test says, and remembers
// what it was told.
type fakeControl struct {
	rate     float64
	bypass   time.Duration
	acks     []ack
	timeouts int
}

type ack struct {
	rtt, base time.Duration
	bytes     int
	ce        bool
}

func (f *fakeControl) OnAck(_ cc.Time, rtt, base time.Duration, bytes int, ce bool) (
	float64, time.Duration) {
	f.acks = append(f.acks, ack{rtt, base, bytes, ce})
	return f.rate, f.bypass
}

func (f *fakeControl) OnTimeout(cc.Time) float64 {
	f.timeouts++
	return f.rate
}

const (
	testLink   = 1e9 // bytes per second: 1 ns a byte
	testBypass = 50 * time.Microsecond
)

func (f *fakeControl) pacing() *Pacing {
	f.bypass = testBypass
	return &Pacing{LinkRate: testLink, Slack: 500, Algorithm: cc.Algorithm{
		Name: "fake", Bypass: testBypass,
		New: func(float64) cc.Controller { return f },
	}}
}

// controlOf returns the congestion control that the arguments of a session name.
func controlOf(a args) (*fakeControl, *Pacing) {
	if a["control"] == "" {
		return nil, nil
	}
	ctl := &fakeControl{rate: float64(a.num("control", 0))}
	p := ctl.pacing()
	p.NoRateBypass, p.NoPacingBypass = a["tell"] == "all", a["pace"] == "all"
	if a["bypass"] == "none" {
		ctl.bypass, p.Algorithm.Bypass = 0, 0
	}
	return ctl, p
}

// control prints what congestion control was told, and how long packets wait.
func (s *script) control() {
	if s.ctl == nil {
		return
	}
	for _, k := range s.ctl.acks {
		s.print("told rtt=%v base=%v bytes=%d CE=%v", k.rtt, k.base, k.bytes, k.ce)
	}
	if s.ctl.timeouts > 0 {
		s.print("told of %d timeouts", s.ctl.timeouts)
	}
	s.ctl.acks, s.ctl.timeouts = nil, 0
	if s.paced {
		s.print("waits for %v", s.cl.PaceAt().Sub(s.now))
	}
}

// wholeCommand is a command about the client half as a whole.
func (s *script) wholeCommand(name string, a args) bool {
	switch name {
	case "release":
		for range a.num("n", 1) {
			s.now = max(s.now, s.cl.PaceAt()).Add(a.dur("after"))
			s.release()
		}
	case "rate":
		s.print("rate=%.4g congested=%v", s.cl.Rate(), s.cl.Congested())
	case "owed":
		since, _, ok := s.cl.Owed()
		if ok {
			s.print("owed since %v", time.Duration(since))
		}
		s.print("resting=%v idle=%v held=%d", s.cl.Resting(), s.cl.Idle(), s.cl.Held())
	case "taken": // the server says what it has taken
		word := s.sv.AppendTaken(nil, a["ends"] != "")
		if a["other"] != "" { // of a session with other slots
			word = wire.AppendNumber(wire.AppendTaken(nil, 1), 0)
		}
		s.print("%d bytes", len(word))
		s.asked = true
		s.cout.Flush()
		s.cl.NotTaken(wire.FindTaken(word), errNotTaken, s.now, s.cout)
		s.takeClient()
	default:
		return false
	}
	return true
}
