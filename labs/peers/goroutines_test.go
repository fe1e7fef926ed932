package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// TestGoRows: every case has a name of its own, and its bars are about what it measures.
func TestGoRows(t *testing.T) {
	g := &goroutines{peers: strings.Join(goPeers(), ",")}
	names := map[string]bool{}
	for _, row := range goRows() {
		for _, c := range row.cases {
			if key := row.name + "/" + c.Name; names[key] || len(c.Columns) == 0 || c.What == "" {
				t.Errorf("%s: twice, or it says too little", key)
			} else {
				names[key] = true
			}
			var who []string
			list, _ := g.contestants(&c)
			for _, k := range list {
				who = append(who, k.name)
			}
			if len(who) == 0 { // this system cannot do it
				continue
			}
			if c.Base != "" && !slices.Contains(who, c.Base) {
				t.Errorf("%s: the base %s is not among %q", c.Name, c.Base, who)
			}
			for _, b := range c.Bars {
				if !slices.Contains(who, b.Peer) || b.Base != "" && b.Base != c.Base ||
					!slices.Contains(c.Columns, b.Column) {
					t.Errorf("%s: nothing measures %+v", c.Name, b)
				}
			}
		}
	}
}

// TestGoBars: the bars, in a few words each. Those without names are for this library's client
// beside grpc-go.
func TestGoBars(t *testing.T) {
	want := `callers, 64 callers: rate at least 20, cpu at most 0.0556
mux, 1 caller: rate at least 1.5 of mux
mux, 64 callers: rate at least 2 of mux
mux, 512 callers: rate at least 1.4 of mux
mux, 1000 callers: rate at least 1.3 of mux
mux, 5 k calls/s: cpu at most 0.9 of mux, p50 at most 1.1 of mux, p99 at most 1.1 of mux
mux, 20 k calls/s: cpu at most 0.9 of mux, p50 at most 1.1 of mux, p99 at most 1.1 of mux
mux, 50 k calls/s: cpu at most 0.9 of mux, p50 at most 1.1 of mux, p99 at most 1.1 of mux
processors, 64 callers: rate at least 0.9 of GOMAXPROCS=1
spinner, 64 callers: kept at least 0.9 alone
half, 64 callers: p99.9 at most 0.3
one-core, 1 caller: rate at least 3
one-core, 64 callers: rate at least 12
neighbours, 64 callers: rate at least 10
open, 5 k calls/s: cpu at most 0.5, p50 below 1, p99 below 1
open, 20 k calls/s: cpu at most 0.333, p50 below 1, p99 below 1
open, 50 k calls/s: cpu at most 0.333, p50 below 1, p99 below 1
blocking, 1ms, 64 callers: rate at least 0.95, cpu at most 0.7
blocking, 1ms, 200 callers: rate at least 0.95, cpu at most 0.7
blocking, 10ms, 64 callers: rate at least 1, cpu at most 0.7
blocking, 10ms, 200 callers: rate at least 1, cpu at most 0.7
computing, 64 callers: rate at least 1.4
idle, 100 clients: share at most 0.005 alone, threads at most 4 alone
kill, 2 servers: lowest at least 0.9 alone, excess at most 10 alone, ejected at most 1e+05 alone
loops, threads: 4 threads rate at least 0.5 of 1 thread
loops, udp: adaptive rate at least 0.9 of spin
loops, shm: adaptive rate at least 0.8 of spin, sleep rate at least 0.25 of spin
loops, busy cores: adaptive rate at least 0.9 of sleep, spin rate at least 0.3 of sleep
bistable, 1 caller: worst rate at least 0.5 alone
`
	var got strings.Builder
	for _, row := range goRows() {
		if row.name == "dial" {
			continue // TestDialBars
		}
		for _, c := range row.cases {
			var bars []string
			for _, b := range c.Bars {
				bars = append(bars, barText(b))
			}
			if bars != nil {
				fmt.Fprintf(&got, "%s, %s: %s\n", row.name, c.Name, strings.Join(bars, ", "))
			}
		}
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

// TestDialBars: each way to dial has the same bars with any number of callers: so much of grpc-go's
// rate, and times.
func TestDialBars(t *testing.T) {
	const times = "p99.9 at most 2e+04 alone, max below 2e+05 alone"
	want := map[string]string{
		"erpc-dial": "2 of grpc-go-dial", "erpc-loop-dial": "2 of grpc-go-dial",
		"erpc-psk-dial": "2 of grpc-go-dial", "erpc-psk-loop-dial": "2 of grpc-go-dial",
		"erpc-tls-dial": "1.2 of grpc-go-tls-dial", "erpc-tls-loop-dial": "1.2 of grpc-go-tls-dial",
		"erpc-tls-new-dial":      "0.8 of grpc-go-tls-dial",
		"erpc-tls-new-loop-dial": "0.8 of grpc-go-tls-dial",
	}
	for _, c := range dialCases() {
		got := map[string][]string{}
		for _, b := range c.Bars {
			got[b.Peer] = append(got[b.Peer], strings.TrimPrefix(barText(b), b.Peer+" "))
		}
		for _, name := range c.peers {
			bars := strings.Join(got[name], ", ")
			if want[name] == "" && bars != "" || want[name] != "" &&
				bars != "rate at least "+want[name]+", "+times {
				t.Errorf("%s: %s: %s", c.Name, name, bars)
			}
		}
	}
	if n := len(dialCases()); n != 6 {
		t.Errorf("%d cases, want 6", n)
	}
}

func barText(b report.Bar) string {
	text := fmt.Sprintf("%s %s %.3g", b.Column, b.Limit, b.Bound)
	if b.Worst {
		text = "worst " + text
	}
	if b.Peer != ours {
		text = b.Peer + " " + text
	}
	switch b.Base {
	case "":
		text += " alone"
	case defaultBase:
	default:
		text += " of " + b.Base
	}
	return text
}

// fakeContestants fail in the round that is given; 0: never.
func fakeContestants(failIn int, names ...string) (list []goContestant) {
	for _, name := range names {
		list = append(list, goContestant{name, func(_ context.Context, round int) (report.Turn, error) {
			if round == failIn {
				return report.Turn{}, errors.New("boom")
			}
			return report.Turn{Run: report.Run{Rps: float64(round)}}, nil
		}})
	}
	return list
}

// TestTurns: all cases in each round, another contestant first in each, and two turns of each
// where a case wants that.
func TestTurns(t *testing.T) {
	cases := []goCase{{Case: report.Case{Name: "x"}}, {turns: 2, Case: report.Case{Name: "y"}}}
	who := [][]goContestant{fakeContestants(0, "a", "b", "c"), fakeContestants(0, "a", "b")}
	var got []string
	for _, turn := range turns(cases, who, 2) {
		got = append(got, fmt.Sprint(turn.of.Name, turn.who.name, turn.round))
	}
	want := "xa1 xb1 xc1 ya1 yb1 ya1 yb1 xb2 xc2 xa2 yb2 ya2 yb2 ya2"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// TestTurn: a turn bears its case's names; its error is given.
func TestTurn(t *testing.T) {
	c := &goCase{Case: report.Case{Row: "row", Name: "case"}}
	turn := goTurn{c, fakeContestants(2, "a")[0], 1}
	r, err := turn.make(t.Context())
	if err != nil || r.Row != "row" || r.Case != "case" || r.Peer != "a" ||
		r.Round != 1 || r.Rps != 1 {
		t.Errorf("%v: %+v", err, r)
	}
	turn.round = 2
	if _, err := turn.make(t.Context()); err == nil || err.Error() != "boom" {
		t.Error(err)
	}
}

// TestLeftOut: a case leaves out the contestants that make no sense in it, and says why.
func TestLeftOut(t *testing.T) {
	g := &goroutines{peers: strings.Join(peerNames(), ",")}
	list, out := g.contestants(&goCase{})
	for i, raw := range []string{"tcp", "udp"} {
		if slices.ContainsFunc(list, func(k goContestant) bool { return k.name == raw }) {
			t.Errorf("%s is measured", raw)
		}
		p, _ := echo.ByName(raw)
		if p.Unfit == "" && (len(out) != 2 || !strings.HasPrefix(out[i], raw+": ")) {
			t.Errorf("%q", out)
		}
	}
	if all := goPeers(); slices.Contains(all, "tcp") || slices.Contains(all, "udp") ||
		!slices.Contains(all, ours) ||
		!slices.Contains(all, defaultBase) {
		t.Errorf("%q", goPeers())
	}
	list, out = g.contestants(&goCase{kind: loopKind, loops: waiting("udp", "spin", "sleep")})
	if len(list) != 2 || list[1].name != "sleep" || len(out) != 1 {
		t.Errorf("%d loops, %q", len(list), out)
	}
}

// TestGoroutines: every row, with two peers, each in processes of its own; in short mode a
// row of each kind.
func TestGoroutines(t *testing.T) {
	rows := goRows()
	if testing.Short() {
		rows = slices.DeleteFunc(rows, func(r goRow) bool {
			return !slices.Contains([]string{"one-core", "open", "idle", "kill", "bistable"}, r.name)
		})
	}
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	code, out, said := try(t, "goroutines", "--erpc="+erpcForTest(t),
		"--rows="+strings.Join(names, ","), "--peers=grpc-go,erpc-client", "--rounds=1",
		"--duration=2ms", "--json")
	var g report.Goroutines
	if err := json.Unmarshal([]byte(out), &g); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, said)
	}
	i := 0
	for _, row := range rows {
		for _, c := range row.cases {
			checkCase(t, c, g.Cases[i])
			i++
		}
	}
	if i != len(g.Cases) || g.Bench != report.GoroutinesName || g.Rounds != 1 ||
		g.Duration != 0.002 || g.Machine.Cores < 1 {
		t.Errorf("%d cases, %+v", i, g)
	}
	open := slices.IndexFunc(g.Turns, func(r report.Turn) bool { return r.Row == "open" })
	if r := g.Turns[open]; r.Bench != "open" || r.Late <= 0 || r.Window != openWindow {
		t.Errorf("%+v", r)
	}
	twice := 0
	for _, r := range g.Turns {
		if r.Row == "bistable" && r.Peer == ours {
			twice++
		}
	}
	if twice != 2 {
		t.Errorf("%d turns in the row bistable, want 2", twice)
	}
}

// checkCase looks at the results of a case.
func checkCase(t *testing.T, want goCase, got report.Case) {
	t.Helper()
	who := 2 // peers
	if want.kind == loopKind {
		who = len(want.loops)
	}
	if want.peers != nil {
		who = len(want.peers)
	}
	if want.arrivals > 0 || want.oneProc {
		who++ // the least program, or the one with GOMAXPROCS=1
	}
	if len(got.Results) != who && runtime.GOOS == "linux" {
		t.Errorf("%s, %s: %d results, want %d", got.Row, got.Name, len(got.Results), who)
	}
	for _, r := range got.Results {
		figures := want.Columns
		if want.kind == idleKind {
			figures = []string{"share"}
			if _, ok := r.Figures["threads"]; !ok { // one that runs already may do for a Loop
				t.Errorf("%s has no threads: %+v", r.Peer, r)
			}
		}
		if want.kind == killKind {
			figures = nil
			for _, f := range []string{"lost", "excess"} {
				if _, ok := r.Figures[f]; !ok {
					t.Errorf("%s has no %s: %+v", r.Peer, f, r)
				}
			}
			if d := r.Figures["ejected"]; r.Peer == ours && d.Median > 5e6 {
				t.Errorf("ejected after %v us", d.Median)
			}
		}
		for _, f := range figures {
			if s, ok := r.Figures[f]; !ok || s.Median <= 0 {
				t.Errorf("%s, %s: %s has no %s: %+v", got.Row, got.Name, r.Peer, f, r)
			}
		}
	}
	for _, b := range got.Bars {
		if len(got.Results) > 0 && b.Verdict == report.NotMeasured {
			t.Errorf("%s, %s: %+v", got.Row, got.Name, b)
		}
	}
}

// TestGoroutinesText: one row, as people see it, with a peer that is left out.
func TestGoroutinesText(t *testing.T) {
	args := []string{"goroutines", "--rows=computing", "--peers=net/rpc,tcp", "--rounds=1",
		"--duration=2ms"}
	code, out, said := try(t, args...)
	for _, want := range []string{"computing, 64 callers: ", "net/rpc go",
		"erpc-client, calls/s: at least 1.4 times grpc-go's: not measured",
		"Bars: 0 met, 0 missed, 1 not measured"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, said)
		}
	}
	p, _ := echo.ByName("tcp")
	if p.Unfit == "" && !strings.Contains(out, "left out: tcp: one thread that spins") {
		t.Errorf("tcp is not spoken of:\n%s", out)
	}
}

// TestGoroutinesFail: turns that fail are named, and the others are worth having.
func TestGoroutinesFail(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("bin/erpc is a shell script in this test")
	}
	bin := filepath.Join(t.TempDir(), "erpc")
	script := "#!/bin/sh\ncase \"$*\" in *--wait=spin*) echo no luck >&2; exit 1;; esac\n" +
		`echo '{"rps":1000,"p50_us":1,"p99_us":2,"errors":0}'` + "\n"
	if err := os.WriteFile(bin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, out, said := try(t, "goroutines", "--rows=loops", "--erpc="+bin, "--rounds=1",
		"--duration=1ms")
	if code != 1 || !strings.Contains(out, "round 1 of 1: spin: erpc bench rate over udp") ||
		!strings.Contains(out, "no luck") || !strings.Contains(said, "turns failed") {
		t.Errorf("exit %d:\n%s%s", code, out, said)
	}
	if !strings.Contains(out, "4 threads, calls/s: at least 1/2 times 1 thread's: 1.00: met") {
		t.Errorf("the others:\n%s", out)
	}
	if n := strings.Count(out, "1.0 k"); n < 5 { // of each variant that does not spin
		t.Errorf("%d results after the first failure:\n%s", n, out)
	}
	script = "#!/bin/sh\necho '{\"rps\":1,\"errors\":7}'\n"
	if err := os.WriteFile(bin, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := measureLoop(t.Context(), bin, loopVariant{name: "x", transport: "udp"}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "7 RPCs failed") {
		t.Error(err)
	}
}

// TestGoroutinesInterrupt: an interruption leaves the turns that were made, and they are shown.
func TestGoroutinesInterrupt(t *testing.T) {
	checkInterrupt(t, "net/rpc go", "goroutines", "--rows=bistable", "--peers=net/rpc",
		"--rounds=1000", "--duration=1ms")
}

// TestNeighbours: they use their cores until they are stopped.
func TestNeighbours(t *testing.T) {
	cores := cli.AllowedCores()
	if len(cores) == 0 {
		if os.Getenv("CI") == "true" && runtime.GOOS == "linux" {
			t.Fatal("the cores of this process are not found")
		}
		t.Skip("processes cannot be pinned to cores here")
	}
	v, err := startChild(t.Context(), core(cores[0]), "busy")
	if err != nil || v.line != "busy" {
		t.Fatalf("%v: %+v", err, v)
	}
	for cpuTime(v.cmd.Process.Pid) < 50*time.Millisecond {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	if err := v.stop(); err != nil || v.cmd.ProcessState == nil {
		t.Errorf("%v, ended %v", err, v.cmd.ProcessState != nil)
	}
	stop, err := neighbours(t.Context(), cores)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	_, err = neighbours(t.Context(), []int{cores[0], 1023})
	if err == nil || !strings.Contains(err.Error(), "core 1023") {
		t.Errorf("a core that is not there: %v", err)
	}
}

// TestKillErrors: who calls one server is not measured, and no server can be told where to listen
// that chooses itself.
func TestKillErrors(t *testing.T) {
	for _, args := range [][]string{{"kill-client", "--peer=net/rpc"},
		{"serve", "--peer=net/rpc", "--at=127.0.0.1:1"}} {
		if code, _, said := try(t, args...); code != 2 || !strings.Contains(said, "net/rpc") {
			t.Errorf("%q: exit %d: %s", args, code, said)
		}
	}
	k := &killing{peer: echo.Peer{Name: "nobody"}}
	if _, err := k.serve(t.Context(), "127.0.0.1:0"); err == nil ||
		!strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
}

// TestIdleErrors: the errors of the clients reach the caller.
func TestIdleErrors(t *testing.T) {
	for _, name := range []string{"net/rpc", "grpc-go"} { // the latter connects when it is called
		code, _, said := try(t, "idle-client", "--peer="+name, "--addrs=127.0.0.1:1", "--duration=1ms")
		if noThreads == "" && (code != 1 || !strings.Contains(said, "refused")) {
			t.Errorf("%s, nobody there: exit %d: %s", name, code, said)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := echo.ByName("net/rpc")
	_, err := measureIdle(ctx, p, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "net/rpc") {
		t.Error(err)
	}
}
