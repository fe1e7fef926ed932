package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/cli"
	"github.com/userspace-rpc/erpc/internal/cli/clitest"
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

func TestUsage(t *testing.T) {
	for _, args := range []string{"demo --keys=0", "demo --value=2", "demo --gets=2",
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
