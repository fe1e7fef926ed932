package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFuzzOne: scripts/fuzz-one fails when go test does, unless that says no more than that the
// time was up, and what it prints then names no failure.
func TestFuzzOne(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("scripts/fuzz-one needs bash")
	}
	script, err := filepath.Abs("../fuzz-one")
	if err != nil {
		t.Fatal(err)
	}
	const (
		line  = "fuzz: elapsed: 3s, execs: 40304 (0/sec), new interesting: 104 (total: 108)\n"
		fail  = "--- FAIL: FuzzIt (3.20s)\n"
		up    = "    context deadline exceeded\n"
		after = "FAIL\nexit status 1\nFAIL\texample.test/it\t3.202s\n"
	)
	for name, c := range map[string]struct {
		says string
		fine bool
	}{
		"time is up": {line + fail + up + after, true},
		"failing input": {line + fail + "    --- FAIL: FuzzIt (0.00s)\n        it_test.go:9: bad\n" +
			"    \n    Failing input written to testdata/fuzz/FuzzIt/1\n" + after, false},
		"failing input at the end": {line + fail + up + after + "Failing input written to x\n", false},
		"failing seed": {fail + "    --- FAIL: FuzzIt/seed#0 (0.00s)\n        it_test.go:9: " +
			"context deadline exceeded\n" + after, false},
		"another target": {strings.ReplaceAll(line+fail+up+after, "FuzzIt", "FuzzItToo"), false},
		"no build":       {"FAIL\texample.test/it [build failed]\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			said := filepath.Join(dir, "said")
			if err := os.WriteFile(said, []byte(c.says), 0o644); err != nil {
				t.Fatal(err)
			}
			gocmd := filepath.Join(dir, "go")
			if err := os.WriteFile(gocmd, []byte("#!"+bash+"\ncat '"+said+"'\nexit 1\n"),
				0o755); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(bash, script, gocmd, "FuzzIt", "3s", "1").CombinedOutput()
			if (err == nil) != c.fine {
				t.Errorf("%v\n%s", err, out)
			}
			if strings.Contains(string(out), "FAIL") == c.fine {
				t.Errorf("it prints:\n%s", out)
			}
		})
	}
}
