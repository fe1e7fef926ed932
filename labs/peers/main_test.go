package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// fakeBench tells this program, run as the go command, whether benchstat can be had.
const fakeBench = "PEERS_TEST_BENCHSTAT"

const benchstatTable = `pkg: example.org/wire
        │  baseline  │              now               │
        │   sec/op   │    sec/op     vs base          │
Put-2     13.41n ± 1%   15.30n ± 58%  +14.09% (p=0.006 n=6)
Parse-2   10.00n ± 9%   9.01n ± 40%  ~ (p=0.589 n=6)
`

// TestMain lets the test binary be the program's child processes, and a go command that
// builds nothing.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve", "client", "idle-serve", "idle-client", "kill-client", "stubs-serve",
			"stubs-client", "busy":
			main()
		case "test":
			fmt.Println("BenchmarkX 1 2 ns/op", strings.Join(os.Args[2:], " "))
			os.Exit(0)
		case "run":
			if os.Getenv(fakeBench) == "" {
				fmt.Fprintln(os.Stderr, "no such module")
				os.Exit(1)
			}
			fmt.Print(benchstatTable)
			os.Exit(0)
		}
	}
	// Under the race detector each child would sleep for a second before it ends.
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	removeERPC()
	os.Exit(code)
}

// try runs the program in this process.
func try(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var o, s bytes.Buffer
	code = run(env{ctx: t.Context(), in: strings.NewReader(""), out: &o, err: &s}, args)
	return code, o.String(), s.String()
}

// removeERPC removes what erpcBinary made.
var removeERPC = func() {}

// erpcBinary builds bin/erpc, once.
var erpcBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "peers-test")
	if err != nil {
		return "", err
	}
	removeERPC = func() { _ = os.RemoveAll(dir) }
	bin := filepath.Join(dir, "erpc")
	c := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "./cmd/erpc")
	c.Dir = filepath.Join("..", "..")
	if said, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return bin, nil
})

func erpcForTest(t *testing.T) string {
	t.Helper()
	bin, err := erpcBinary()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestBadUsage(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct{ args, want string }{
		{"", "usage: peers COMMAND"},
		{"nothing", `no command "nothing"`},
		{"run more", `unexpected argument "more"`},
		{"run --nothing", "-nothing"},
		{"run", "is unknown; there are grpc-go, connect-go"},
		{"run --peer=nobody", `"nobody" is unknown`},
		{"run --peer=drpc --size=-1", "--size -1"},
		{"run --peer=drpc --resp-size=99999999", "--resp-size 99999999"},
		{"run --peer=drpc --window=0", "--window 0"},
		{"run --peer=drpc --conns=0", "--conns 0"},
		{"run --peer=drpc --duration=0s", "--duration 0s"},
		{"run --peer=drpc --cores=both", "--cores both"},
		{"compare --cores=some --transports=", "--cores some"},
		{"compare --peers=nobody --transports=", `"nobody" is unknown`},
		{"compare --peers= --transports=", "nothing to compare"},
		{"compare --rounds=0", "--rounds 0"},
		{"compare --size=-2", "--size -2"},
		{"compare --transports= --peers=drpc --base=net/rpc", `--base "net/rpc"`},
		{"compare --erpc=" + none, "make build"},
		{"run --peer=drpc --work=rest:1ms", "want none, sleep:TIME"},
		{"goroutines --rows=some", `"some" is unknown`},
		{"goroutines --rows=", "nothing to measure"},
		{"goroutines --peers=nobody", `"nobody" is unknown`},
		{"goroutines --rounds=0", "--rounds 0"},
		{"goroutines --duration=0s", "--duration 0s"},
		{"goroutines --erpc=" + none, "make build"},
		{"idle-serve --peer=nobody", `"nobody" is unknown`},
		{"idle-client --peer=nobody", `"nobody" is unknown`},
		{"bench --only=some", `"some" is unknown`},
		{"bench --benchtime=0s", "--benchtime 0s"},
		{"bench --count=0", "--count 0"},
		{"raw --benches=some", `"some" is unknown`},
		{"raw --runs=0", "--runs 0"},
		{"raw --duration=0s", "--duration 0s"},
		{"raw --erpc=" + none, "make build"},
		{"serve --peer=nobody", `"nobody" is unknown`},
		{"client --peer=nobody", `"nobody" is unknown`},
	} {
		code, out, said := try(t, strings.Fields(tt.args)...)
		if code != 2 || out != "" || !strings.Contains(said, tt.want) {
			t.Errorf("peers %s: exit %d, %q, want 2 and %q", tt.args, code, said, tt.want)
		}
	}
}

func TestHelp(t *testing.T) {
	code, out, _ := try(t, "--help")
	if code != 0 || !strings.Contains(out, "compare") || strings.Contains(out, "serve") {
		t.Errorf("exit %d: %s", code, out)
	}
	for _, c := range commands() {
		if code, _, said := try(t, c.name, "--help"); code != 0 ||
			!strings.Contains(said, "peers "+c.name) {
			t.Errorf("%s --help: exit %d: %s", c.name, code, said)
		}
	}
}

// TestUnfit: a peer that cannot work here is refused in one line that says why. The others are
// measured.
func TestUnfit(t *testing.T) {
	err := fit("--peers", echo.Peer{Name: "fake", Unfit: "it needs more"})
	var wrong usageError
	if !errors.As(err, &wrong) || err.Error() != "--peers: fake cannot work here: it needs more" {
		t.Error(err)
	}
	for _, p := range echo.Peers() {
		_, err := findPeer("--peer", p.Name)
		if (err == nil) != (p.Unfit == "") {
			t.Errorf("%s: %q, %v", p.Name, p.Unfit, err)
		}
		// Secure ones are measured only where they are asked for.
		if slices.Contains(peerNames(), p.Name) != (err == nil && !p.Secure) {
			t.Errorf("%s is among those that are measured, or is not: %v", p.Name, peerNames())
		}
	}
}

// TestTooLarge: messages that a peer cannot carry are refused, and a comparison goes on without it.
func TestTooLarge(t *testing.T) {
	if p, _ := echo.ByName("udp"); p.Unfit != "" {
		t.Skip(p.Unfit)
	}
	const why = "udp carries messages of at most 8936 bytes, not 8937"
	for _, args := range []string{"run --peer=udp --size=8937", "run --peer=udp --resp-size=8937",
		"compare --peers=udp --transports= --size=8937"} {
		code, out, said := try(t, strings.Fields(args)...)
		if code != 2 || out != "" || !strings.Contains(said, why) {
			t.Errorf("peers %s: exit %d: %s%s", args, code, out, said)
		}
	}
	code, out, said := try(t, "compare", "--peers=udp,net/rpc", "--transports=", "--size=8937",
		"--cores=unpinned", "--rounds=1", "--duration=1ms")
	if code != 0 || !strings.Contains(out, "Left out: "+why) || !strings.Contains(out, "net/rpc go") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
	code, _, said = try(t, "run", "--peer=udp", "--size=8936", "--window=3", "--duration=1ms")
	if code != 0 {
		t.Errorf("as large as may be: exit %d: %s", code, said)
	}
}

// TestRunPeers: each peer through two processes, pinned where that is possible.
func TestRunPeers(t *testing.T) {
	places, err := placements("both", io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range peerNames() {
		for _, cores := range places {
			code, out, said := try(t, "run", "--peer="+name, "--cores="+cores, "--window=3", "--size=5000",
				"--duration=5ms", "--json")
			var r report.Run
			if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
				t.Fatalf("%s, %s: exit %d, %v: %s", name, cores, code, err, said)
			}
			if r.Peer != name || r.Cores != cores || r.Bench != "rate" || r.Window != 3 || r.Size != 5000 ||
				r.RespSize != 5000 ||
				r.Rpcs < 3 || r.Rps <= 0 || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P999 || r.Gbps <= 0 ||
				r.Duration <= 0 {
				t.Errorf("%s, %s: %+v", name, cores, r)
			}
			if r.CPU <= 0 && len(places) == 2 { // where cores can be chosen, CPU time can be read
				t.Errorf("%s, %s: no CPU time", name, cores)
			}
		}
	}
	code, out, said := try(t, "run", "--peer=net/rpc", "--window=1", "--duration=2ms")
	if code != 0 || !strings.Contains(out, "net/rpc go") || !strings.Contains(out, "1 in flight") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
}

// TestFailures: what children say reaches the caller.
func TestFailures(t *testing.T) {
	if code, _, said := try(t, "client", "--peer=drpc", "--addr=127.0.0.1:1",
		"--duration=1ms"); code != 1 || !strings.Contains(said, "refused") {
		t.Errorf("nobody there: exit %d: %s", code, said)
	}
	code, out, said := try(t, "compare", "--erpc="+erpcForTest(t), "--transports=nothing", "--peers=",
		"--duration=1ms")
	if code != 1 || out != "" || !strings.Contains(said, `transport "nothing"`) {
		t.Errorf("unknown transport: exit %d: %s", code, said)
	}
	code, out, said = try(t, "compare", "--erpc="+erpcForTest(t), "--transports=nothing",
		"--peers=drpc", "--rounds=1", "--duration=1ms")
	if code != 1 || !strings.Contains(out, "drpc v") ||
		!strings.Contains(out, "not in the figures: round 1 of erpc nothing") ||
		!strings.Contains(said, "1 turns failed") {
		t.Errorf("one of two fails: exit %d: %s%s", code, out, said)
	}
	if code, _, said := try(t, "table", "--dir="+t.TempDir()); code != 1 ||
		!strings.Contains(said, "no JSON") {
		t.Errorf("nothing to show: exit %d: %s", code, said)
	}
	if code, _, said := try(t, "plot", "--dir="+t.TempDir()); code != 1 ||
		!strings.Contains(said, "no JSON") {
		t.Errorf("nothing to draw: exit %d: %s", code, said)
	}
}

func TestCompareAll(t *testing.T) {
	code, out, said := try(t, "compare", "--erpc="+erpcForTest(t), "--rounds=2", "--window=4",
		"--duration=5ms", "--json")
	var c report.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, said)
	}
	names := append([]string{"erpc udp"}, peerNames()...)
	if len(c.Rows) != len(names) || c.Rounds != 2 || c.Window != 4 || c.Interrupted ||
		c.Machine.Cores < 1 {
		t.Fatalf("%+v", c)
	}
	for i, row := range c.Rows {
		if row.Peer != names[i] || row.Rps.Min <= 0 || row.P50.Min <= 0 || row.Ratio == nil ||
			row.Ratio.Min <= 0 {
			t.Errorf("%+v, want %s", row, names[i])
		}
	}
	places, _ := placements("both", io.Discard)
	if want := 2 * 2 * (1 + len(places)*len(peerNames())); len(c.Runs) != want {
		t.Errorf("%d runs, want %d", len(c.Runs), want)
	}
	for _, r := range c.Runs {
		if want := map[string]int{"rate": 4, "latency": 1}[r.Bench]; r.Window != want || r.Round < 1 ||
			r.Round > 2 {
			t.Errorf("%+v", r)
		}
	}
	code, out, said = try(t, "compare", "--transports=", "--peers=drpc,net/rpc", "--cores=unpinned",
		"--rounds=1", "--duration=2ms", "--window=1", "--size=100000")
	if code != 0 || !strings.Contains(out, "drpc v") || !strings.Contains(out, "Gbit/s") ||
		!strings.Contains(out, "times grpc-go") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
}

// cancelOn cancels when text is written.
type cancelOn struct {
	text   string
	cancel context.CancelFunc
}

func (c cancelOn) Write(b []byte) (int, error) {
	if strings.Contains(string(b), c.text) {
		c.cancel()
	}
	return len(b), nil
}

// TestInterrupt: an interruption leaves the turns that were made, and they are shown.
func TestInterrupt(t *testing.T) {
	checkInterrupt(t, "net/rpc", "compare", "--transports=", "--peers=net/rpc",
		"--cores=unpinned", "--rounds=1000", "--duration=1ms")
}

// checkInterrupt runs a command that measures in rounds, and interrupts it in round 2: want is in
// its report. Then it runs the command interrupted from the beginning: there is no report.
func checkInterrupt(t *testing.T, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, said bytes.Buffer
	code := run(env{ctx: ctx, in: strings.NewReader(""), out: &out,
		err: cancelOn{"round 2 of", cancel}}, args)
	if text := out.String(); code != 0 || !strings.Contains(text, "interrupted") ||
		!strings.Contains(text, want) {
		t.Errorf("exit %d: %s", code, text)
	}
	out.Reset()
	code = run(env{ctx: ctx, in: strings.NewReader(""), out: &out, err: &said}, args)
	if code != 1 || out.Len() > 0 || !strings.Contains(said.String(), "interrupted before anything") {
		t.Errorf("exit %d: %s%s", code, out.String(), said.String())
	}
}

// TestBench: everything that make bench writes.
func TestBench(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out", "bench")
	baseline := filepath.Join(t.TempDir(), "go.txt")
	args := []string{"bench", "--erpc=" + erpcForTest(t), "--dir=" + dir, "--go=" + self,
		"--packages=./a ./b", "--benchtime=1ms", "--rounds=1", "--baseline=" + baseline}
	code, out, said := try(t, args...)
	if code != 0 || !strings.Contains(out, "| 8 MiB responses ") ||
		!strings.Contains(said, "make bench-baseline") {
		t.Fatalf("exit %d: %s%s", code, out, said)
	}
	for _, name := range []string{"latency-udp.json", "rate-udp.json", "bandwidth-udp.json",
		"bandwidth-reverse-udp.json", "peers.json",
		"ratio-latency.svg", "ratio-rate.svg", "ratio-bandwidth.svg", "peers.svg", "go.txt", "table.md"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	r, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		if f.Ratio <= 0 || f.Machine.Cores < 1 {
			t.Errorf("%+v", f)
		}
	}
	benchmarks, err := os.ReadFile(filepath.Join(dir, "go.txt"))
	if err != nil || !strings.Contains(string(benchmarks), "-count=6 -benchtime=1ms ./a ./b") {
		t.Errorf("%v: %s", err, benchmarks)
	}
	if code, out, said = try(t, "table", "--dir="+dir); code != 0 ||
		!strings.Contains(out, "grpc-go v") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}

	// With a baseline: without and with benchstat.
	if err := os.WriteFile(baseline, []byte("BenchmarkX 1 2 ns/op\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--only=go")
	if code, _, said = try(t, args...); code != 0 ||
		!strings.Contains(said, "cannot be run: no such module") {
		t.Errorf("exit %d: %s", code, said)
	}
	t.Setenv(fakeBench, "yes")
	if got := changed(strings.Replace(benchstatTable, "+14.09%", "~", 1)); len(got) != 1 ||
		got[0] != "none" {
		t.Errorf("nothing changed: %q", got)
	}
	if code, out, said = try(t, args...); code != 0 ||
		!strings.Contains(out, "\nwire, sec/op: Put-2     13.41n ± 1%   15.30n ± 58%  +14.09%") ||
		strings.Contains(out, "Parse") {
		t.Errorf("exit %d: %s%s", code, out, said)
	}
}

// TestBenchBadTransport: it is told, the others are measured, and no old file stays.
func TestBenchBadTransport(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "rate-nothing.json")
	if err := os.WriteFile(old, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, said := try(t, "bench", "--only=figures", "--erpc="+erpcForTest(t), "--dir="+dir,
		"--benchtime=1ms", "--transports=nothing,udp")
	if code != 1 || !strings.Contains(said, `transport "nothing"`) {
		t.Errorf("exit %d: %s", code, said)
	}
	if _, err := os.Stat(filepath.Join(dir, "rate-udp.json")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the old file is still there")
	}
}
