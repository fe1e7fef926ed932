package main

import (
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/cli"
)

// TestCongestionControls runs each congestion control in each subcommand that has one.
func TestCongestionControls(t *testing.T) {
	for name := range algorithms {
		t.Run(name, func(t *testing.T) {
			if name == "dcqcn" && runtime.GOOS != "linux" {
				t.Skip("ECN marks are read on Linux only")
			}
			status, out, errOut := runCommand(t, "bench rate --duration 20ms --json --link-rate 25e9 --cc "+
				name+gentle)
			if status != cli.Done {
				t.Fatalf("status %d, err %q", status, errOut)
			}
			var r result
			decodeOne(t, out, &r)
			if r.CC != name || r.LinkRate != 25e9 || r.Rpcs == 0 || r.Errors != 0 {
				t.Errorf("%+v", r)
			}
			server := start(t, "server --addr 127.0.0.1:0 --json --cc "+name)
			var ready readyLine
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

// TestFlagsReachConfig: each flag sets what it names in the configuration, and
// nothing else.
func TestFlagsReachConfig(t *testing.T) {
	base := netFlags{Transport: "udp", CC: "timely"}
	for name, c := range map[string]struct {
		set  func(*netFlags)
		want func(*erpc.Config)
	}{
		"timely": {func(f *netFlags) {
		}, func(c *erpc.Config) {
			c.Congestion.Algorithm = erpc.CCTimely
		}},
		"none": {func(f *netFlags) { f.CC = "none" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCNone }},
		"dcqcn": {func(f *netFlags) { f.CC = "dcqcn" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCDCQCN }},
		"link-rate": {func(f *netFlags) { f.LinkRate = 25e9 },
			func(c *erpc.Config) { c.Congestion.LinkRate = 25e9 }},
		"no-batched-time": {func(f *netFlags) { f.NoBatchedTime = true },
			func(c *erpc.Config) { c.Experiment.NoBatchedTime = true }},
		"no-rate-bypass": {func(f *netFlags) { f.NoRateBypass = true },
			func(c *erpc.Config) { c.Experiment.NoRateBypass = true }},
		"no-pacing-bypass": {func(f *netFlags) { f.NoPacingBypass = true },
			func(c *erpc.Config) { c.Experiment.NoPacingBypass = true }},
		"no-prealloc": {func(f *netFlags) { f.NoPrealloc = true },
			func(c *erpc.Config) { c.Experiment.NoPrealloc = true }},
		"no-bundles": {func(f *netFlags) { f.NoBundles = true },
			func(c *erpc.Config) { c.NoBundles = true }},
		"no-zero-copy": {func(f *netFlags) { f.NoZeroCopy = true },
			func(c *erpc.Config) { c.Experiment.NoZeroCopy = true }},
	} {
		f, want := base, erpc.Config{MaxMessage: maxMessage}
		c.set(&f)
		c.want(&want)
		if got := f.config(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		off := f.switches.list()
		if strings.HasPrefix(name, "no-") != slices.Equal(off, []string{name}) ||
			f.ecn() != (name == "dcqcn") {
			t.Errorf("%s: switches %v, ECN %v", name, off, f.ecn())
		}
	}
}

// TestChildGetsFlags: a server process that is started gets the flags of its client,
// and knows them all.
func TestChildGetsFlags(t *testing.T) {
	f := netFlags{Transport: "udp", CC: "none", LinkRate: 25e9, OwnCore: true, GC: 400,
		switches: switches{true, true, true, true, true, true, true, true}}
	c, err := startServer(&f, 1, "none")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--cc=none", "--link-rate=2.5e+10", "--own-core", "--no-batched-time",
		"--no-rate-bypass", "--no-pacing-bypass", "--no-prealloc", "--no-zero-copy", "--scraped",
		"--recorded"}
	for _, w := range want {
		if !slices.Contains(c.cmd.Args, w) {
			t.Errorf("%s is not in %v", w, c.cmd.Args)
		}
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

func TestVersus(t *testing.T) {
	for _, more := range some(2, " --symmetric", "", " --threads 2") {
		status, out, errOut := runCommand(t, "bench rate --versus none --rounds 3 --duration 70ms --json"+
			more+gentle)
		if status != cli.Done {
			t.Fatalf("%s: status %d, err %q", more, status, errOut)
		}
		var r result
		decodeOne(t, out, &r)
		if r.CC != "timely" || r.Versus != "none" || r.Rounds != 3 || r.Rps <= 0 || r.VersusRps <= 0 ||
			r.Errors != 0 ||
			r.VersusMin <= 0 || r.VersusMin > r.VersusRatio || r.VersusRatio > r.VersusMax ||
			r.VersusCost != loss(r.VersusRatio) {
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
		var r result
		decodeOne(t, out, &r)
		if r.Versus != what || r.Rounds != 3 || r.VersusRps <= 0 || r.VersusRatio <= 0 ||
			(r.VersusCost > 0) != (r.VersusRatio > 1) && r.VersusRatio != 1 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// TestObserve: an endpoint with the switches is scraped, or records; one without them is neither.
func TestObserve(t *testing.T) {
	for _, sw := range []switches{{}, {Scraped: true}, {Recorded: true}} {
		f := netFlags{Transport: "udp", Pin: "none", CC: "timely", switches: sw}
		tr, err := f.listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var stop atomic.Bool
		ep, err := openEndpoint(&f, tr, -1, &stop)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() {
			ended <- ep.rpc.Run(stop.Load)
		}()
		for sw.Scraped && ep.scrapes.Load() < 2 {
			runtime.Gosched()
		}
		for n := -1; sw.Recorded && n != recordLast; {
			if n, err = ep.rpc.Recording(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := ep.rpc.Recording(t.Context()); err != nil || (n > 0) != sw.Recorded {
			t.Errorf("%+v: it records %d, %v", sw, n, err)
		}
		if n := ep.scrapes.Load(); (n > 0) != sw.Scraped {
			t.Errorf("%+v: %d scrapes", sw, n)
		}
		stop.Store(true)
		ep.rpc.Wake()
		if err := errors.Join(<-ended, ep.close()); err != nil {
			t.Error(err)
		}
	}
}

func TestVersusAtAddress(t *testing.T) {
	server := start(t, "server --addr 127.0.0.1:0 --json")
	var ready readyLine
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
	var r result
	decodeOne(t, out, &r)
	if !r.Interrupted || r.Rounds == 0 || r.VersusRatio <= 0 {
		t.Errorf("%+v", r)
	}
	p = start(t, "bench factors --duration 1h --rounds 1 --json"+gentle)
	waitFor(t, p.errLines, "measuring")
	if out, err := p.interrupt(t); err == nil || out != "" {
		t.Errorf("ended with %v and said %q", err, out)
	}
}

// TestIdleThreadAnswers: the loop of a thread without a task still takes packets, so
// that it answers heartbeats.
func TestIdleThreadAnswers(t *testing.T) {
	f := &netFlags{Transport: "udp", CC: "timely", Wait: "adaptive", Pin: "none"}
	e := &env{ctx: t.Context()}
	team, err := openTeam(e, f, &faultFlags{}, peer{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rpc := team.workers[0].ep.rpc
	for before := rpc.Stats().RxPackets; rpc.Stats().RxPackets == before; {
		runtime.Gosched()
	}
	if err := team.close(); err != nil {
		t.Error(err)
	}
}

// near compares what was computed in another order.
func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
