package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goCommand returns a go command in the suite's module with the overlay.
func (o *options) goCommand(does string, args ...string) *exec.Cmd {
	cmd := exec.Command(goTool,
		append([]string{does, "-overlay", filepath.Join(o.dir, "overlay.json")}, args...)...)
	cmd.Dir = o.suite.folder(o.dir)
	cmd.Env = append(os.Environ(), "GOWORK="+filepath.Join(o.dir, "go.work"))
	cmd.Env = append(cmd.Env, o.environment()...)
	cmd.Stderr = os.Stderr
	return cmd
}

// environment tells the overlay what servers listen on.
func (o *options) environment() []string {
	return []string{"ERPC_SUITE_NET=" + o.net, fmt.Sprint("ERPC_SUITE_LOSS=", o.loss)}
}

// moduleTests runs the tests of packages of the suite's module, and what failed once more, alone:
// they have limits of time.
func (o *options) moduleTests(lists lists) ([]result, error) {
	all, err := o.goTest(append([]string{"-p", fmt.Sprint(o.jobs)}, o.suite.tests...)...)
	for i := range all {
		r := &all[i]
		if _, listed := lists[o.name+":"+r.name]; !r.failed || listed || err != nil {
			continue
		}
		var alone []result
		if alone, err = o.alone(r.name); len(alone) == 1 && !alone[0].failed {
			fmt.Printf("AGAIN %s passed alone; beside others: %s\n", r.name, r.first)
			*r = alone[0]
		}
	}
	return all, err
}

// alone runs a test that testResults names.
func (o *options) alone(name string) ([]result, error) {
	folder, test := name, ""
	if i := strings.LastIndex("."+name, ".Test"); i >= 0 {
		folder, test = strings.TrimSuffix(name[:i], "."), name[i:]
	}
	var pattern []string
	for part := range strings.SplitSeq(test, "/") {
		pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
	}
	return o.goTest("-run", strings.Join(pattern, "/"), "./"+folder)
}

// goTest runs go test with the overlay, and keeps what it said.
func (o *options) goTest(args ...string) ([]result, error) {
	out, err := o.goCommand("test", append([]string{"-json", "-vet=off", "-count=1"},
		args...)...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, err
	}
	if err := o.keep(out); err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(o.suite.module, "@")
	return testResults(path, out)
}

// keep appends to the suite's log.
func (o *options) keep(out []byte) error {
	path := filepath.Join(o.dir, "suite.log")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(out)
	return errors.Join(err, f.Close())
}

// event is a line of go test -json.
type event struct{ Action, Package, Test, Output string }

// testResults reads what go test -json said: the tests that have no other in them, as
// "folder.Test/inner", and the packages that failed for another reason, as "folder".
func testResults(module string, out []byte) ([]result, error) {
	said, ended := map[string]*bytes.Buffer{}, map[string]bool{} // whether it failed
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var e event
		if err := lines.Decode(&e); errors.Is(err, io.EOF) {
			return leaves(said, ended), nil
		} else if err != nil {
			return nil, fmt.Errorf("go test -json: %w", err)
		}
		name := strings.TrimPrefix(strings.TrimPrefix(e.Package, module), "/")
		if e.Test != "" {
			name = strings.TrimPrefix(name+"."+e.Test, ".")
		}
		if said[name] == nil {
			said[name] = new(bytes.Buffer)
		}
		switch e.Action {
		case "output":
			said[name].WriteString(e.Output)
		case "build-output":
			fmt.Fprint(os.Stderr, e.Output)
		case "pass", "skip":
			if e.Test != "" {
				ended[name] = false
			}
		case "fail":
			ended[name] = true
		}
	}
}

// leaves returns the results of what has nothing of the same result in it.
func leaves(said map[string]*bytes.Buffer, ended map[string]bool) []result {
	var all []result
	names := slices.Sorted(maps.Keys(ended))
	for i, name := range names {
		inner := slices.ContainsFunc(names[i+1:], func(other string) bool {
			rest, ok := strings.CutPrefix(other, name)
			ok = ok && (name == "" || rest[0] == '/' || rest[0] == '.')
			return ok && ended[other] == ended[name]
		})
		if inner {
			continue
		}
		r := result{test: test{name: name}, failed: ended[name]}
		if r.failed {
			r.first = firstLine(said[name].Bytes(), errors.New("it failed"))
		}
		all = append(all, r)
	}
	return all
}
