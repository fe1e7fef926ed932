package main

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/internal/cli"
)

// checkUsage checks that a command line is refused: the exit status is that of a wrong use, and
// standard error has one line that contains want.
func checkUsage(t *testing.T, line, want string) {
	t.Helper()
	status, out, errOut := runCommand(t, line)
	if status != cli.Usage || out != "" || !oneLineWith(errOut, want) {
		t.Errorf("erpc %s: status %d, out %q, err %q; want 2 and one line with %q",
			line, status, out, errOut, want)
	}
}

// oneLineWith reports whether s is one line, ours, that contains want.
func oneLineWith(s, want string) bool {
	return strings.HasPrefix(s, "erpc: ") && strings.Count(s, "\n") == 1 &&
		strings.HasSuffix(s, "\n") && strings.Contains(s, want)
}
