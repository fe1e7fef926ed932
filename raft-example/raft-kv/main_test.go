package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// asCommand makes this test program the command: so that tests have processes to kill.
const asCommand = "RAFT_KV_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	if err := os.Setenv(asCommand, "1"); err != nil { // for the processes that tests start
		panic(err)
	}
	os.Exit(m.Run())
}

// testTick: on a busy machine processes may not run for long.
const testTick = 20 * time.Millisecond

func testContext(t *testing.T) context.Context {
	if _, ends := t.Deadline(); !ends { // -timeout 0: as long as it takes
		return t.Context()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// command runs a command line in this process.
func runCommand(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(&cli.Env{Ctx: testContext(t), In: strings.NewReader(""), Out: &o, Err: &e}, args)
	return status, o.String(), e.String()
}

// testFleet starts three processes.
func testFleet(t *testing.T, dir string) (*fleet, clientFlags) {
	t.Helper()
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	net := netFlags{Transport: "udp", Cluster: 5}
	f, err := newFleet(net, 3, dir, testTick, addrs)
	if err == nil {
		err = f.startAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, c := range f.children {
			c.stop()
		}
	})
	return f, clientFlags{netFlags: net, Servers: strings.Join(addrs, ","), Timeout: 30 * time.Second}
}

// TestUsage: bad command lines and bad input have a name and exit status 2.
func TestUsage(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"nonsense", "unexpected argument"},
		{"put 12345678901234567 v", "key or value too large"},
		{"put k " + strings.Repeat("v", 65), "key or value too large"},
		{"get k --transport pigeon", "unknown"},
		{"server --id 1 --addr 127.0.0.1:0", "want --peers"},
		{"server --id 0 --addr 127.0.0.1:0 --join", "numbered from 1"},
		{"server --id 1 --addr 127.0.0.1:0 --peers 2=a:1", "itself is missing"},
		{"server --id 1 --addr 127.0.0.1:0 --peers 1=a:1,1=b:1", "twice"},
		{"server --id 1 --addr 127.0.0.1:0 --peers x", "want 1=HOST:PORT"},
		{"server --id 1 --addr 127.0.0.1:0 --join --lease 181ms", "at most 9 ticks"},
		{"members 1:2", "want 1=HOST:PORT"},
		{"server --id 1 --addr 127.0.0.1:0 --join --gc-heap=-1", "must not be negative"},
		{"server --id 1 --addr 127.0.0.1:0 --join --peer-name raft-*", "needs --tls-cert and --tls-ca"},
		{"server --id 1 --addr 127.0.0.1:0 --join --peer-name [", "not a pattern"},
		{"server --id 1 --addr 127.0.0.1:0 --join --peer-name a --peers-anywhere", "choose one"},
		{"server --id 1 --addr 127.0.0.1:0 --join --peer-psk-file x", "needs --psk-file"},
		{"server --id 1 --addr 127.0.0.1:0 --join --admin-name a", "needs --tls-cert and --tls-ca"},
		{"server --id 1 --addr 127.0.0.1:0 --join --admin-psk-file x", "needs --psk-file"},
		{"get k --resolve nonsense", "want NAME:PORT"},
		{"server --id 1 --addr 127.0.0.1:0 --join --resolve nonsense", "want NAME:PORT"},
		{"member add 4", "an address goes with"},
		{"cluster --replicas 99", "want 1 to 9"},
		{"bench --replicas 3 --json", "bench has left this command: it is raft-bench put now"},
		{"sim", "sim has left this command: it is raft-bench sim now"},
	} {
		status, out, errOut := runCommand(t, strings.Fields(tt.args)...)
		if status != cli.Usage || out != "" || !strings.Contains(errOut, tt.want) ||
			strings.Count(errOut, "\n") != 1 {
			t.Errorf("%s: status %d, %q, %q", tt.args, status, out, errOut)
		}
	}
	if status, _, errOut := runCommand(t, "backup", ""); status != cli.Usage ||
		!strings.Contains(errOut, "backup: want the name of a file") {
		t.Errorf("a backup without a name: %d %q", status, errOut)
	}
	if status, out, _ := runCommand(t, "--help"); status != cli.Done ||
		!strings.Contains(out, "raft-kv") {
		t.Errorf("--help: %d %q", status, out)
	}
}

// TestOps: the small commands against a running cluster.
func TestOps(t *testing.T) {
	f, cf := testFleet(t, "")
	flags := []string{"--servers", cf.Servers, "--cluster", "5", "--timeout", "30s"}
	for _, tt := range []struct {
		args, want string
		status     int
	}{
		{"put color red", "ok", 0},
		{"get color", "red", 0},
		{"get color --anywhere", "red", 0},
		{"get color --json", `"value":"red"`, 0},
		{"cas color green blue", `no: the value is "red"`, 0},
		{"cas color red blue", "ok", 0},
		{"cas other - x --absent", "ok", 0},
		{"delete other", "ok", 0},
		{"delete other", "there was none", 0},
		{"get other --json", `"found":false`, 0},
		{"get other", "no such key", 1},
		{"status", "Leader", 0},
		{"put color red --cluster 6", "wrong cluster id", 1},
	} {
		args := strings.Fields(tt.args)
		with := append([]string{args[0]}, flags...)
		status, out, errOut := runCommand(t, append(with, args[1:]...)...)
		if status != tt.status || !strings.Contains(out+errOut, tt.want) {
			t.Errorf("%s: status %d, %q, %q; want %q", tt.args, status, out, errOut, tt.want)
		}
	}
	if status, _, errOut := runCommand(t, append([]string{"status", "--json"}, "--servers",
		f.addrs()[0], "--cluster", "5")...); status != 0 {
		t.Error(errOut)
	}
	two := fmt.Sprintf("1=%s,2=%s", f.addrs()[0], f.addrs()[1])
	for _, args := range [][]string{{"members", two}, {"put", "color", "last"}} {
		with := append(args[:1:1], flags...)
		if status, _, errOut := runCommand(t, append(with, args[1:]...)...); status != 0 {
			t.Errorf("%v: %s", args, errOut)
		}
	}
	l, err := leaderOf(testContext(t), cf, f.addrs()[:2])
	if err != nil || memberText(&l.Status) != two {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestRemember: a command writes the members down, and finds the cluster again by them.
func TestRemember(t *testing.T) {
	f, cf := testFleet(t, "")
	file := filepath.Join(t.TempDir(), "members")
	for _, servers := range []string{f.addrs()[1], "127.0.0.1:1"} { // nobody is at the second
		status, _, errOut := runCommand(t, "put", "k", "v", "--servers", servers, "--cluster", "5",
			"--timeout", "30s", "--remember", file)
		if status != cli.Done {
			t.Fatalf("--servers %s: %s", servers, errOut)
		}
		b, err := os.ReadFile(file)
		if err != nil || strings.Join(strings.Fields(string(b)), ",") != cf.Servers {
			t.Errorf("%q, %v", b, err)
		}
	}
	if err := os.WriteFile(file, []byte("no addresses at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _, errOut := runCommand(t, "get", "k", "--remember", file); status != cli.Failed ||
		!strings.Contains(errOut, "not a list of addresses") {
		t.Errorf("status %d, %q", status, errOut)
	}
}

// TestDemo: the leader dies under load, nothing acknowledged is lost, and writes go on
// within ten election timeouts.
func TestDemo(t *testing.T) {
	for _, args := range [][]string{{"demo", "--json", "--writes=300"},
		{"demo", "--json", "--writes=300", "--durable"}} {
		status, out, errOut := runCommand(t, args...)
		var r demoResult
		if err := json.Unmarshal([]byte(out), &r); err != nil || status != 0 {
			t.Fatalf("%v: status %d, %q, %s", args, status, out, errOut)
		}
		t.Logf("%v: %+v", args, r)
		if r.OldLeader == r.NewLeader || r.Acked < 600 || r.Elections > 10 {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// TestKillAll: a durable cluster survives kill -9 of all its replicas at once, again and again.
func TestKillAll(t *testing.T) {
	f, cf := testFleet(t, t.TempDir())
	ctx := testContext(t)
	tr, err := startTraffic(ctx, cf, 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.stop()
	rounds := 3
	if testing.Short() {
		rounds = 1
	}
	for range rounds {
		if err := tr.more(ctx, 100); err != nil {
			t.Fatal(err)
		}
		for _, c := range f.children {
			if err := c.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range f.children {
			<-c.ended
			if err := f.start(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := tr.more(ctx, 100); err != nil {
		t.Fatal(err)
	}
	if err := tr.end(ctx, cf); err != nil {
		t.Error(err)
	}
	ops, unknown := tr.hist.Len()
	t.Logf("%d operations, %d of unknown outcome", ops, unknown)
}

// TestPauses: processes that stop for a while, the leader among them, under load.
func TestPauses(t *testing.T) {
	f, cf := testFleet(t, "")
	ctx := testContext(t)
	tr, err := startTraffic(ctx, cf, 4, 6)
	if err != nil {
		t.Fatal(err)
	}
	defer tr.stop()
	for range 2 {
		l, err := leaderOf(ctx, cf, f.addrs())
		if err != nil {
			t.Fatal(err)
		}
		p := f.children[l.ID-1].cmd.Process
		switch err := stopProcess(p); {
		case errors.Is(err, errors.ErrUnsupported):
			t.Skip(err)
		case err != nil:
			t.Fatal(err)
		}
		err = tr.more(ctx, 100)
		if err2 := contProcess(p); err2 != nil {
			t.Fatal(err2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tr.end(ctx, cf); err != nil {
		t.Error(err)
	}
}

// TestBadLog: a torn tail is cut, damage before the end and logs of others are refused.
func TestBadLog(t *testing.T) {
	dir := t.TempDir()
	f, cf := testFleet(t, dir)
	ctx := testContext(t)
	tr, err := startTraffic(ctx, cf, 2, 2)
	if err == nil {
		err = tr.more(ctx, 50)
	}
	if err != nil {
		t.Fatal(err)
	}
	victim := f.children[0]
	if err := victim.kill(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "1", "log")
	log, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damaged := bytes.Clone(log)
	damaged[len(damaged)/2] ^= 1
	write(damaged)
	if err := f.start(victim); err == nil || !strings.Contains(err.Error(), "damaged before its end") {
		t.Errorf("damaged log: %v", err)
	}
	other, err := os.ReadFile(filepath.Join(dir, "2", "log"))
	if err != nil {
		t.Fatal(err)
	}
	write(other)
	if err := f.start(victim); err == nil ||
		!strings.Contains(err.Error(), "another cluster or replica") {
		t.Errorf("foreign log: %v", err)
	}
	write(append(log, "torn record"...))
	if err := f.start(victim); err != nil {
		t.Errorf("torn tail: %v", err)
	}
	if err := tr.more(ctx, 50); err != nil {
		t.Error(err)
	}
	if err := tr.end(ctx, cf); err != nil {
		t.Error(err)
	}
}

// TestLostLog: a replica whose log is gone is refused by those that knew it, and says why.
func TestLostLog(t *testing.T) {
	f, cf := testFleet(t, "")
	ctx := testContext(t)
	tr, err := startTraffic(ctx, cf, 2, 2)
	if err == nil {
		err = tr.more(ctx, 50)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := leaderOf(ctx, cf, f.addrs())
	if err != nil {
		t.Fatal(err)
	}
	victim := f.children[l.ID%3] // a follower
	if err := victim.kill(); err != nil {
		t.Fatal(err)
	}
	if err := f.start(victim); err != nil {
		t.Fatal(err)
	}
	select {
	case <-victim.ended:
	case <-ctx.Done():
		t.Fatal("it still runs")
	}
	if text := victim.text(); !strings.Contains(text, "under a new id") &&
		!strings.Contains(text, "log was lost") {
		t.Errorf("it said %q", text)
	}
	if err := tr.end(ctx, cf); err != nil {
		t.Error(err)
	}
}
