package udptest

import (
	"testing"
	"time"
)

// onlyKinds fails the test if errors have other kinds than those given.
func onlyKinds(t *testing.T, what string, errs map[string]int, want ...string) {
	t.Helper()
	sum := 0
	for _, k := range want {
		sum += errs[k]
	}
	all := 0
	for _, n := range errs {
		all += n
	}
	if sum != all || all == 0 {
		t.Errorf("%s: errors %v, want only %v", what, errs, want)
	}
}

// lostSome checks how calls ended of which one a worker was made when the server was killed. Some
// were under way. Those behind them, and those begun a moment later, find no server.
func lostSome(t *testing.T, errs map[string]int, workers int) {
	t.Helper()
	onlyKinds(t, "calls when the server was killed", errs, "lost", "connect")
	if errs["lost"] == 0 || errs["lost"]+errs["connect"] > workers {
		t.Errorf("of the calls of %d workers failed %v", workers, errs)
	}
}

// TestServerKilled kills the server in the middle of traffic: each call ends within
// a bound, with a typed error, and the client's memory does not grow.
func TestServerKilled(t *testing.T) {
	const failure = time.Second
	const workers = 16
	traffic := job{Op: "calls", Calls: 100, Workers: workers, Size: bulk(1 << 20), Exact: true,
		Type: typeEcho}
	s := server(t, role{})
	c := client(t, role{Failure: failure, Slots: workers}, s)
	addr := s.Addr
	c.run(traffic)
	before := c.run(job{Op: "memory"})
	for round := range 3 {
		c.begin(job{Op: "fail", Workers: workers, Size: bulk(1 << 20), Exact: true, Type: typeEcho})
		c.flowing()
		s.kill()
		at := time.Now()
		r := c.done()
		took := time.Since(at)
		lostSome(t, r.Errors, workers)
		if took > 20*failure {
			t.Errorf("the last call ended %v after the kill", took)
		}
		t.Logf("round %d: the last of %d calls ended %v after the kill", round, workers, took)
		s = server(t, role{Bind: addr})
		c.begin(job{Op: "heal", Workers: 1, Size: 100, Type: typeEcho})
		c.done()
		c.run(traffic)
	}
	after := c.run(job{Op: "memory"})
	t.Logf("before: %d MB resident, %d MB of buffers; after: %d, %d", before.RSS>>20,
		before.Reserved>>20, after.RSS>>20, after.Reserved>>20)
	if after.RSS > before.RSS+32<<20 {
		t.Errorf("resident memory grew from %d to %d bytes", before.RSS, after.RSS)
	}
	c.quit()
	s.quit()
}

// TestServerRestarts puts a new server on the old port while calls are pending.
func TestServerRestarts(t *testing.T) {
	const pending = 8
	s := server(t, role{})
	c := client(t, role{Failure: 10 * time.Second}, s)
	for range 3 {
		c.begin(job{Op: "fail", Workers: pending, Size: 2000, Type: typeHold})
		for range pending {
			var b bool
			expect(s, "holding", &b)
		}
		s.kill()
		s = server(t, role{Bind: s.Addr})
		r := c.done()
		onlyKinds(t, "calls pending across a restart", r.Errors, "restarted", "lost")
		c.run(job{Op: "calls", Calls: calls(2000), Workers: 16, Size: 3000, Type: typeOnce})
		if got := s.report(); got != (report{Distinct: calls(2000)}) {
			t.Errorf("the new server ran %+v", got)
		}
	}
	c.quit()
	s.quit()
}
