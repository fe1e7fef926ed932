package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// asCommand makes the test binary behave as the command, for the server processes
// that the benches start from their own executable.
const asCommand = "ERPC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	// The fuzzing engine starts the test binary too.
	if os.Getenv(asCommand) != "" && !slices.Contains(os.Args, "-test.fuzzworker") {
		main()
		return
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// runCommand runs a command line inside the test.
func runCommand(t *testing.T, line string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), strings.Fields(line), strings.NewReader(""), &o, &e)
	return status, o.String(), e.String()
}

func TestWrongUsage(t *testing.T) {
	cases := map[string]string{
		"bench factors --rounds 2":                        "it is erpc-bench factors now",
		"bench waiting":                                   "it is erpc-bench waiting now",
		"nonsense":                                        "unexpected argument nonsense",
		"bench":                                           "expected one of",
		"bench rate --bogus":                              "unknown flag --bogus",
		"bench rate --window x":                           "--window",
		"bench rate --window 0":                           "--window 0: must be at least 1",
		"bench rate --batch 61":                           "must not exceed --window 60",
		"bench rate --size 3":                             "must be at least 4",
		"bench rate --size=-1":                            "--size -1",
		"bench rate --threads 0":                          "--threads 0",
		"bench rate --slots 3":                            "Slots is 3, must be a power of two: 2 or 4",
		"server --slots 100":                              "is 100, must be a power of two: 64 or 128",
		"bench rate --transport shm --cc dcqcn":           "no ECN marks",
		"bench rate --transport shm --iface eth0":         "below IP, not for shm",
		"bench rate --transport auto --iface eth0":        "below IP; with auto give --addr",
		"bench rate --transport afpacket --iface eth0":    "--iface eth0: only with --addr",
		"demo --transport afpacket --iface eth0":          "--iface eth0: only with --addr",
		"bench rate --veth --addr 127.0.0.1:1":            "--veth and --addr do not go together",
		"bench rate --veth --transport shm":               "--veth: not with shm",
		"bench sessions --veth --transport auto":          "--veth: not with auto",
		"bench rate --transport afpacket --addr x":        "want HOST:PORT",
		"ping 127.0.0.1:1 --veth":                         "unknown flag --veth",
		"ping nowhere --transport afpacket":               "want HOST:PORT",
		"server --transport afpacket":                     "give --iface, or with --addr",
		"server --transport afpacket --addr 127.0.0.1:1":  "not an address of one Ethernet interface",
		"server --transport afpacket --addr localhost:1":  "want an IP address of the interface",
		"server --transport afpacket --iface x --mtu 10":  "MTU",
		"bench rate --transport afxdp --iface eth0":       "--iface eth0: only with --addr",
		"bench rate --transport afxdp --mtu 3777":         "packets of afxdp are at most 3776 bytes",
		"bench rate --transport afxdp --xdp-mode fast":    "want auto, native or generic",
		"bench rate --transport udp --xdp-mode native":    "--xdp-mode is for afxdp, not for udp",
		"ping nowhere --transport afxdp":                  "want HOST:PORT",
		"server --transport afxdp":                        "give --iface, or with --addr",
		"server --transport afxdp --addr 127.0.0.1:1":     "not an address of one Ethernet interface",
		"server --transport afxdp --iface x --mtu 10":     "MTU",
		"server --transport afxdp --iface x --threads 65": "Config.Endpoints = 65: must be 1 to 64",
		"bench rate --transport ud":                       "needs an RDMA device",
		"bench rate --transport pigeon": "is unknown; there are udp, shm, auto, " +
			"afpacket, afxdp and ud",
		"bench rate --cc reno":                          "want timely, dcqcn, swift, cubic or none",
		"ping 127.0.0.1:1 --cc reno":                    "want timely, dcqcn, swift, cubic or none",
		"demo --cc reno":                                "want timely, dcqcn, swift, cubic or none",
		"server --link-rate fast":                       "--link-rate",
		"server --link-rate NaN":                        "as 25e9",
		"server --link-rate Inf":                        "as 25e9",
		"server --link-rate 1.5":                        "as 25e9",
		"server --link-rate 10":                         "LinkRate",
		"server --link-rate=-25e9":                      "LinkRate",
		"bench rate --versus reno":                      "want timely, dcqcn, swift, cubic, none",
		"bench rate --versus none --raw":                "do not go together",
		"bench latency --versus none":                   "unknown flag --versus",
		"bench rate --iface eth0":                       "below IP",
		"bench rate --wait long":                        "want adaptive, spin or sleep",
		"bench rate --pin zero":                         "want core numbers",
		"bench rate --loss 2":                           "TX.Loss",
		"bench rate --credits=-1":                       "Credits",
		"bench rate --mtu 10":                           "MTU",
		"bench rate --addr nowhere":                     "want HOST:PORT",
		"bench rate --duration 0s":                      "at least 1ms",
		"bench bandwidth --size 1000000000":             "at most",
		"ping":                                          "expected \"<addr>\"",
		"ping nowhere":                                  "want HOST:PORT",
		"ping 127.0.0.1:1 --count=-1":                   "--count -1",
		"ping 127.0.0.1:1 --timeout 0s":                 "--timeout 0s: must be more than 0",
		"ping 127.0.0.1:1 --interval=-1s":               "--interval -1s: must not be negative",
		"server --addr x":                               "want HOST:PORT",
		"server --threads 0":                            "--threads 0",
		"demo --each 0s":                                "at least 1ms",
		"decode":                                        "expected \"<file>\"",
		"decode x --port 65536":                         "--port 65536: want 1 to 65535",
		"decode x --port=-1":                            "--port -1: want 1 to 65535",
		"ping 127.0.0.1:1 --snaplen 90":                 "--snaplen is for --pcap",
		"ping 127.0.0.1:1 --pcap x --snaplen 85":        "--snaplen 85: must be 86 to 262144 bytes",
		"bench rate --versus none --pcap x":             "not where measurements are compared",
		"bench sessions --pcap x":                       "not where measurements are compared",
		"doctor --pin 0":                                "unknown flag",
		"server --addr 127.0.0.1:0 --mtu 100000 --json": "MTU",
	}
	for _, line := range some(4, slices.Sorted(maps.Keys(cases))...) {
		checkUsage(t, line, cases[line])
	}
}

func TestFailures(t *testing.T) {
	for line, want := range map[string]string{
		"ping 127.0.0.1:9 --count 1":               "nobody answers at 127.0.0.1:9",
		"bench rate --addr 127.0.0.1:9":            "is \"erpc server\" running there?",
		"ping no.such.host.invalid:1 --count 1":    "no.such.host.invalid",
		"server --addr 192.0.2.1:31850":            "192.0.2.1",
		"server --transport afpacket --iface none": "none: no such interface",
		"server --transport afpacket --iface lo":   "not an Ethernet interface",
		"server --transport afxdp --iface none":    "none: no such interface",
		"server --transport afxdp --iface lo":      "not an Ethernet interface",
		"ping 127.0.0.1:9 --transport afxdp":       "frames to it never leave it",
		"ping 127.0.0.1:9 --transport afpacket":    "frames to it never leave it",
		"bench rate --duration 1ms --pin 0,99999":  "core 99999",
	} {
		status, out, errOut := runCommand(t, line)
		lines := strings.Split(strings.TrimSpace(errOut), "\n")
		if last := lines[len(lines)-1] + "\n"; status != cli.Failed || out != "" ||
			!oneLineWith(last, want) {
			t.Errorf("erpc %s: status %d, out %q, err %q; want 1 and one line with %q", line, status, out,
				errOut, want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, sub := range []string{"demo", "server", "ping", "bench latency", "bench rate",
		"bench bandwidth", "bench sessions", "decode", "doctor"} {
		status, out, errOut := runCommand(t, sub+" --help")
		if status != cli.Done || errOut != "" || !strings.Contains(out, "Examples:") ||
			!strings.Contains(out, "erpc "+sub) {
			t.Errorf("erpc %s --help: status %d, out %q, err %q", sub, status, out, errOut)
		}
	}
	if status, out, _ := runCommand(t, ""); status != cli.Done || !strings.Contains(out, "demo") {
		t.Errorf("erpc: status %d, out %q", status, out)
	}
}

// decodeOne decodes exactly one JSON object with known fields.
func decodeOne(t *testing.T, text string, into any) {
	t.Helper()
	clitest.DecodeOne(t, text, into)
}

// gentle keeps two spinning processes from fighting over the cores that other tests use.
const gentle = " --wait adaptive --pin none"

func TestBenchJSON(t *testing.T) {
	for name, line := range map[string]string{
		"latency":   "bench latency --raw --rounds 5 --duration 50ms --json",
		"rate":      "bench rate --raw --rounds 5 --duration 50ms --batch 3 --json",
		"bandwidth": "bench bandwidth --raw --rounds 5 --duration 50ms --size 1048576 --json",
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errOut := runCommand(t, line+gentle)
			if status != cli.Done {
				t.Fatalf("status %d, err %q", status, errOut)
			}
			var r measure.Result
			decodeOne(t, out, &r)
			if r.Bench != name || r.Transport != "udp" || r.Rpcs == 0 || r.Rps <= 0 || r.P50 <= 0 ||
				r.Ratio <= 0 || r.MTU < 1452 || r.Credits != 32 || r.Errors != 0 {
				t.Errorf("%+v", r)
			}
			if r.P50 > r.P99 || r.P99 > r.P999 || r.P999 > r.Max {
				t.Errorf("percentiles out of order: %+v", r)
			}
			raw := map[string]float64{"latency": r.RawP50, "rate": r.RawRps, "bandwidth": r.RawGbps}
			if raw[name] <= 0 || (name == "bandwidth") != (r.Gbps > 0) {
				t.Errorf("raw or goodput: %+v", r)
			}
		})
	}
}

// TestBenchOverSharedMemory: the same benches between two processes over shm.
func TestBenchOverSharedMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory is for Linux")
	}
	for _, line := range []string{
		"bench latency --raw --rounds 3",
		"bench rate --raw --rounds 3 --batch 3",
		"bench rate --symmetric --threads 2",
		"bench bandwidth --raw --rounds 3 --size 1048576",
	} {
		status, out, errOut := runCommand(t, line+" --transport shm --duration 60ms --json"+gentle)
		if status != cli.Done {
			t.Errorf("%s: status %d, err %q", line, status, errOut)
			continue
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if r.Transport != "shm" || r.Rpcs == 0 || r.Errors != 0 ||
			strings.Contains(line, "--raw") != (r.Ratio > 0) {
			t.Errorf("%s: %+v", line, r)
		}
	}
	status, _, errOut := runCommand(t, "ping nobody-is-here --transport shm --count 1")
	if status != cli.Failed || !strings.Contains(errOut, "nobody-is-here") {
		t.Errorf("status %d, err %q", status, errOut)
	}
}

// TestBenchFindsSharedMemory: two processes that are told nothing but "127.0.0.1:port"
// talk over shared memory.
func TestBenchFindsSharedMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("shared memory is for Linux")
	}
	for _, line := range []string{"bench latency --raw --rounds 3",
		"bench rate --symmetric --threads 2", "bench bandwidth --size 1048576"} {
		status, out, errOut := runCommand(t, line+" --transport auto --duration 60ms --json"+gentle)
		if status != cli.Done {
			t.Errorf("%s: status %d, err %q", line, status, errOut)
			continue
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if r.Transport != "auto" || r.Way != "shm" || r.Rpcs == 0 || r.Errors != 0 || r.MTU <= 9000 {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// TestSessions: rate and memory of many sessions.
func TestSessions(t *testing.T) {
	status, out, errOut := runCommand(t,
		"bench sessions --counts 2,1000 --base 3 --rounds 2 --duration 200ms --json"+gentle)
	if status != cli.Done {
		t.Fatalf("status %d, err %q", status, errOut)
	}
	var r measure.SessionsResult
	decodeOne(t, out, &r)
	if len(r.Rows) != 2 || r.Base != 3 || r.Rounds != 2 || r.Rpcs == 0 || r.Errors != 0 ||
		r.Rows[0].Sessions != 2 || r.Rows[0].Client != 0 {
		t.Fatalf("%+v", r)
	}
	if row := r.Rows[1]; row.Ratio <= 0 || row.RatioMin > row.Ratio || row.Ratio > row.RatioMax ||
		row.Client < 500 || row.Server < 500 {
		t.Errorf("%+v", row)
	}
	for line, want := range map[string]string{"bench sessions --counts 0": "--counts 0",
		"bench sessions --sessions 5": "--counts and --base"} {
		if status, _, errOut := runCommand(t, line); status != cli.Usage ||
			!strings.Contains(errOut, want) {
			t.Errorf("%s: status %d, %q", line, status, errOut)
		}
	}
}

func TestBenchVariants(t *testing.T) {
	for _, line := range some(2,
		"bench rate --threads 2 --sessions 3",
		"bench rate --size 0 --resp-size 0",
		"bench rate --symmetric --batch 3",
		"bench rate --size 4 --resp-size 5000 --window 20",
		"bench bandwidth --reverse --size 300000 --window 2 --mtu 8952 --credits 64",
		"bench latency --no-gso --no-hugepages",
		"bench latency --portable",
	) {
		status, out, errOut := runCommand(t, line+" --duration 30ms --json"+gentle)
		if status != cli.Done {
			t.Errorf("%s: status %d, err %q", line, status, errOut)
			continue
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if r.Rpcs == 0 || r.Errors != 0 || r.CC != "timely" || r.Off != nil {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

func TestBenchWithFaults(t *testing.T) {
	status, out, errOut := runCommand(t,
		"bench rate --loss 0.05 --dup 0.01 --reorder 0.01 --seed 7 --duration 200ms --json"+gentle)
	if status != cli.Done {
		t.Fatalf("status %d, err %q", status, errOut)
	}
	var r measure.Result
	decodeOne(t, out, &r)
	if r.Rpcs == 0 || r.Errors != 0 || r.Retransmits == 0 || r.Seed != 7 {
		t.Errorf("%+v", r)
	}
}

func TestBenchTable(t *testing.T) {
	status, out, errOut := runCommand(t, "bench latency --duration 20ms"+gentle)
	if status != cli.Done || !strings.Contains(out, "p99.9") ||
		!strings.Contains(out, "latency over udp") {
		t.Errorf("status %d, out %q, err %q", status, out, errOut)
	}
}

func TestDemo(t *testing.T) {
	status, out, errOut := runCommand(t, "demo --each 5ms --json --pin none")
	if status != cli.Done {
		t.Fatalf("status %d, err %q", status, errOut)
	}
	var r measure.DemoResult
	decodeOne(t, out, &r)
	const steps = 6 // of event loops; the last row has goroutines
	if len(r.Demo) != steps+1 {
		t.Errorf("%d rows: %+v", len(r.Demo), r)
	}
	for _, row := range r.Demo {
		if row.Rpcs == 0 || row.P50 <= 0 || row.Errors != 0 {
			t.Errorf("%+v", row)
		}
	}
	status, out, _ = runCommand(t, "demo --each 2ms --pin none")
	if status != cli.Done || strings.Count(out, "\n") != steps+3 {
		t.Errorf("status %d, table %q", status, out)
	}
}

func TestDoctor(t *testing.T) {
	_, out, _ := runCommand(t, "doctor --json")
	var d diagnosis
	decodeOne(t, out, &d)
	for _, f := range d.Findings {
		if f.Name == "" || f.Found == "" || !f.OK && f.Mend == "" {
			t.Errorf("finding without text or without a way to mend: %+v", f)
		}
	}
	if status, out, _ := runCommand(t, "doctor"); status != cli.Done ||
		strings.Count(out, "\n") <= len(d.Findings) {
		t.Errorf("status %d, out %q", status, out)
	}
}

func TestServerPingInterrupt(t *testing.T) {
	server := start(t, "server --addr 127.0.0.1:0 --json")
	var ready measure.ReadyLine
	decodeOne(t, waitFor(t, server.out, "ready"), &ready)

	status, out, _ := runCommand(t, "ping "+ready.Addr+" --count 3 --interval 1ms --json")
	var r measure.PingResult
	decodeOne(t, out, &r)
	if status != cli.Done || r.Sent != 3 || r.Received != 3 || r.Min <= 0 || r.Min > r.Max {
		t.Errorf("status %d, %+v", status, r)
	}
	if status, out, errOut := runCommand(t, "bench rate --raw --duration 5ms --addr "+
		ready.Addr+gentle); status != cli.Failed || !strings.Contains(errOut, "start it with --raw") {
		t.Errorf("raw without leave: status %d, out %q, err %q", status, out, errOut)
	}

	ping := start(t, "ping "+ready.Addr+" --interval 1h")
	waitFor(t, ping.out, "seq=1")
	rest, err := ping.interrupt(t)
	if err != nil || !strings.Contains(rest, "1 sent, 1 answered") {
		t.Errorf("ping ended with %v and said %q", err, rest)
	}

	ping = start(t, "ping "+ready.Addr+" --interval 1ms --timeout 100ms")
	waitFor(t, ping.out, "seq=1")
	if _, err := server.interrupt(t); err != nil {
		t.Errorf("server ended with %v", err)
	}
	waitFor(t, ping.out, "connecting again")
	server = start(t, "server --json --addr "+ready.Addr)
	waitFor(t, server.out, "ready")
	waitFor(t, ping.out, "new session")
	waitFor(t, ping.out, "bytes from")
	if _, err := ping.interrupt(t); err != nil {
		t.Errorf("ping ended with %v", err)
	}
}

func TestBenchInterrupt(t *testing.T) {
	for _, name := range []string{"latency", "rate", "bandwidth"} {
		p := start(t, "bench "+name+" --duration 1h --json"+gentle)
		waitFor(t, p.errLines, "measuring")
		out, err := p.interrupt(t)
		if err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		var r measure.Result
		decodeOne(t, out, &r)
		if !r.Interrupted || r.Rpcs == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestInterruptedBeforeStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, line := range []string{"bench rate --addr 127.0.0.1:9",
		"bench rate --versus none --addr 127.0.0.1:9", "bench sessions"} {
		var out, errOut bytes.Buffer
		status := run(ctx, strings.Fields(line+gentle), strings.NewReader(""), &out, &errOut)
		if status != cli.Failed || out.Len() != 0 ||
			!oneLineWith(errOut.String(), "interrupted before anything") {
			t.Errorf("%s: status %d, out %q, err %q", line, status, out.String(), errOut.String())
		}
	}
}

// TestServerEndsWithParent: a server that a bench started ends with its input.
func TestServerEndsWithParent(t *testing.T) {
	p := start(t, "server --child --json --addr 127.0.0.1:0")
	waitFor(t, p.out, "ready")
	if err := p.in.Close(); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.errLines) }()
	if _, err := io.ReadAll(p.out); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}
