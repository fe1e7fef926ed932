package measure

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestFlagsReachConfig: each flag sets what it names in the configuration, and
// nothing else.
func TestFlagsReachConfig(t *testing.T) {
	base := NetFlags{Transport: "udp", CC: "timely"}
	for name, c := range map[string]struct {
		set  func(*NetFlags)
		want func(*erpc.Config)
	}{
		"timely": {func(f *NetFlags) {
		}, func(c *erpc.Config) {
			c.Congestion.Algorithm = erpc.CCTimely
		}},
		"none": {func(f *NetFlags) { f.CC = "none" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCNone }},
		"dcqcn": {func(f *NetFlags) { f.CC = "dcqcn" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCDCQCN }},
		"swift": {func(f *NetFlags) { f.CC = "swift" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCSwift }},
		"cubic": {func(f *NetFlags) { f.CC = "cubic" },
			func(c *erpc.Config) { c.Congestion.Algorithm = erpc.CCCubic }},
		"link-rate": {func(f *NetFlags) { f.LinkRate = 25e9 },
			func(c *erpc.Config) { c.Congestion.LinkRate = 25e9 }},
		"no-batched-time": {func(f *NetFlags) { f.NoBatchedTime = true },
			func(c *erpc.Config) { c.Experiment.NoBatchedTime = true }},
		"no-rate-bypass": {func(f *NetFlags) { f.NoRateBypass = true },
			func(c *erpc.Config) { c.Experiment.NoRateBypass = true }},
		"no-pacing-bypass": {func(f *NetFlags) { f.NoPacingBypass = true },
			func(c *erpc.Config) { c.Experiment.NoPacingBypass = true }},
		"no-prealloc": {func(f *NetFlags) { f.NoPrealloc = true },
			func(c *erpc.Config) { c.Experiment.NoPrealloc = true }},
		"no-bundles": {func(f *NetFlags) { f.NoBundles = true },
			func(c *erpc.Config) { c.NoBundles = true }},
		"one client": {func(f *NetFlags) { f.oneClient = true },
			func(c *erpc.Config) { c.Shares.Off = true }},
		"no-zero-copy": {func(f *NetFlags) { f.NoZeroCopy = true },
			func(c *erpc.Config) { c.Experiment.NoZeroCopy = true }},
	} {
		f, want := base, erpc.Config{MaxMessage: maxMessage}
		c.set(&f)
		c.want(&want)
		if got := f.Config(); !reflect.DeepEqual(got, want) {
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
	f := NetFlags{Transport: "udp", CC: "none", LinkRate: 25e9, OwnCore: true, GC: 400,
		switches: switches{true, true, true, true, true, true, true, true}}
	c, err := StartServer(&f, 1, "none")
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
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// TestObserve: an endpoint with the switches is scraped, or records; one without them is neither.
func TestObserve(t *testing.T) {
	for _, sw := range []switches{{}, {Scraped: true}, {Recorded: true}} {
		f := NetFlags{Transport: "udp", Pin: "none", CC: "timely", switches: sw}
		tr, err := f.Listen("127.0.0.1:0")
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

// TestIdleThreadAnswers: the loop of a thread without a task still takes packets, so
// that it answers heartbeats.
func TestIdleThreadAnswers(t *testing.T) {
	f := &NetFlags{Transport: "udp", CC: "timely", Wait: "adaptive", Pin: "none"}
	e := &Env{Env: &cli.Env{Ctx: t.Context()}}
	team, err := openTeam(e, f, &FaultFlags{}, peer{}, 1)
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

// TestFailedRound: a measurement of one round prints what it has of that.
func TestFailedRound(t *testing.T) {
	b := &bench{name: "rate", flags: &BenchFlags{Rounds: 1}, hist: newHistogram()}
	b.flags.Transport = "udp"
	var out bytes.Buffer
	e := &Env{Env: &cli.Env{Ctx: t.Context(), Out: &out}}
	died := errors.New("the server process ended: killed")
	if err := b.report(e, died); !errors.Is(err, died) || out.Len() > 0 {
		t.Errorf("without a round: %v, %q", err, &out)
	}
	b.rounds = []sum{{round: round{done: 500, rate: 1000, elapsed: time.Second / 2}, threads: 1}}
	if err := b.report(e, died); !errors.Is(err, died) ||
		!strings.Contains(out.String(), "500 RPCs") || !strings.Contains(out.String(), died.Error()) {
		t.Errorf("with a round: %v, %q", err, &out)
	}
}

// TestTimeline: the rate of a time is that of all threads, and a stall spreads over its time.
func TestTimeline(t *testing.T) {
	l := timeline{every: 10}
	l.add([]mark{{10, 100}, {20, 200}, {40, 240}})
	l.add([]mark{{10, 50}, {20, 100}})
	l.next()
	l.add([]mark{{11, 11}})
	var got []string
	for _, r := range l.rates {
		got = append(got, strconv.FormatFloat(r/1e9, 'g', 4, 64))
	}
	if want := "15 15 2 2 1"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestServerKinds: arms share a server process unless it is to behave differently or
// sends requests itself.
func TestServerKinds(t *testing.T) {
	count := func(b *bench, variants []Variant) int {
		c := &comparison{}
		kinds := map[serverKind]bool{c.add(b,
			Variant{Name: "baseline", Set: func(*NetFlags) {}}).serverKind(): true}
		for _, v := range variants {
			kinds[c.add(b, v).serverKind()] = true
		}
		return len(kinds)
	}
	b := &bench{flags: &BenchFlags{LoadFlags: LoadFlags{NetFlags: NetFlags{CC: "timely"}}}}
	ecn := []Variant{{Name: "dcqcn", Set: func(f *NetFlags) { f.CC = "dcqcn" }},
		{Name: "none", Set: func(f *NetFlags) { f.CC = "none" }}}
	all := []Variant{{Name: "nothing", Set: func(*NetFlags) {}},
		{Name: "batched_time", Set: func(f *NetFlags) { f.NoBatchedTime = true }},
		{Name: "rate_bypass", Set: func(f *NetFlags) { f.NoRateBypass = true }},
		{Name: "pacing_bypass", Set: func(f *NetFlags) { f.NoPacingBypass = true }},
		{Name: "prealloc", Set: func(f *NetFlags) { f.NoPrealloc = true }},
		{Name: "zero_copy", Set: func(f *NetFlags) { f.NoZeroCopy = true }},
		{Name: "both", Set: func(f *NetFlags) { f.NoPrealloc, f.NoZeroCopy = true, true }},
		{Name: "bundles", Set: func(f *NetFlags) { f.NoBundles = true }},
		{Name: "cc", Set: func(f *NetFlags) { f.CC = "none" }}}
	if n := count(b, all); n != 5 { // prealloc and zero_copy, both on or off; bundles off
		t.Errorf("%d kinds of servers, want 5", n)
	}
	if n := count(b, ecn); n != 2 {
		t.Errorf("%d kinds of servers, want 2: with ECN and without", n)
	}
	b.symmetric = true
	if n := count(b, all); n != 1+len(all) {
		t.Errorf("%d kinds of servers, want %d", n, 1+len(all))
	}
}

// TestLoadChangesClient: a server with --symmetric serves one client's load at a time,
// and the next client's when that has ended.
func TestLoadChangesClient(t *testing.T) {
	server, first, _ := testPair(t)
	_, second, _ := testPair(t)
	server.allowLoad = true
	s := Shape{Size: 32, RespSize: 32, Window: 4, Batch: 1, Sessions: 1}
	begin := func(ep *endpoint, s Shape) error {
		return server.obey(&control{Op: "load", Load: s}, &report{}, ep.rpc.LocalAddr())
	}
	run := func(over func() bool) {
		for !over() {
			turn(t, server, first, second)
		}
	}
	busy := func() bool { return server.load.done > 10 }
	quiet := func() bool { return server.load.inFlight == 0 }
	if err := begin(first, s); err != nil {
		t.Fatal(err)
	}
	run(busy)
	if err := begin(second, s); err == nil || !strings.Contains(err.Error(), "another client") {
		t.Errorf("second client beside the first: %v", err)
	}
	rep := report{}
	if err := server.obey(&control{Op: "unload"}, &rep, first.rpc.LocalAddr()); err != nil ||
		rep.Done == 0 || rep.InFlight == 0 {
		t.Errorf("unload: %v, %+v", err, rep)
	}
	run(quiet)
	large := s
	large.Size = 100
	for _, next := range []struct {
		ep *endpoint
		s  Shape
	}{{second, s}, {second, large}, {first, s}} {
		served := next.ep.served
		if err := begin(next.ep, next.s); err != nil {
			t.Fatal(err)
		}
		run(busy)
		server.load.stopping = true
		run(quiet)
		if server.load.asked != next.s || next.ep.served == served {
			t.Errorf("load %+v, %d served", server.load.asked, next.ep.served-served)
		}
	}
}
