package main

import (
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// erpcCommand is the command, for package clitest.
var erpcCommand clitest.Command = func(e *cli.Env, args []string) int {
	return run(e.Ctx, args, e.In, e.Out, e.Err)
}

// checkUsage checks that a command line is refused: the exit status is that of a wrong use, and
// standard error has one line that contains want.
func checkUsage(t *testing.T, line, want string) {
	t.Helper()
	erpcCommand.Misused(t, "erpc", line, want)
}

// oneLineWith reports whether s is one line, ours, that contains want.
func oneLineWith(s, want string) bool {
	return clitest.OneLine("erpc", s, want)
}
