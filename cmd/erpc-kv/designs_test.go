package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestDesigns: each design answers, and every answer is checked.
func TestDesigns(t *testing.T) {
	if names, err := verbs.Devices(); !slices.Contains(names, "rxe0") {
		if os.Getenv("RDMA_LAB") != "" {
			t.Fatalf("devices %v, %v, and this is the lab", names, err)
		}
		t.Skipf("no device rxe0 (%v): see scripts/rdma-lab", err)
	}
	args := strings.Fields("designs --addr=10.9.0.2:0 --iface=rxe0 --keys=200 --each=100ms " +
		"--rounds=1 --outstanding=1,16")
	status, out, errOut := try(t, append(args, "--json")...)
	var cells []designCell
	if err := json.Unmarshal([]byte(out), &cells); status != cli.Done || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, errOut)
	}
	if len(cells) != 2*len(designNames) {
		t.Fatalf("%d cells", len(cells))
	}
	for _, c := range cells {
		if len(c.Rates) != 1 || c.Rates[0] <= 0 || c.P50[0] <= 0 || c.Ratios[0] <= 0 {
			t.Errorf("%+v", c)
		}
	}
}

// TestDesignsTable: a line for each cell has its medians, and the range of its ratios.
func TestDesignsTable(t *testing.T) {
	var out bytes.Buffer
	c := designsCmd{Rounds: 3, Gets: 0.95}
	err := c.print(&cli.Env{Out: &out}, []*designCell{
		{"herd", 16, []float64{3000, 1000, 2000}, []float64{5, 7, 6}, []float64{1.5, 0.5, 1.25}},
		{"write", 16, []float64{2000, 2000, 1600}, []float64{9, 8, 7}, []float64{1, 1, 1}}})
	lines := strings.Split(out.String(), "\n")
	const want = "16 herd 2.0 [3.0 1.0 2.0] 6 us 1.25 0.50 to 1.50"
	if got := strings.Join(strings.Fields(lines[1]), " "); err != nil || got != want {
		t.Errorf("%v: %q, want %q", err, got, want)
	}
}

// TestSpread: the median of an even number is the upper one.
func TestSpread(t *testing.T) {
	for _, row := range []struct {
		list         []float64
		median, a, b float64
	}{{[]float64{3}, 3, 3, 3}, {[]float64{5, 1, 3}, 3, 1, 5}, {[]float64{4, 1, 3, 2}, 3, 1, 4}} {
		if m, a, b := spread(row.list); m != row.median || a != row.a || b != row.b {
			t.Errorf("%v: %v, %v, %v", row.list, m, a, b)
		}
	}
}
