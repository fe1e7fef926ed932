package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestCongestionControls runs each congestion control in each subcommand that has one.
func TestCongestionControls(t *testing.T) {
	for _, name := range []string{"timely", "dcqcn", "swift", "cubic", "none"} {
		t.Run(name, func(t *testing.T) {
			if name == "dcqcn" && runtime.GOOS != "linux" {
				t.Skip("ECN marks are read on Linux only")
			}
			status, out, errOut := runCommand(t, "bench rate --duration 20ms --json --link-rate 25e9 --cc "+
				name+gentle)
			if status != cli.Done {
				t.Fatalf("status %d, err %q", status, errOut)
			}
			var r measure.Result
			decodeOne(t, out, &r)
			if r.CC != name || r.LinkRate != 25e9 || r.Rpcs == 0 || r.Errors != 0 {
				t.Errorf("%+v", r)
			}
			server := start(t, "server --addr 127.0.0.1:0 --json --cc "+name)
			var ready measure.ReadyLine
			decodeOne(t, waitFor(t, server.out, "ready"), &ready)
			if status, _, errOut := runCommand(t, "ping "+ready.Addr+" --count 2 --interval 1ms --cc "+
				name); status != cli.Done {
				t.Errorf("ping: status %d, err %q", status, errOut)
			}
			if _, err := server.interrupt(t); err != nil {
				t.Errorf("server ended with %v", err)
			}
			if testing.Short() && name != "dcqcn" {
				return // TestDemo runs it, and takes long under the race detector
			}
			if status, _, errOut := runCommand(t, "demo --each 2ms --pin none --cc "+
				name); status != cli.Done {
				t.Errorf("demo: status %d, err %q", status, errOut)
			}
		})
	}
}

func TestVersus(t *testing.T) {
	for _, more := range some(2, " --symmetric", "", " --threads 2") {
		status, out, errOut := runCommand(t, "bench rate --versus none --rounds 3 --duration 70ms --json"+
			more+gentle)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", more, status, errOut)
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if r.CC != "timely" || r.Versus != "none" || r.Rounds != 3 || r.Rps <= 0 || r.VersusRps <= 0 ||
			r.Errors != 0 ||
			r.VersusMin <= 0 || r.VersusMin > r.VersusRatio || r.VersusRatio > r.VersusMax ||
			r.VersusCost != 100*(1-r.VersusRatio) {
			t.Errorf("%s: %+v", more, r)
		}
	}
}

// TestVersusWatched: the side that is watched pays.
func TestVersusWatched(t *testing.T) {
	for _, what := range []string{"metrics", "trace"} {
		status, out, errOut := runCommand(t, "bench rate --rounds 3 --duration 350ms --json --versus "+
			what+gentle)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", what, status, errOut)
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if r.Versus != what || r.Rounds != 3 || r.VersusRps <= 0 || r.VersusRatio <= 0 ||
			(r.VersusCost > 0) != (r.VersusRatio > 1) && r.VersusRatio != 1 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

func TestVersusAtAddress(t *testing.T) {
	server := start(t, "server --addr 127.0.0.1:0 --json")
	var ready measure.ReadyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)
	status, out, errOut := runCommand(t,
		"bench rate --versus none --cc none --rounds 1 --duration 20ms --addr "+ready.Addr+gentle)
	if status != cli.Done || !strings.Contains(out, "with --cc none: none costs") ||
		!strings.Contains(errOut, "0 server process") {
		t.Errorf("status %d, out %q, err %q", status, out, errOut)
	}
	if _, err := server.interrupt(t); err != nil {
		t.Errorf("server ended with %v", err)
	}
}

func TestCompareInterrupt(t *testing.T) {
	p := start(t, "bench rate --versus none --duration 1h --rounds 1000000 --json"+gentle)
	waitFor(t, p.errLines, "round 1 of")
	out, err := p.interrupt(t)
	if err != nil {
		t.Fatalf("ended with %v", err)
	}
	var r measure.Result
	decodeOne(t, out, &r)
	if !r.Interrupted || r.Rounds == 0 || r.VersusRatio <= 0 {
		t.Errorf("%+v", r)
	}
	p = start(t, "bench sessions --counts 2 --duration 1h --rounds 1 --json"+gentle)
	waitFor(t, p.errLines, "measuring")
	if out, err := p.interrupt(t); err == nil || out != "" {
		t.Errorf("ended with %v and said %q", err, out)
	}
}
