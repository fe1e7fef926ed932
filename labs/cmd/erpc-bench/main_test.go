package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// asCommand makes the test binary behave as the command, for the server processes that the benches
// start from their own executable.
const asCommand = "ERPC_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

var erpcBench clitest.Command = run

// gentle keeps two spinning processes from fighting over the cores that other tests use.
const gentle = " --wait adaptive --pin none"

// TestWrongUsage: flags that make no sense together are a mistake of the user's.
func TestWrongUsage(t *testing.T) {
	for line, want := range map[string]string{
		"factors --cc none":          "want timely, dcqcn, swift or cubic",
		"factors --no-prealloc":      "itself switches optimisations off",
		"factors --rounds 0":         "--rounds 0",
		"factors --batch 61":         "must not exceed --window 60",
		"factors --duration 0s":      "at least 1ms",
		"factors --addr 127.0.0.1:1": "unknown flag --addr",
	} {
		erpcBench.Misused(t, "erpc-bench", line, want)
	}
	for _, sub := range []string{"factors", "waiting"} {
		if status, out, _ := erpcBench.Line(t, sub+" --help"); status != cli.Done ||
			!strings.Contains(out, "erpc-bench "+sub) {
			t.Errorf("%s --help: status %d, %q", sub, status, out)
		}
	}
}
