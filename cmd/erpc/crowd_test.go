package main

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestBenchTellsCrowd: a bench whose loops outnumber its cores says so once.
func TestBenchTellsCrowd(t *testing.T) {
	if len(cli.AllowedCores()) < 2 {
		if os.Getenv("CI") == "true" && runtime.GOOS == "linux" && runtime.NumCPU() >= 2 {
			t.Fatal("the machine has cores, and the command does not find them")
		}
		t.Skip("one core is a crowd for two processes")
	}
	for threads, want := range map[int]int{1: 0, 2: 1} {
		line := "bench rate --pin 0,0 --duration 10ms --rounds 2 --versus none --threads "
		line += strconv.Itoa(threads)
		if threads == 1 {
			line = strings.Replace(line, "--pin 0,0", "--pin none", 1)
		}
		status, _, errOut := runCommand(t, line+" --wait adaptive")
		if n := strings.Count(errOut, "event loops take turns"); status != 0 || n != want {
			t.Errorf("%s: status %d, said %d times, want %d\n%s", line, status, n, want, errOut)
		}
	}
}
