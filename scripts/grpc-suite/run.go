package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// test is a test of grpc-go, and whether it runs in the environments that grpc-go lists.
type test struct {
	name string
	envs bool
}

// result is how a test ended.
type result struct {
	test
	failed bool
	first  string // the first line that says why
}

// testFunc begins a test in grpc-go's source.
var testFunc = regexp.MustCompile(`(?m)^func (\(s\) )?(Test\w+)\(t \*testing\.T\) \{$`)

// findTests reads the names of tests from the source: go test lists only what holds them.
func findTests(dir string) ([]test, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var list []test
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		at := testFunc.FindAllSubmatchIndex(text, -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			t := test{string(text[m[4]:m[5]]), strings.Contains(string(text[m[0]:end]), "listTestEnv()")}
			switch {
			case t.name == "Test": // holds the others
			case m[2] < 0:
				t.name = "/" + t.name // on its own
				fallthrough
			default:
				list = append(list, t)
			}
		}
	}
	slices.SortFunc(list, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// grpcTests runs those of grpc-go's package test.
func (o *options) grpcTests(lists lists) ([]result, error) {
	cmd := o.goCommand("test", "-c", "-vet=off", "-o", filepath.Join(o.dir, "suite.test"), "./test")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("grpc-go's tests with the overlay: %w", err)
	}
	tests, err := findTests(filepath.Join(o.dir, "grpc/test"))
	if err != nil {
		return nil, err
	}
	return o.runAll(lists, tests), nil
}

// runAll runs the tests that were asked for, some at a time.
func (o *options) runAll(lists lists, tests []test) []result {
	var all []result
	var mu sync.Mutex
	var work sync.WaitGroup
	next := make(chan test)
	for range o.jobs {
		work.Go(func() {
			for t := range next {
				r := o.run(t)
				mu.Lock()
				all = append(all, r)
				mu.Unlock()
			}
		})
	}
	for _, t := range tests {
		_, listed := lists[t.name]
		if o.match.MatchString(t.name) && !(o.listed == "only" && !listed) &&
			!(o.listed == "skip" && listed) {
			next <- t
		}
	}
	close(next)
	work.Wait()
	o.again(lists, all)
	slices.SortFunc(all, func(a, b result) int { return strings.Compare(a.name, b.name) })
	return all
}

// again runs once more, alone, what failed beside others and is of no list: tests of grpc-go have
// limits of time, and dial with them. It says so.
func (o *options) again(lists lists, all []result) {
	for i := range all {
		r := &all[i]
		if _, listed := lists[r.name]; !r.failed || listed {
			continue
		}
		first := r.first
		if *r = o.run(r.test); !r.failed {
			fmt.Printf("AGAIN %s passed alone; beside others: %s\n", r.name, first)
		}
	}
}

// socketFile is held by tests that listen at one and the same file of the machine.
var socketFile sync.Mutex

// run runs a test, in two environments if it is of several.
func (o *options) run(t test) result {
	if strings.HasPrefix(t.name, "TestUnix") {
		socketFile.Lock()
		defer socketFile.Unlock()
	}
	r := result{test: t}
	envs := []string{""}
	if t.envs {
		envs = []string{"tcp-clear", "tcp-tls"}
	}
	for _, env := range envs {
		out, err := o.once(t.name, env)
		if err == nil {
			continue
		}
		r.failed = true
		if r.first == "" {
			r.first = env + " " + firstLine(out, err)
		}
		_ = os.WriteFile(filepath.Join(o.dir, strings.TrimPrefix(t.name, "/")+env+".log"), out, 0o666)
		if o.verbose {
			fmt.Printf("%s\n", out)
		}
	}
	return r
}

// once runs a test in one environment.
func (o *options) once(name, env string) ([]byte, error) {
	pattern := "^Test$/^" + strings.TrimPrefix(name, "Test") + "$"
	if own, ok := strings.CutPrefix(name, "/"); ok {
		pattern = "^" + own + "$"
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.limit+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(o.dir, "suite.test"), "-test.v",
		"-test.run", pattern,
		"-test.timeout", o.limit.String(), "-only_env", env)
	cmd.Dir = filepath.Join(o.dir, "grpc/test")
	cmd.Env = append(os.Environ(), o.environment()...)
	out, err := cmd.CombinedOutput()
	if err == nil && !strings.Contains(string(out), "--- PASS: ") &&
		!strings.Contains(string(out), "--- SKIP: ") {
		err = errors.New("it did not run")
	}
	return out, err
}

// said is a line of a test that fails which tells why, in contrast to what grpc logs.
var said = regexp.MustCompile(`(?m)^\s+\w+\.go:\d+: .*|^panic: .*|^\s+\S+_test\.go:\d+: .*`)

// noise is what tests say that goes well.
var noise = regexp.MustCompile(
	"tlogger.go|Leak checker|Running test in|Started test serv|Registered")

// firstLine returns what a test that failed said first.
func firstLine(out []byte, err error) string {
	for _, line := range said.FindAllString(string(out), -1) {
		line = strings.TrimSpace(line)
		if !noise.MatchString(line) {
			return line
		}
	}
	return err.Error()
}
