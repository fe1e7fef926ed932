//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/cmd/erpc/watch"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// watched starts a server with a debug socket and returns its address and the socket's path.
func watched(t *testing.T, flags string) (addr, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	p := start(t, "server --addr 127.0.0.1:0 --debug --debug-socket "+socket+" "+flags)
	addr = strings.TrimSpace(strings.TrimPrefix(waitFor(t, p.out, "serving on "), "serving on "))
	t.Cleanup(func() {
		if said, err := p.interrupt(t); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	})
	return addr, socket
}

// TestTop: over a pipe there are lines and JSON objects; a program that is not there is named.
func TestTop(t *testing.T) {
	addr, socket := watched(t, "")
	status, out, said := runCommand(t, "top "+socket+" -c 2 -i 20ms")
	if status != cli.Done || strings.Count(out, "loop endpoint="+addr) != 2 {
		t.Errorf("status %d, %q, %q", status, out, said)
	}
	if status, _, said := runCommand(t, "call "+addr+" 1 hello"); status != cli.Done {
		t.Fatal(said)
	}
	status, out, said = runCommand(t, "top "+socket+" -c 2 -i 20ms --json")
	dec := json.NewDecoder(strings.NewReader(out))
	for i := range 2 {
		var f watch.Frame
		if err := dec.Decode(&f); err != nil || len(f.Loops) != 1 || (f.Over > 0) != (i > 0) {
			t.Errorf("status %d, %+v, %v, %q", status, f, err, said)
		}
	}
	for line, want := range map[string]string{
		"top /nowhere":                "no such file",
		"top --sessions 1000":         "at most 256",
		"top -i 1us":                  "at least 10ms",
		"top " + socket + " --http x": "--http",
	} {
		if status, _, said := runCommand(t, line); status == cli.Done || !strings.Contains(said, want) {
			t.Errorf("%s: status %d, %q", line, status, said)
		}
	}
}

// TestTrace: what a program records comes in all forms, from the program and from a file.
func TestTrace(t *testing.T) {
	addr, socket := watched(t, "--record 4096 --record-dir "+t.TempDir())
	for range 3 { // each from an endpoint of its own, as in three processes
		line := "call " + addr + " 4 --wait spin --form hex e8030000"
		if status, _, said := runCommand(t, line); status != cli.Done {
			t.Fatal(said)
		}
	}
	file := filepath.Join(t.TempDir(), "x.flight")
	status, out, said := runCommand(t, "trace dump "+socket+" --keep "+file)
	if status != cli.Done || strings.Count(out, "served 127.0.0.1:") != 3 ||
		!strings.Contains(out, "type=4") {
		t.Fatalf("status %d, %q, %q", status, out, said)
	}
	pcap := filepath.Join(t.TempDir(), "x.pcap")
	for form, want := range map[string]string{
		"calls": "# " + addr + ": 3 calls", "text": " < 127.0.0.1:", "chrome": `"name":"served type 4"`,
		"pcap -o " + pcap: "",
	} {
		status, out, said := runCommand(t, "trace show "+file+" --as "+form)
		if status != cli.Done || !strings.Contains(out, want) {
			t.Errorf("%s: status %d, %q, %q", form, status, out, said)
		}
		if form == "chrome" && !json.Valid([]byte(out)) {
			t.Error("the trace is no JSON")
		}
	}
	status, out, said = runCommand(t, "decode "+pcap)
	if status != cli.Done || strings.Count(out, "reqtype=4") < 6 ||
		strings.Contains(out, "MALFORMED") {
		t.Errorf("status %d, %q, %q", status, out, said)
	}
	if err := os.WriteFile(file, []byte("erpc flight 1\n{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, said := runCommand(t, "trace show "+file); status != cli.Failed ||
		!strings.Contains(said, "no dump") {
		t.Errorf("status %d, %q", status, said)
	}
}

// TestTraceRecord: a program that does not record does so for some time.
func TestTraceRecord(t *testing.T) {
	_, socket := watched(t, "")
	if status, _, said := runCommand(t, "trace dump "+socket); status != cli.Failed ||
		!strings.Contains(said, "does not record") {
		t.Errorf("status %d, %q", status, said)
	}
	status, out, said := runCommand(t, "trace record "+socket+" --for 10ms")
	if status != cli.Done || !strings.Contains(out, ": 0 calls") {
		t.Errorf("status %d, %q, %q", status, out, said)
	}
	if status, _, said := runCommand(t, "trace dump "+socket); status != cli.Failed {
		t.Errorf("it goes on recording: %q", said)
	}
}

// TestCall: requests and responses in each form, and what is wrong with others.
func TestCall(t *testing.T) {
	p := start(t, "server --addr 127.0.0.1:0")
	addr := strings.TrimSpace(strings.TrimPrefix(waitFor(t, p.out, "serving on "), "serving on "))
	defer func() {
		if said, err := p.interrupt(t); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}()
	file := filepath.Join(t.TempDir(), "request")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		args, in, out, err string
		status             int
	}{
		{args: "4 --form hex 50c30000 -W 20ms", err: "deadline", status: cli.Failed}, // takes 50 ms
		{args: "1 hello", out: "hello\n"},
		{args: "1 -", in: "from a pipe", out: "from a pipe\n"},
		{args: "1 @" + file, out: "from a file\n"},
		{args: `1 --form json {"a":1}`, out: "{\n  \"a\": 1\n}\n"},
		{args: "1 --form hex 00ff", out: "00000000  00 ff  "},
		{args: "1 hello --json", out: `"response":"aGVsbG8="`},
		{args: "1 hello --steps", out: "hello\n", err: "answered"},
		{args: "1 hello -o " + file, out: ""},
		{args: "9 x", err: "no handler", status: cli.Failed},
		{args: "1 --form json {", err: "no JSON", status: cli.Usage},
		{args: "1 --form hex 0", err: "--form hex", status: cli.Usage},
		{args: "999 x", err: "want a number", status: cli.Usage},
		{args: "/a.B/C {}", err: "erpc-grpc call", status: cli.Usage},
		{args: "1 @" + file + ".none", err: "no such file", status: cli.Failed},
	} {
		var out, said bytes.Buffer
		args := append([]string{"call", addr}, strings.Fields(x.args)...)
		status := run(t.Context(), args, strings.NewReader(x.in), &out, &said)
		if status != x.status || !strings.Contains(out.String(), x.out) ||
			!strings.Contains(said.String(), x.err) {
			t.Errorf("%s: status %d, %q, %q", x.args, status, &out, &said)
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
}

// TestBenchFiles: a bench draws both charts and writes a log with all latencies.
func TestBenchFiles(t *testing.T) {
	dir := t.TempDir()
	svg, hlog := filepath.Join(dir, "x.svg"), filepath.Join(dir, "x.hlog")
	status, out, said := runCommand(t, "bench latency --duration 200ms --pin none --wait adaptive "+
		"--json --plot "+svg+" --hdr "+hlog)
	if status != cli.Done {
		t.Fatal(out, said)
	}
	all := strings.Join(clitest.Texts(t, svg), "\n")
	for _, want := range []string{"99 %", "us", "RPCs per second", "Rate"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in %q", want, all)
		}
	}
	f, err := os.Open(hlog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h, err := hdrhistogram.NewHistogramLogReader(f).NextIntervalHistogram()
	if err != nil {
		t.Fatal(err)
	}
	var res measure.Result
	if err := json.Unmarshal([]byte(out), &res); err != nil || h.TotalCount() != int64(res.Rpcs) {
		t.Errorf("%d latencies of %d RPCs, %v", h.TotalCount(), res.Rpcs, err)
	}
	if status, _, said := runCommand(t, "bench rate --plot x.doc"); status != cli.Usage {
		t.Errorf("status %d, %q", status, said)
	}
}
