package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gremlins runs go-gremlins in a scratch module.
type gremlins struct {
	command     string // go-gremlins itself
	goCmd       string // the go command, as a path
	temp        string // an empty folder of ours
	scratch     string // the scratch module
	pkg         string // the package's folder in it
	importPath  string
	setup       setup
	workers     int
	coefficient int  // of the time limit; 0 until known
	sampled     bool // the scratch module is a git repository, see commitAndMark
}

// setup says which tests of a package run.
type setup struct {
	short bool     // with -short
	also  []string // tests of other packages that run too
}

// setups of the packages that need more than their own tests, all of them.
var setups = map[string]setup{
	"session":   {short: true},
	"erpc":      {short: true, also: []string{"erpc/simtest"}},
	"kv/client": {short: true, also: []string{"kv/server"}},

	"rfp/onesided/model": {short: true, also: []string{"internal/paperlab/rfplab"}},

	"raft-example/client": {short: true, also: []string{"raft-example/simtest", "raft-example/node"}},
	"raft-example/node":   {short: true, also: []string{"raft-example/simtest"}},
}

// The time limit of a mutant is a multiple of the time that the tests take with all
// mutants off, as a machine may have other work too.
const (
	minCoefficient = 10
	minLimit       = 20 * time.Second
)

// environment returns what gremlins and all below it get. With -trimpath the go command's
// cache serves packages that were compiled elsewhere, and each copy of the module is elsewhere.
func (g *gremlins) environment() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	link := filepath.Join(g.temp, "bin", "go")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return nil, err
	}
	if err := os.Symlink(self, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	flags := strings.Fields(os.Getenv("GOFLAGS"))
	flags = append(flags, "-trimpath", "-count=1", "-vet=off")
	if g.setup.short {
		flags = append(flags, "-short")
	}
	env := gitEnv(os.Environ())
	env = append(env, cpuFile+"="+filepath.Join(g.temp, "cpu"))
	if g.setup.also != nil {
		env = append(env, ownTests+"="+g.importPath)
	}
	return append(env, realGo+"="+g.goCmd, moreCoverage+"="+g.coverage(),
		"GOFLAGS="+strings.Join(flags, " "), "GOWORK=off", "TMPDIR="+g.temp,
		"PATH="+filepath.Dir(link)+string(os.PathListSeparator)+os.Getenv("PATH")), nil
}

// coverage names the file with the lines that the coverage profile lacks.
func (g *gremlins) coverage() string { return filepath.Join(g.temp, "coverage") }

// all returns all mutants of the given files, those that no test reaches as not covered.
// It also learns how long the tests take.
func (g *gremlins) all(ctx context.Context, files []string) ([]mutant, error) {
	err := writeUncounted(g.coverage(), g.importPath, filepath.Join(g.scratch, g.pkg), files)
	if err != nil {
		return nil, err
	}
	list, log, err := g.run(ctx, files, "--dry-run")
	if err != nil {
		return nil, err
	}
	took, err := coverageTime(log)
	if err != nil {
		return nil, err
	}
	if g.coefficient == 0 {
		g.coefficient = max(minCoefficient, int(math.Ceil(float64(minLimit)/float64(took))))
	}
	return list, nil
}

// test runs the tests against each mutant of one file.
func (g *gremlins) test(ctx context.Context, file string) ([]mutant, error) {
	args := []string{"--timeout-coefficient", strconv.Itoa(g.coefficient),
		"--workers", strconv.Itoa(g.workers)}
	if g.sampled {
		args = append(args, "--diff", "HEAD")
	}
	list, _, err := g.run(ctx, []string{file}, args...)
	return slices.DeleteFunc(list, func(m mutant) bool { return m.Status == skipped }), err
}

// run runs gremlins once and returns the mutants and what it printed.
func (g *gremlins) run(
	ctx context.Context, files []string, args ...string,
) ([]mutant, []byte, error) {
	env, err := g.environment()
	if err != nil {
		return nil, nil, err
	}
	report := filepath.Join(g.temp, "report.json")
	if err := os.Remove(report); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	args = append([]string{"unleash", "--output", report}, args...)
	if len(g.setup.also) > 0 {
		args = append(args, "--integration", "--coverpkg", g.importPath)
	}
	dir := filepath.Join(g.scratch, g.pkg)
	others, err := excluded(os.DirFS(dir), files)
	if err != nil {
		return nil, nil, err
	}
	for _, pattern := range others {
		args = append(args, "--exclude-files", pattern)
	}
	cmd := exec.CommandContext(ctx, g.command, args...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	log, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if err == nil && bytes.Contains(log, []byte("ERROR:")) {
		err = errors.New("some mutants were not applied") // gremlins goes on all the same
	}
	if err != nil {
		return nil, nil, fmt.Errorf("gremlins %s: %w\n%s", strings.Join(args, " "), err, log)
	}
	b, err := os.ReadFile(report)
	if errors.Is(err, fs.ErrNotExist) && bytes.Contains(log, []byte("No results to report")) {
		return nil, log, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("gremlins wrote no report: %w\n%s", err, log)
	}
	list, err := parseReport(b)
	return list, log, err
}

// excluded returns the patterns that keep gremlins from all files but the given ones, and
// from packages in folders below.
func excluded(dir fs.FS, files []string) ([]string, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	patterns := []string{"/"}
	for _, name := range names {
		if !slices.Contains(files, name) && !strings.HasSuffix(name, "_test.go") {
			patterns = append(patterns, "^"+regexp.QuoteMeta(name)+"$")
		}
	}
	return patterns, nil
}

var coverageLine = regexp.MustCompile(`Gathering coverage\.\.\. done in (\S+)`)

// coverageTime finds in the log of gremlins how long the tests took.
func coverageTime(log []byte) (time.Duration, error) {
	m := coverageLine.FindSubmatch(log)
	if m == nil {
		return 0, fmt.Errorf("gremlins does not say how long the tests took:\n%s", log)
	}
	return time.ParseDuration(string(m[1]))
}
