package erpc_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
)

// TestSilenceIsNoticed: a peer that falls silent is lost after FailureTimeout, if it has left
// three questions without answer by then. A client asks so early that it has, if FailureTimeout is
// four heartbeats or more, and a server a heartbeat later than its clients.
func TestSilenceIsNoticed(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		timing         erpc.Timing
		client, server time.Duration // when the loss is noticed, at the earliest
	}{
		{erpc.Timing{}, 3000 * ms, 3500 * ms},
		{erpc.Timing{FailureTimeout: 10 * time.Second}, 10_000 * ms, 10_000 * ms},
		{erpc.Timing{Heartbeat: 100 * ms, FailureTimeout: 1600 * ms}, 1600 * ms, 1600 * ms},
		{erpc.Timing{Heartbeat: 100 * ms, FailureTimeout: 100 * ms}, 400 * ms, 500 * ms},
	} {
		for phase := range 5 {
			for _, serverDies := range []bool{true, false} {
				name := fmt.Sprintf("%v-%d-%v", c.timing.FailureTimeout, phase, serverDies)
				t.Run(name, func(t *testing.T) {
					least := c.server
					if serverDies {
						least = c.client
					}
					noticeSilence(t, c.timing, phase, serverDies, least)
				})
			}
		}
	}
}

// noticeSilence runs a pair for a while, then one side alone, and measures from the last packet
// that this side got until the session ends.
func noticeSilence(
	t *testing.T, timing erpc.Timing, phase int, serverDies bool, least time.Duration,
) {
	heartbeat := timing.Heartbeat
	if heartbeat == 0 {
		heartbeat = 500 * time.Millisecond // the default
	}
	var ends []error
	cfg := erpc.Config{Timing: timing}
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if ev == erpc.SessionLost && s.IsClient() == serverDies {
			ends = append(ends, s.Err())
		}
	}
	p := newMemPair(t, cfg, nil)
	alive, end := p.client, p.cend
	if !serverDies {
		alive, end = p.server, p.send
	}
	heard := p.net.now // the session has just opened
	end.tap = func([]byte, transport.Addr) { heard = p.net.now }
	p.tick = 1e6
	p.pass(1000 + phase*int(heartbeat/time.Millisecond)/5)
	for stop := p.net.now + 20e9; len(ends) == 0 && p.net.now < stop; {
		p.net.now += p.tick
		p.run(alive)
	}
	if len(ends) != 1 || !errors.Is(ends[0], erpc.ErrPeerLost) {
		t.Fatalf("the session ended with %v", ends)
	}
	// A sweep comes each quarter of a heartbeat. Each is late by up to an epoch and a step.
	const late = 2500 * time.Microsecond
	took := p.net.now.Sub(heard)
	if most := least + heartbeat/4 + 4*10*late; took < least || took > most {
		t.Errorf("noticed after %v, want %v to %v", took, least, most)
	}
}
