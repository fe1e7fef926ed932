package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRaw: every transport and bench across a link, in one table, and a file for each run.
func TestRaw(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("network namespaces need Linux and root")
	}
	dir := filepath.Join(t.TempDir(), "out")
	code, out, said := try(t, "raw", "--erpc="+erpcForTest(t), "--dir="+dir, "--runs=1",
		"--duration=20ms", "--args=--rounds=1 --size=100000")
	if code != 0 {
		if strings.Contains(said, "CAP_SYS_ADMIN") && os.Getenv("CI") != "true" {
			t.Skip(said)
		}
		t.Fatalf("exit %d: %s", code, said)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) != 9 {
		t.Errorf("%v, files %v", err, files)
	}
	for _, tr := range []string{"udp", "afpacket", "afxdp"} {
		if !strings.Contains(out, "\n| "+tr+" | ") || strings.Contains(out, " - |") {
			t.Errorf("no full row for %s:\n%s", tr, out)
		}
	}
	code, _, said = try(t, "raw", "--erpc="+erpcForTest(t), "--runs=1", "--duration=1ms",
		"--transports=nothing", "--benches=rate")
	if code != 1 || !strings.Contains(said, "nothing") {
		t.Errorf("exit %d: %s", code, said)
	}
}
