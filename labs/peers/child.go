package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/load"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// gcPercent is bin/erpc's default, so that all have the same.
const gcPercent = 400

// maxSize is the largest message that bin/erpc takes.
const maxSize = 64 << 20

// shape describes one measurement, for all its processes.
type shape struct {
	size, resp    int
	window, conns int
	duration      time.Duration
	work          echo.Work
}

// flags declares those of a shape.
func (s *shape) flags(set *flag.FlagSet) {
	set.IntVar(&s.size, "size", 32, "`bytes` in a request")
	set.IntVar(&s.resp, "resp-size", -1, "`bytes` in a response; -1: an echo of the request")
	set.IntVar(&s.window, "window", 60,
		"RPCs in flight, each from a goroutine of its own; of tcp and udp one keeps all of its "+
			"connection")
	set.IntVar(&s.conns, "conns", 1,
		"connections that they share; drpc always has one for each RPC in flight")
	set.DurationVar(&s.duration, "duration", time.Second, "how long to measure")
	set.Var(&s.work, "work", "what handlers do: none, sleep:`TIME` or compute:TIME")
}

func (s *shape) check() error {
	if s.resp == -1 {
		s.resp = s.size
	}
	switch {
	case s.size < 0 || s.size > maxSize:
		return usagef("--size %d: want 0 to %d", s.size, maxSize)
	case s.resp < 0 || s.resp > maxSize:
		return usagef("--resp-size %d: want 0 to %d", s.resp, maxSize)
	case s.window < 1 || s.window > 1<<12:
		return usagef("--window %d: want 1 to %d", s.window, 1<<12)
	case s.conns < 1 || s.conns > 1<<12:
		return usagef("--conns %d: want 1 to %d", s.conns, 1<<12)
	case s.duration < time.Millisecond:
		return usagef("--duration %v: want at least 1ms", s.duration)
	}
	return nil
}

// args are the flags that give another process this shape.
func (s *shape) args() []string {
	return []string{
		fmt.Sprint("--size=", s.size), fmt.Sprint("--resp-size=", s.resp),
		fmt.Sprint("--window=", s.window), fmt.Sprint("--conns=", s.conns),
		fmt.Sprint("--duration=", s.duration), fmt.Sprint("--work=", s.work),
	}
}

func (s *shape) sizes() echo.Sizes {
	return echo.Sizes{Request: s.size, Response: s.resp, Work: s.work}
}

// findPeer says which there are if it is none. Flag is where the name is from.
func findPeer(flag, name string) (echo.Peer, error) {
	p, ok := echo.ByName(name)
	if !ok {
		return p, usagef("%s: %q is unknown; there are %s", flag, name, strings.Join(peerNames(), ", "))
	}
	return p, fit(flag, p)
}

// fit is an error if the peer cannot work on this system.
func fit(flag string, p echo.Peer) error {
	if p.Unfit != "" {
		return usagef("%s: %s cannot work here: %s", flag, p.Name, p.Unfit)
	}
	return nil
}

// carries is an error if messages of this shape are too large for the peer.
func carries(p echo.Peer, s shape) error {
	if n := max(s.size, s.resp); p.MaxSize > 0 && n > p.MaxSize {
		return fmt.Errorf("%s carries messages of at most %d bytes, not %d", p.Name, p.MaxSize, n)
	}
	return nil
}

// peerNames are those that can work on this system.
func peerNames() (names []string) {
	for _, p := range echo.Peers() {
		if p.Unfit == "" && !p.Secure {
			names = append(names, p.Name)
		}
	}
	return names
}

// setupServe is the server process: it prints its address and serves until its standard
// input ends.
func setupServe(set *flag.FlagSet) func(env) error {
	var s shape
	s.flags(set)
	name := set.String("peer", "", "the peer's `name`")
	at := set.String("at", "", "the `address` to listen at, of peers that can choose; any without it")
	gc := set.Int("gc", gcPercent, "GOGC")
	tell := set.Bool("tell", false, "print what was used and sent, at the end")
	return func(e env) error {
		p, err := findPeer("--peer", *name)
		if err = errors.Join(err, s.check()); err != nil {
			return err
		}
		debug.SetGCPercent(*gc)
		listen := p.Listen
		if *at != "" {
			if p.ListenAt == nil {
				return usagef("--at: %s chooses its address", p.Name)
			}
			listen = func(z echo.Sizes) (echo.Server, error) { return p.ListenAt(*at, z) }
		}
		srv, err := listen(s.sizes())
		if err != nil {
			return err
		}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve() }()
		fmt.Fprintln(e.out, srv.Addr())
		select {
		case err := <-ended:
			return fmt.Errorf("%s: the server ended: %w", p.Name, err)
		case <-inputEnds(e):
			if *tell {
				err = json.NewEncoder(e.out).Encode(servedBy(srv))
			}
			_ = srv.Close() // nobody is left to be told
			return err
		}
	}
}

// served counts what a server's process used and sent until its end.
type served struct {
	Packets, Sends uint64 // 0 if that is not counted
	Memory         int64  // the most bytes resident
}

func servedBy(srv echo.Server) (s served) {
	if c, ok := srv.(echo.Counted); ok {
		s.Packets, s.Sends = c.Sent()
	}
	s.Memory = peakMemory()
	return s
}

// inputEnds returns a channel that is closed when the standard input ends: a parent's way to
// end a child.
func inputEnds(e env) <-chan struct{} {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_, _ = io.Copy(io.Discard, e.in)
	}()
	return closed
}

// setupClient is the client process: it measures and prints a report.Turn.
func setupClient(set *flag.FlagSet) func(env) error {
	var s shape
	s.flags(set)
	name := set.String("peer", "", "the peer's `name`")
	addr := set.String("addr", "", "the server's `address`")
	pid := set.Int("server-pid", 0, "the server's process, whose CPU time is counted")
	var a load.Arrivals
	set.Float64Var(&a.Rate, "arrivals", 0,
		"`calls` per second that arrive at random; 0: the window is kept full")
	set.Uint64Var(&a.Seed, "seed", 1, "of the arrivals")
	gc := set.Int("gc", gcPercent, "GOGC")
	beside := set.Int("beside", 0, "further RPCs in flight, of other sizes, not among the figures")
	besideSize := set.Int("beside-size", 64<<10, "their `bytes`")
	whole := set.Bool("whole", false, "compare all bytes of all responses, not of the warm-up's alone")
	spin := set.Bool("spin", false, "a goroutine computes, alone at first, then beside the calls")
	return func(e env) error {
		p, err := findPeer("--peer", *name)
		if err = errors.Join(err, s.check()); err != nil {
			return err
		}
		debug.SetGCPercent(*gc)
		c := load.Config{Peer: p, Addr: *addr, Sizes: s.sizes(), Window: s.window, Conns: s.conns,
			Whole: *whole, Beside: *beside, BesideSize: *besideSize,
			// the warm-up as in bin/erpc
			Warmup: min(s.duration/10, 300*time.Millisecond), Duration: s.duration,
			CPU: func() time.Duration { return cpuTime(os.Getpid()) + cpuTime(*pid) }}
		var res load.Result
		var spun spinner
		if *spin {
			spun.begin(s.duration)
		}
		if a.Rate == 0 {
			res, err = load.Run(e.ctx, c)
		} else {
			res, err = load.Open(e.ctx, c, a)
		}
		kept := spun.end()
		if err != nil {
			return err
		}
		t := report.Turn{Kept: kept, Run: newRun(p, s, res), All: res.All}
		t.Packets, t.Sends = each(res.Packets, res.All), each(res.Sends, res.All)
		t.BesideRps = float64(res.Beside) / res.Elapsed.Seconds()
		if res.Late != nil {
			t.Bench, t.Late = "open", float64(res.Late.ValueAtQuantile(50))/1e3
		}
		return json.NewEncoder(e.out).Encode(t)
	}
}

// each is how many there are for each call.
func each(n uint64, calls int64) float64 { return float64(n) / float64(max(1, calls)) }

func newRun(p echo.Peer, s shape, res load.Result) report.Run {
	us := func(q float64) float64 { return float64(res.Hist.ValueAtQuantile(q)) / 1e3 }
	r := report.Run{
		Bench: "rate", Peer: p.Name, Version: version(p), Transport: p.Transport, Size: s.size,
		RespSize: s.resp,
		Window:   s.window, Conns: res.Conns, Duration: res.Elapsed.Seconds(), Rpcs: res.Rpcs,
		Rps: float64(res.Rpcs) / res.Elapsed.Seconds(), Mean: res.Hist.Mean() / 1e3,
		P50: us(50), P99: us(99), P999: us(99.9), Max: float64(res.Hist.Max()) / 1e3,
		CPU: float64(res.CPU) / float64(res.Rpcs),
	}
	if s.window == 1 {
		r.Bench = "latency"
	}
	r.SetGbps()
	return r
}

// version returns the peer's version as it was built in.
func version(p echo.Peer) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if p.Module == "" {
		return info.GoVersion
	}
	for _, m := range info.Deps {
		if m.Path == p.Module && m.Replace == nil {
			return m.Version
		}
	}
	return "" // of the same tree as this program
}

// lastLine is the last line that a process said.
func lastLine(b *bytes.Buffer) string {
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
