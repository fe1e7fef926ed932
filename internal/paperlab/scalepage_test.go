package paperlab

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/paperlab/simlab"
)

// scalePage checks that docs/scale.md has a row of a table.
func scalePage(t *testing.T, row string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), row+"\n") {
		t.Errorf("docs/scale.md has no row\n%s", row)
	}
}

// TestScalePagePaths: docs/scale.md has what "erpc sim paths" prints, and the path with the fewest
// calls has at least what a free path alone has, and 4 times what the congested one has.
func TestScalePagePaths(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds, in one goroutine")
	}
	code, out, _ := erpcSim.Line(t, "sim paths --json")
	var res simlab.PathsResult
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != 0 || len(res.Rows) != 4 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	for _, r := range res.Rows {
		var shares []string
		for _, s := range r.Shares {
			shares = append(shares, fmt.Sprintf("%.0f %%", 100*s))
		}
		scalePage(t, fmt.Sprintf("| %s | %.1f Gbit/s | %.0f us | %.0f us | %s |", r.Policy, r.Gbps, r.P50,
			r.P99, strings.Join(shares, ", ")))
	}
	free, congested, turns, fewest := res.Rows[0], res.Rows[1], res.Rows[2], res.Rows[3]
	if fewest.Gbps < free.Gbps || fewest.Gbps < 4*congested.Gbps || fewest.Gbps < 1.2*turns.Gbps {
		t.Errorf("%+v", res.Rows)
	}
}

// TestScalePageNodes: docs/scale.md has what "erpc sim scale" prints for 100 nodes with subsets
// below eight spines. The row of 1,000 nodes takes minutes: it is there by the same command.
func TestScalePageNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("some seconds, in one goroutine")
	}
	nodes := 100
	if os.Getenv("SCALE_NODES") != "" {
		nodes = 1000
	}
	code, out, _ := erpcSim.Line(t, fmt.Sprintf(
		"sim scale --nodes %d --threads 1 --peers 20 --spines 8 --window 8 --json", nodes))
	var res simlab.ScaleResult
	if err := json.Unmarshal([]byte(out), &res); err != nil || code != 0 || len(res.Rows) != 1 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	r := res.Rows[0]
	scalePage(t, fmt.Sprintf("| %d | %d | %.2f M/s | %.1f us | %.1f us | %.1f |", nodes, r.Sessions,
		r.Mrps, r.P50, r.P99, r.Events))
}
