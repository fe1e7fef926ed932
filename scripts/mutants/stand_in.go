package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// realGo names, in the environment, the go command that the stand-in calls.
const realGo = "MUTANTS_GO"

// memoryLimit is the address space of a process under test, in KiB. A mutant may allocate
// without end, and the time limit comes late for the rest of the machine.
const memoryLimit = "8388608"

// isStandIn says whether this process was called as the go command.
func isStandIn() bool { return filepath.Base(os.Args[0]) == "go" && os.Getenv(realGo) != "" }

// standIn runs the go command with a memory limit and returns its exit status, but 2 if
// code under test did not compile. It adds to the coverage profile what uncounted says.
func standIn(args []string) int {
	var out bytes.Buffer
	script := "ulimit -v " + memoryLimit + ` 2>/dev/null; exec "$@"`
	shell := append([]string{"-c", script, "sh", os.Getenv(realGo)}, args...)
	cmd := exec.Command("sh", shell...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	os.Stdout.Write(out.Bytes())
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		err = addCoverage(args)
		if err == nil {
			return 0
		}
		fallthrough
	case !errors.As(err, &exit):
		os.Stderr.WriteString(err.Error() + "\n")
		return 3
	}
	return status(args, exit.ExitCode(), out.Bytes())
}

// status maps the exit status of the go command to the one that gremlins expects.
func status(args []string, code int, output []byte) int {
	isTest := len(args) > 0 && args[0] == "test"
	if code == 1 && isTest && bytes.Contains(output, []byte("[build failed]")) {
		return 2
	}
	return code
}
