package measure

import (
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// testPair opens a server and a client endpoint on loopback, to be run by hand.
func testPair(t *testing.T) (server, client *endpoint, sess *erpc.Session) {
	t.Helper()
	var stop atomic.Bool
	open := func() *endpoint {
		f := &NetFlags{Transport: "udp", Wait: "spin"}
		tr, err := f.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ep, err := openEndpoint(f, tr, -1, &stop)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ep.close(); err != nil {
				t.Error(err)
			}
		})
		return ep
	}
	server, client = open(), open()
	sess, err := client.rpc.CreateSession(server.rpc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	for !sess.Connected() {
		if sess.Err() != nil {
			t.Fatal(sess.Err())
		}
		turn(t, server, client)
	}
	return server, client, sess
}

// turn makes one pass of each endpoint.
func turn(t *testing.T, eps ...*endpoint) {
	for _, ep := range eps {
		if ep.load != nil {
			ep.load.now = 0
		}
		if _, err := ep.rpc.RunOnce(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLoadAllocatesNothing(t *testing.T) {
	server, client, sess := testPair(t)
	s := Shape{Size: 32, RespSize: 32, Window: 60, Batch: 3, Sessions: 1}
	l, err := newLoad(client.rpc, s, func() (*erpc.Session, error) { return sess, nil })
	if err != nil {
		t.Fatal(err)
	}
	client.load = l
	l.begin(false)
	for l.done < 5000 {
		turn(t, server, client)
	}
	before := l.done
	if n := testing.AllocsPerRun(500, func() { turn(t, server, client) }); n != 0 {
		t.Errorf("%v allocations per pass", n)
	}
	if l.done == before || l.errs != 0 {
		t.Errorf("%d RPCs, %d errors: %v", l.done-before, l.errs, l.err)
	}
	l.stopping = true
	for l.inFlight > 0 {
		turn(t, server, client)
	}
	if n := len(l.idle); n != s.Window || l.result().rate <= 0 || l.hist.TotalCount() == 0 {
		t.Errorf("%d idle of %d, %+v", n, s.Window, l.result())
	}
}

// TestNoRPCEnds: if no RPC of a turn has ended the error says whether the server answers, and then
// what to set.
func TestNoRPCEnds(t *testing.T) {
	server, client, sess := testPair(t)
	s := Shape{Size: 8 << 20, RespSize: 32, Window: 1, Batch: 1, Sessions: 1}
	l, err := newLoad(client.rpc, s, func() (*erpc.Session, error) { return sess, nil })
	if err != nil {
		t.Fatal(err)
	}
	client.load = l
	l.begin(false)
	w := worker{ep: client, addr: "there"}
	for !w.answers() { // the first of some thousand packets
		turn(t, server, client)
	}
	err = w.silent()
	if l.done > 0 || !strings.Contains(err.Error(), "set --size or --window lower") {
		t.Errorf("%d RPCs, %v", l.done, err)
	}
	for w.answers() {
		turn(t, client) // the server stands still
	}
	if err := w.silent(); !strings.Contains(err.Error(), "nothing runs the server's loop") {
		t.Error(err)
	}
}

func TestControlRefuses(t *testing.T) {
	server, _, _ := testPair(t)
	for _, c := range []control{
		{Op: "raw", Raw: rawEcho, RespSize: 50},
		{Op: "load", Load: Shape{Window: 1, Sessions: 1, Batch: 1}}, {Op: "reboot"}, {},
	} {
		if err := server.obey(&c, &report{}, server.rpc.LocalAddr()); err == nil {
			t.Errorf("%+v was obeyed", c)
		}
	}
	server.allowRaw, server.allowLoad = true, true
	for _, c := range []control{
		{Op: "raw", Raw: rawEcho}, {Op: "raw", Raw: "nonsense", RespSize: 50},
		{Op: "raw", Raw: rawSink, RespSize: 1 << 20},
		{Op: "load"}, {Op: "load", Load: Shape{Window: 1 << 30, Sessions: 1, Batch: 1}},
		{Op: "load", Load: Shape{Window: 1, Sessions: 1, Batch: 1, Size: -1}},
	} {
		if err := server.obey(&c, &report{}, server.rpc.LocalAddr()); err == nil {
			t.Errorf("%+v was obeyed", c)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := cli.Median(c.v); got != c.want {
			t.Errorf("cli.Median(%v) = %v, want %v", c.v, got, c.want)
		}
	}
}

func TestRatioIsMedianOfRounds(t *testing.T) {
	b := bench{name: "rate", flags: &BenchFlags{}, hist: newHistogram()}
	for i, rate := range []float64{50, 90, 10} {
		b.rounds = append(b.rounds, sum{round: round{done: 1, rate: rate}})
		b.raws = append(b.raws, sum{round: round{rate: []float64{100, 100, 100}[i]}})
	}
	if r := b.result(); r.Ratio != 0.5 || r.Rps != 50 || r.RawRps != 100 {
		t.Errorf("%+v", r)
	}
}

// TestCrowded: loops that outnumber the cores of their pins, or those allowed, are worth a word.
func TestCrowded(t *testing.T) {
	for _, c := range []struct {
		pins, allowed []int
		want          string
	}{
		{[]int{0, 1}, []int{0, 1}, ""},
		{[]int{-1, -1}, []int{0, 1}, ""},
		{[]int{-1, -1, -1}, []int{0, 1}, "3 event loops take turns on 2 cores:"},
		{[]int{0, 1, 0, 1, 0, 1, 0, 1}, []int{0, 1, 2, 3, 4, 5, 6, 7},
			"8 event loops take turns on 2 cores:"},
		{[]int{3, 3}, []int{0, 1, 2, 3}, "2 event loops take turns on 1 core:"},
		{[]int{-1, -1, -1}, nil, ""}, // the system does not say
	} {
		got := crowded(c.pins, c.allowed)
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%v of %v: %q, want %q", c.pins, c.allowed, got, c.want)
		}
	}
}

// TestTuneProcessors: loops get a processor each and leave one, unless the user says how many there
// are.
func TestTuneProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	gc := debug.SetGCPercent(100)
	t.Cleanup(func() {
		runtime.GOMAXPROCS(before)
		debug.SetGCPercent(gc)
	})
	f := &NetFlags{GC: 100}
	for _, c := range []struct {
		env               string
		have, loops, want int
	}{
		{"", 2, 1, 2}, {"", 1, 1, 2}, {"", 2, 4, 5}, {"", 8, 4, 8}, {"2", 2, 4, 2},
	} {
		t.Setenv("GOMAXPROCS", c.env)
		runtime.GOMAXPROCS(c.have)
		f.tune(c.loops)
		if got := runtime.GOMAXPROCS(0); got != c.want {
			t.Errorf("%d loops, %d processors, GOMAXPROCS=%q: %d, want %d",
				c.loops, c.have, c.env, got, c.want)
		}
	}
}

// TestSampledOps: under load the RPCs whose latency is recorded are one in sampleEvery, and over
// time each place of any window and each session in turn is among them.
func TestSampledOps(t *testing.T) {
	const samples = 10_000
	for _, period := range []uint64{2, 16, 64, 256} {
		l := load{every: sampleEvery}
		seen, at := map[uint64]int{}, uint64(0)
		for range samples {
			at += l.gap()
			seen[at%period]++
		}
		if mean := float64(at) / samples; mean < 0.97*sampleEvery || mean > 1.03*sampleEvery {
			t.Errorf("one in %.1f is recorded", mean)
		}
		for place := range period {
			if n := seen[place]; n < samples/int(period)/2 || n > samples/int(period)*2 {
				t.Errorf("place %d of %d is recorded %d times of %d", place, period, n, samples)
			}
		}
	}
	l := load{every: 1}
	for range 2 {
		if l.gap() != 1 {
			t.Error("not each one is recorded")
		}
	}
}
