package main

import (
	"encoding/json"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestBenchWaiting: every mode serves every load, and each response is the request.
func TestBenchWaiting(t *testing.T) {
	conns, rows := "1,3", 4
	if testing.Short() {
		conns, rows = "3", 2
	}
	status, out, errOut := erpcBench.Line(t,
		"waiting --pauses 0,100 --duration 20ms --json --conns "+conns)
	if status != cli.Done {
		t.Fatalf("status %d: %s", status, errOut)
	}
	var res struct{ Rows []waitingRow }
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, r := range res.Rows {
		if seen[r.Mode]++; r.Wrong != 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, m := range waitingModes {
		if seen[m] != rows {
			t.Errorf("%s: %d rows, want %d", m, seen[m], rows)
		}
	}
}

func TestBenchWaitingUsage(t *testing.T) {
	for line, want := range map[string]string{
		"waiting --conns 65":         "--conns \"65\"",
		"waiting --pauses x":         "--pauses \"x\"",
		"waiting --loops 0":          "--loops 0",
		"waiting --duration 1ms":     "--duration 1ms",
		"waiting --serve nap":        "--serve \"nap\": want one of",
		"waiting --spin-for=-1us":    "--spin-for -1µs",
		"waiting --pauses 1,2000000": "--pauses",
	} {
		erpcBench.Misused(t, "erpc-bench", line, want)
	}
}
