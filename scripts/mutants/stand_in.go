package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
)

// realGo names, in the environment, the go command that the stand-in calls.
const realGo = "MUTANTS_GO"

// cpuFile names, in the environment, the file in which the stand-in keeps how much
// processor time the tests take, in seconds.
const cpuFile = "MUTANTS_CPU"

// ownTests names, in the environment, the package whose own tests run first.
const ownTests = "MUTANTS_OWN"

// memoryLimit is the address space of a process under test, in KiB. A mutant may allocate
// without end, and the time limit comes late for the rest of the machine.
const memoryLimit = 8 << 20

// The limit on processor time of a process under test: a multiple of what all of
// the coverage run took, compiling included. It ends mutants that spin, however little of the
// machine they get, while the time limit of gremlins has to allow for other work.
const (
	cpuTimes    = 5
	minCPU      = 10  // seconds
	coverageCPU = 600 // seconds: of the coverage run itself
)

// isStandIn says whether this process was called as the go command.
func isStandIn() bool { return filepath.Base(os.Args[0]) == "go" && os.Getenv(realGo) != "" }

// standIn is the go command. The tests of a mutant are those of its own package first: if they fail
// the others are not needed.
func standIn(args []string) int {
	if own := ownFirst(args, os.Getenv(ownTests)); own != nil {
		if code := runGo(own); code != 0 {
			return code
		}
	}
	return runGo(args)
}

// ownFirst returns the arguments that run the tests of package own alone, nil if args do not run
// those of all packages on a mutant.
func ownFirst(args []string, own string) []string {
	last := len(args) - 1
	if own == "" || last < 1 || args[0] != "test" || args[last] != "./..." || isCoverage(args) {
		return nil
	}
	return append(slices.Clone(args[:last]), own)
}

// runGo runs the go command with a memory limit and returns its exit status, but 2 if
// code under test did not compile. It adds to the coverage profile what uncounted says.
func runGo(args []string) int {
	var out bytes.Buffer
	script := fmt.Sprintf(`ulimit -v %d 2>/dev/null; ulimit -t %d; exec "$@"`,
		memoryLimit, cpuLimit(args))
	shell := append([]string{"-c", script, "sh", os.Getenv(realGo)}, args...)
	cmd := exec.Command("sh", shell...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	os.Stdout.Write(out.Bytes())
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		err = errors.Join(addCoverage(args), keepCPU(args, cmd.ProcessState))
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

// isCoverage says whether these are the arguments of the coverage run, which comes first.
func isCoverage(args []string) bool { return slices.Contains(args, "-coverprofile") }

// cpuLimit returns the limit on processor time in seconds.
func cpuLimit(args []string) int {
	b, err := os.ReadFile(os.Getenv(cpuFile))
	took, bad := strconv.Atoi(string(b))
	if isCoverage(args) || err != nil || bad != nil {
		return coverageCPU
	}
	return max(minCPU, cpuTimes*took)
}

// keepCPU notes the processor time of the coverage run.
func keepCPU(args []string, state *os.ProcessState) error {
	if !isCoverage(args) {
		return nil
	}
	seconds := int((state.UserTime() + state.SystemTime()).Seconds())
	return os.WriteFile(os.Getenv(cpuFile), []byte(strconv.Itoa(seconds)), 0o644)
}
