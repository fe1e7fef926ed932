package paperlab

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestSimRfp runs the quickest figure as a table, as JSON and as a picture.
func TestSimRfp(t *testing.T) {
	try := func(args ...string) (int, string) {
		status, out, _ := erpcSim.Try(t, append([]string{"sim", "rfp"}, args...)...)
		return status, out
	}
	plot := filepath.Join(t.TempDir(), "a.svg")
	status, out := try("--figure=sizes", "--plot="+plot)
	if status != cli.Done || !strings.Contains(out, "out-bound WRITEs") ||
		!strings.Contains(out, "2.11") {
		t.Errorf("status %d: %s", status, out)
	}
	if svg, err := os.ReadFile(plot); err != nil || !bytes.Contains(svg, []byte("in-bound READs")) {
		t.Errorf("%d bytes of a picture, %v", len(svg), err)
	}
	if status, _ := try("--figure=nothing"); status != cli.Usage {
		t.Errorf("status %d", status)
	}
}

// TestSimHerd runs a figure of curves and asks for what there is not.
func TestSimHerd(t *testing.T) {
	try := func(args ...string) (int, string) {
		status, out, _ := erpcSim.Try(t, append([]string{"sim", "herd"}, args...)...)
		return status, out
	}
	if status, out := try("--figure=latency"); status != cli.Done || !strings.Contains(out, "ECHO") {
		t.Errorf("status %d: %s", status, out)
	}
	for _, wrong := range []string{"--figure=designs", "--plot=a.svg"} {
		if status, _ := try(wrong); status != cli.Usage {
			t.Errorf("%s: status %d", wrong, status)
		}
	}
}
