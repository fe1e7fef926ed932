package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// programs builds programs of the suite's module into the folder bin.
func (o *options) programs(folders ...string) error {
	args := []string{"-o", filepath.Join(o.dir, "bin") + "/"}
	for _, f := range folders {
		args = append(args, "./"+f)
	}
	return o.goCommand("build", args...).Run()
}

// program returns a command of one of them.
func (o *options) program(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(o.dir, "bin", name), args...)
	cmd.Dir = o.suite.folder(o.dir)
	cmd.Env = append(os.Environ(), o.environment()...)
	return cmd
}

// What connectconformance says of its cases.
var (
	caseSent   = regexp.MustCompile(`Sending request for "(.+)"\.\.\.`)
	caseFailed = regexp.MustCompile(`(?m)^FAILED: (.+):\n(.*)`)
	caseTotal  = regexp.MustCompile(`Total cases: (\d+)\n(\d+) passed, (\d+) failed`)
)

// conformance has connectconformance run the client of grpc-go against the server of grpc-go.
func (o *options) conformance(lists) ([]result, error) {
	if err := o.programs(o.suite.programs...); err != nil {
		return nil, err
	}
	bin := filepath.Join(o.dir, "bin")
	out, err := o.program("connectconformance", "--vv", "--conf", "testing/grpc-impls-config.yaml",
		"--mode", "both", "--", filepath.Join(bin, "grpcclient"), "-p", fmt.Sprint(4*o.jobs), "----",
		filepath.Join(bin, "grpcserver")).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if err := o.keep(out); err != nil {
		return nil, err
	}
	return conformanceResults(out)
}

// conformanceResults reads them from what it said.
func conformanceResults(out []byte) ([]result, error) {
	failures := make(map[string]string)
	for _, m := range caseFailed.FindAllSubmatch(out, -1) {
		failures[string(m[1])] = strings.TrimSpace(string(m[2]))
	}
	var all []result
	for _, m := range caseSent.FindAllSubmatch(out, -1) {
		why, failed := failures[string(m[1])]
		all = append(all, result{test: test{name: string(m[1])}, failed: failed, first: why})
	}
	total := caseTotal.FindSubmatch(out)
	if total == nil || fmt.Sprint(len(all)) != string(total[1]) ||
		fmt.Sprint(len(failures)) != string(total[3]) {
		last := out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:]
		return nil, fmt.Errorf("connectconformance ended with %d cases, %d of them failed: %s",
			len(all), len(failures), last)
	}
	return all, nil
}
