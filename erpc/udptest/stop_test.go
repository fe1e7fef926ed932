//go:build unix

package udptest

import (
	"syscall"
	"testing"
	"time"
)

// stopFor is how long a process is stopped. The wait is the experiment.
const stopFor = 10 * time.Second

// pause stops a process for stopFor (SIGSTOP, SIGCONT).
func pause(p *proc) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	<-time.After(stopFor)
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}

// TestStopped stops the server or the client for a time.
func TestStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than ", stopFor)
	}
	for _, tc := range []struct {
		name     string
		failure  time.Duration
		client   bool // stop the client, not the server
		survives bool
	}{
		{"server beyond the failure timeout", 2 * time.Second, false, false},
		{"client beyond the failure timeout", 2 * time.Second, true, false},
		{"server within the failure timeout", 30 * time.Second, false, true},
		{"client within the failure timeout", 30 * time.Second, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := server(t, role{Failure: tc.failure})
			c := client(t, role{Failure: tc.failure}, s)
			stopped := s
			if tc.client {
				stopped = c
			}
			if tc.survives {
				survive(t, s, c, stopped)
			} else {
				recovers(t, s, c, stopped)
			}
			c.run(job{Op: "calls", Calls: 1000, Workers: 8, Size: 3000, Type: typeOnce})
			c.quit()
			s.quit()
		})
	}
}

// survive wants every call to succeed, and to run once.
func survive(t *testing.T, s, c, stopped *proc) {
	c.begin(job{Op: "flow", Workers: 8, Size: 3000, Type: typeOnce})
	c.flowing()
	pause(stopped)
	c.tell("halt")
	r := c.done()
	if len(r.Errors) != 0 || r.OK < 8 {
		t.Errorf("%d calls succeeded, errors %v", r.OK, r.Errors)
	}
	if got := s.report(); got != (report{Distinct: r.OK}) {
		t.Errorf("the server ran %+v, want %d distinct requests", got, r.OK)
	}
}

// recovers wants typed errors, and calls that succeed again later. No request may
// have run twice.
func recovers(t *testing.T, s, c, stopped *proc) {
	c.begin(job{Op: "fail", Workers: 8, Size: 3000, Type: typeOnce})
	c.flowing()
	pause(stopped)
	r := c.done()
	onlyKinds(t, "calls across the stop", r.Errors, "lost", "restarted", "connect")
	c.begin(job{Op: "heal", Workers: 1, Size: 3000, Type: typeOnce})
	healed := c.done()
	if healed.OK != 1 {
		t.Errorf("no call succeeded after the stop: %+v", healed)
	}
	got := s.report()
	if got.Repeated != 0 || got.Distinct < r.OK+1 {
		t.Errorf("the server ran %+v, the client had %d answers", got, r.OK+1)
	}
	t.Logf("errors %v, then %v before the first success", r.Errors, healed.Errors)
}
