package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
	"github.com/userspace-rpc/erpc/labs/benchrows"
)

// TestMain lets the test binary be the program, for children.
func TestMain(m *testing.M) { clitest.Main(m, main, &childEnv) }

// try runs a command line.
func try(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	return clitest.Command(run).Try(t, args...)
}

// TestDemo: the demonstration checks every answer itself.
func TestDemo(t *testing.T) {
	for _, gets := range []string{"0.5", "1"} {
		status, out, errOut := try(t, "demo", "--keys=500", "--rounds=1", "--each=10ms", "--json",
			"--gets="+gets)
		var r result
		if err := json.Unmarshal([]byte(out), &r); status != cli.Done || err != nil {
			t.Fatalf("status %d, %v: %s", status, err, errOut)
		}
		if len(r.Rows) != len(rowList()) {
			t.Fatalf("%d rows", len(r.Rows))
		}
		for _, row := range r.Rows {
			if row.Calls == 0 || len(row.Nanos) != 1 || row.Nanos[0] <= 0 {
				t.Errorf("%+v", row)
			}
		}
	}
	status, out, errOut := try(t, "demo", "--keys=500", "--rounds=1", "--each=5ms", "--value=100")
	if status != cli.Done || !strings.Contains(out, "each answer checked") {
		t.Errorf("status %d: %s%s", status, out, errOut)
	}
}

// TestRdma: each row over the adapters of the lab answers, and every answer is checked.
func TestRdma(t *testing.T) {
	if names, err := verbs.Devices(); !slices.Contains(names, "rxe0") {
		if os.Getenv("RDMA_LAB") != "" {
			t.Fatalf("devices %v, %v, and this is the lab", names, err)
		}
		t.Skipf("no device rxe0 (%v): see scripts/rdma-lab", err)
	}
	args := strings.Fields("rdma --server=10.9.0.2 --client=10.9.0.1 --keys=100 --each=20ms " +
		"--rounds=1 --gets=0.5")
	status, out, errOut := try(t, append(args, "--json")...)
	var r result
	if err := json.Unmarshal([]byte(out), &r); status != cli.Done || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errOut)
	}
	if len(r.Rows) != len(rdmaRows()) {
		t.Fatalf("%d rows", len(r.Rows))
	}
	for _, row := range r.Rows {
		if row.Calls == 0 || len(row.Nanos) != 1 || row.Nanos[0] <= 0 {
			t.Errorf("%+v", row)
		}
	}
}

// TestNoAdapter: a machine without the adapter is told so.
func TestNoAdapter(t *testing.T) {
	status, _, errOut := try(t, "rdma", "--server=127.0.0.1", "--client=127.0.0.1", "--rounds=1")
	if status == cli.Done || !strings.Contains(errOut, "ibv_") && !strings.Contains(errOut, "RDMA") &&
		!strings.Contains(errOut, "verbs") {
		t.Errorf("status %d: %s", status, errOut)
	}
}

// TestPerRound: a line for each row has all of its rounds.
func TestPerRound(t *testing.T) {
	rows := []benchrows.Row{{Name: "fetch"}, {Name: "reply"}}
	got := perRound(benchrows.Times{"fetch": {1e5, 2e5}, "reply": {1e4, 1e3}}, rows)
	const want = "k/s of each round: fetch 10.0 5.0 reply 100.0 1000.0"
	if got := strings.Join(strings.Fields(got), " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range []string{"rdma", "rdma --server=x --client=10.0.0.1",
		"rdma --server=10.0.0.1 --client=x", "rdma --server=10.0.0.1 --client=10.0.0.2 --rounds=0",
		"demo --keys=0", "demo --value=2", "demo --gets=2",
		"demo --rounds=0", "demo --each=1us", "nothing"} {
		if status, _, errOut := try(t, strings.Fields(args)...); status != cli.Usage || errOut == "" {
			t.Errorf("%s: status %d, %q", args, status, errOut)
		}
	}
}

// TestRight holds the checker to the values that it checks.
func TestRight(t *testing.T) {
	for n := 4; n < 50; n++ {
		v := appendValue(nil, 7, n)
		if len(v) != n || !right(v, 7, n) || right(v, 8, n) || right(v[:n-1], 7, n) {
			t.Fatalf("values of %d bytes", n)
		}
		v[n-1]++
		if right(v, 7, n) {
			t.Fatalf("a wrong value of %d bytes", n)
		}
	}
}
