package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// TestMain lets the test binary be the program, for children.
func TestMain(m *testing.M) { clitest.Main(m, main, &childEnv) }

// try runs a command line.
func try(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	return clitest.Command(run).Try(t, args...)
}

// serve runs a server in this process until the test ends, or until the returned function is
// called, and returns its address.
func serve(t *testing.T, args ...string) (addr string, stop func()) {
	t.Helper()
	var said ready
	stop = clitest.Command(run).Serve(t, &said, "",
		append([]string{"serve", "--json", "--addr=127.0.0.1:0"}, args...)...)
	return said.Addr, stop
}

// TestDemo: the demonstration checks every answer itself.
func TestDemo(t *testing.T) {
	status, out, errOut := try(t, "demo", "--keys=3000", "--each=20ms", "--json")
	var r demoResult
	if err := json.Unmarshal([]byte(out), &r); status != cli.Done || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errOut)
	}
	if len(r.Rows) != 4 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.GETs == 0 || row.Wrong != 0 || row.Get.P50 == 0 || row.Get.P99 < row.Get.P50 {
			t.Errorf("%+v", row)
		}
	}
	status, out, errOut = try(t, "demo", "--keys=1000", "--each=10ms")
	if status != cli.Done || !strings.Contains(out, rowWorkers) || !strings.Contains(out, "26 us") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// TestOperations: two servers with a border between them, by hand.
func TestOperations(t *testing.T) {
	one, _ := serve(t)
	two, _ := serve(t, "--scan=loop", "--one-by-one")
	at := fmt.Sprintf("--servers=%s,m=%s", one, two)
	steps := []struct {
		args   string
		status int
		out    string
	}{
		{"put apple 1", cli.Done, "the key was not there\n"},
		{"put pear 2", cli.Done, "the key was not there\n"},
		{"put pear 3", cli.Done, "the key had 2\n"},
		{"put pear 4 --absent", cli.Done, "the key had 3\n"},
		{"get pear", cli.Done, "3\n"},
		{"get pear --json", cli.Done, `{"key":"pear","value":3}` + "\n"},
		{"get plum", cli.Failed, ""},
		{"scan", cli.Done, "\"apple\" 1\n\"pear\" 3\n"},
		{"scan --from b", cli.Done, "\"pear\" 3\n"},
		{"scan --count 1", cli.Done, "\"apple\" 1\n"},
		{"delete apple", cli.Done, "the key had 1\n"},
		{"scan --from=", cli.Done, "\"pear\" 3\n"},
		{"get " + strings.Repeat("k", 256), cli.Failed, ""},
	}
	for _, s := range steps {
		status, out, errOut := try(t, append(strings.Fields(s.args), at)...)
		if status != s.status || out != s.out {
			t.Errorf("%s: status %d, %q, want %d, %q; %s", s.args, status, out, s.status, s.out, errOut)
		}
	}
}

// TestLoadBench: an open and a closed loop over what was loaded; other keys are noticed.
func TestLoadBench(t *testing.T) {
	addr, _ := serve(t)
	at := "--servers=" + addr
	if status, _, errOut := try(t, "load", "--keys=2000", at); status != cli.Done ||
		!strings.Contains(errOut, "1600 of 2000") && !strings.Contains(errOut, "of 2000 keys stored") {
		t.Fatalf("load: %d, %s", status, errOut)
	}
	for _, args := range [][]string{{"--scans=0.3"}, {"--rate=20000", "--scans=0.1"}} {
		args = append([]string{"bench", at, "--keys=2000", "--each=50ms", "--json"}, args...)
		status, out, errOut := try(t, args...)
		var r benchResult
		err := json.Unmarshal([]byte(out), &r)
		if status != cli.Done || err != nil || r.GETs == 0 || r.Scans == 0 {
			t.Errorf("%v: status %d, %+v, %v: %s", args, status, r, err, errOut)
		}
	}
	status, _, errOut := try(t, "bench", at, "--keys=2001", "--each=1s")
	if status != cli.Failed || !strings.Contains(errOut, "were wrong") {
		t.Errorf("a missing key: status %d, %s", status, errOut)
	}
}

// TestSnapshot: a server starts with what the one before it has left, or not at all.
func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	for i, want := range []string{"", "\"key 0\" 0\n", "\"key 0\" 0\n\"key 1\" 1\n"} {
		addr, stop := serve(t, "--snapshot="+file)
		at := "--servers=" + addr
		if status, out, errOut := try(t, "scan", at); status != cli.Done || out != want {
			t.Errorf("start %d: %d, %q, want %q; %s", i, status, out, want, errOut)
		}
		try(t, "put", fmt.Sprint("key ", i), fmt.Sprint(i), at)
		stop()
	}
	whole, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, whole[:len(whole)-1], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	status, out, errOut := try(t, "serve", "--snapshot="+file, "--addr=127.0.0.1:0")
	if status != cli.Failed || out != "" || !strings.Contains(errOut, "ends early") {
		t.Errorf("a snapshot cut short: %d, %q, %s", status, out, errOut)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{
		"serve --scan=x", "serve --workers=0", "serve --transport=x", "serve --every=1s",
		"serve --every=-1s --snapshot=x", "serve --fsync=always", "serve --log=",
		"serve --log=x --fsync=x",
		"serve --log=x --snapshot=y --every=1s", "serve --max-memory=-1", "sim --keys=0",
		"sim --each=2s", "bench --outstanding=0",
		"load --keys=0", "load --depth=0", "bench --scans=2", "bench --clients=0", "bench --each=0s",
		"bench --rate=-1", "get",
		"get a --servers=x,y", "get a --timeout=-1s", "demo --each=1h", "demo --keys=0", "nothing"} {
		if status, _, errOut := try(t, strings.Fields(args)...); status != cli.Usage || errOut == "" {
			t.Errorf("%s: status %d, %q", args, status, errOut)
		}
	}
	if status, out, _ := try(t, "--help"); status != cli.Done || !strings.Contains(out, "demo") {
		t.Errorf("help: %d, %s", status, out)
	}
}
