package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// guard is a place that keeps somebody out, and what takes it away.
type guard struct {
	name     string
	file     string
	old, new string // of a place in the file that there is once
	pkg, run string // the tests that must fail without it
}

// listFile holds the guards.
const listFile = "scripts/guards/guards.txt"

func main() {
	only := flag.String("run", "", "only guards whose name contains this")
	verbose := flag.Bool("v", false, "print what the tests say")
	flag.Parse()
	lived, err := run(*only, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "guards:", err)
		os.Exit(2)
	}
	if lived > 0 {
		fmt.Fprintf(os.Stderr, "guards: %d of the mutants live: a test must notice each\n", lived)
		os.Exit(1)
	}
}

// run tries the mutants of all guards whose name contains a text, and returns how many live.
func run(only string, verbose bool) (lived int, err error) {
	text, err := os.ReadFile(listFile)
	if err != nil {
		return 0, err
	}
	list, err := parse(string(text))
	if err != nil {
		return 0, err
	}
	tried := 0
	for _, g := range list {
		if !strings.Contains(g.name, only) {
			continue
		}
		tried++
		killed, out, err := g.try()
		if err != nil {
			return lived, fmt.Errorf("%s: %w", g.name, err)
		}
		verdict := "killed"
		if !killed {
			verdict = "LIVES"
			lived++
		}
		fmt.Printf("%-8s %s\n", verdict, g.name)
		if verbose {
			fmt.Println(out)
		}
	}
	fmt.Printf("%d mutants, %d live\n", tried, lived)
	return lived, nil
}

// parse reads a list: blocks of "key: value" lines with empty lines between them. The value of old
// and new may go on in lines that begin with a tab, which is left out.
func parse(text string) (list []guard, err error) {
	for i, block := range strings.Split(text, "\n\n") {
		var g guard
		fields := map[string]*string{"guard": &g.name, "file": &g.file, "old": &g.old, "new": &g.new,
			"pkg": &g.pkg, "run": &g.run}
		var last *string
		for _, line := range strings.Split(block, "\n") {
			switch key, value, ok := strings.Cut(line, ":"); {
			case line == "" || line[0] == '#':
			case line[0] == '\t' && last != nil:
				*last += "\n" + line[1:]
			case !ok || fields[key] == nil:
				return nil, fmt.Errorf("%s: block %d: %q is no field", listFile, i+1, line)
			default:
				last = fields[key]
				*last = strings.TrimPrefix(value, " ")
			}
		}
		if g == (guard{}) {
			continue
		}
		if g.name == "" || g.file == "" || g.old == "" || g.pkg == "" || g.run == "" {
			return nil, fmt.Errorf("%s: block %d lacks a field", listFile, i+1)
		}
		list = append(list, g)
	}
	return list, nil
}

// mutant returns the file without the guard.
func (g *guard) mutant() ([]byte, error) {
	text, err := os.ReadFile(g.file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), g.old); n != 1 {
		return nil, fmt.Errorf("%q is in %s %d times, must be there once", g.old, g.file, n)
	}
	return []byte(strings.Replace(string(text), g.old, g.new, 1)), nil
}

// try runs the tests without the guard. Killed says that one of them failed.
func (g *guard) try() (killed bool, out string, err error) {
	text, err := g.mutant()
	if err != nil {
		return false, "", err
	}
	dir, err := os.MkdirTemp("", "guards")
	if err != nil {
		return false, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := filepath.Abs(g.file)
	if err != nil {
		return false, "", err
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	plan, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err == nil {
		err = errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, plan, 0o600))
	}
	if err != nil {
		return false, "", err
	}
	args := append([]string{"test", "-overlay", overlay, "-vet=off", "-short", "-count=1",
		"-timeout=120s", "-run", g.run}, strings.Fields(g.pkg)...)
	cmd := exec.Command("go", args...)
	said, err := cmd.CombinedOutput()
	out = string(said)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.Contains(out, "no tests to run"):
		return false, out, fmt.Errorf("no test is called %s in %s", g.run, g.pkg)
	case err == nil:
		return false, out, nil
	case !errors.As(err, &exit) || strings.Contains(out, "[build failed]"):
		return false, out, fmt.Errorf("go test: %w: %s", err, out)
	}
	return true, out, nil
}
