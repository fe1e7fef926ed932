package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

func runCommand(t *testing.T, args ...string) (status int, out, errOut string) {
	t.Helper()
	return clitest.Command(run).Try(t, args...)
}

// TestUsage: flags that do not fit are a mistake of the user's.
func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"put --trust-local": "need --tls-ca", "put --placement x": "want together or spread",
		"put --gc-heap=-1": "must not be negative", "put --replicas 0": "want 1 to 9",
		"sim --trips 1us": "which hosts take", "sim --replicas 10": "want 1 to 9",
		"sim --raft 2ms": "want 0 to 1ms",
	} {
		status, out, errOut := runCommand(t, strings.Fields(line)...)
		if status != cli.Usage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: status %d, %q, %q", line, status, out, errOut)
		}
	}
}

// TestSim: the curve has a row for each model and round trip, and the same one in JSON.
func TestSim(t *testing.T) {
	args := []string{"sim", "--keys", "100", "--requests", "20"}
	status, out, errOut := runCommand(t, args...)
	if rows := strings.Count(out, "\n"); status != cli.Done || errOut != "" || rows != 17 {
		t.Errorf("status %d, %d rows: %q, %q", status, rows, out, errOut)
	}
	var got struct{ Rows []simRow }
	status, out, _ = runCommand(t, append(args, "--raft", "4us", "--trips", "7us", "--json")...)
	if err := json.Unmarshal([]byte(out), &got); err != nil || status != cli.Done ||
		len(got.Rows) != 1 || got.Rows[0].Raft != 4*time.Microsecond || got.Rows[0].Ratio < 2.4 ||
		got.Rows[0].Ratio > 2.7 {
		t.Errorf("status %d, %v: %s", status, err, out)
	}
}
