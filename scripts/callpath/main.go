package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	module = "github.com/userspace-rpc/erpc/"
	calls  = 15 // each between processes of its own
)

var sides = []string{"client", "server"}

// way holds the functions that one side runs, by file.
type way map[string][]string

func main() {
	list := flag.Bool("functions", false, "list the functions")
	flag.Parse()
	if err := run(*list); err != nil {
		fmt.Fprintln(os.Stderr, "callpath:", err)
		os.Exit(1)
	}
}

func run(list bool) error {
	dir, err := os.MkdirTemp("", "callpath")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "steady")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...",
		"-o", bin, "./scripts/callpath/steady")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	ways := map[string]way{}
	for range calls {
		if err := callOnce(bin, dir, ways); err != nil {
			return err
		}
	}
	for _, side := range sides {
		ways[side].print(side, list)
	}
	return nil
}

// callOnce runs both sides. In ways stays what they and those before ran.
func callOnce(bin, dir string, ways map[string]way) error {
	side := func(args ...string) *exec.Cmd {
		c := exec.Command(bin, args...)
		c.Env = append(os.Environ(), "COUNTERS="+filepath.Join(dir, args[0]), "GOCOVERDIR="+dir)
		c.Stderr = os.Stderr
		return c
	}
	for _, s := range sides {
		if err := os.Mkdir(filepath.Join(dir, s), 0o700); err != nil {
			return err
		}
	}
	server := side("server")
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		err = side("client", strings.TrimSpace(addr)).Run()
	}
	in.Close()
	if err = errors.Join(err, server.Wait()); err != nil {
		return err
	}
	for _, s := range sides {
		w, err := read(filepath.Join(dir, s))
		if err != nil {
			return err
		}
		if ways[s] == nil {
			ways[s] = w
		}
		ways[s].keep(w)
		if err := os.RemoveAll(filepath.Join(dir, s)); err != nil {
			return err
		}
	}
	return nil
}

// keep leaves in w what is in o, too.
func (w way) keep(o way) {
	for file, names := range w {
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(o[file], n) })
		if w[file] = names; len(names) == 0 {
			delete(w, file)
		}
	}
}

// read reads the counters of one side.
func read(dir string) (way, error) {
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		return nil, fmt.Errorf("covdata: %w", err)
	}
	w := way{}
	for line := range bytes.Lines(out) {
		// module/package/file.go:12:  function  34.5%
		f := strings.Fields(string(line))
		if len(f) != 3 || f[2] == "0.0%" || !strings.HasPrefix(f[0], module) {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(f[0], module), ":")
		if !strings.HasPrefix(file, "scripts/") {
			w[file] = append(w[file], f[1])
		}
	}
	if len(w) == 0 {
		return nil, fmt.Errorf("no counters in %s", dir)
	}
	return w, nil
}

// print prints the sums by package.
func (w way) print(side string, list bool) {
	files, functions := map[string]int{}, map[string]int{}
	for file, names := range w {
		for _, p := range []string{path.Dir(file), "all"} {
			files[p]++
			functions[p] += len(names)
		}
	}
	fmt.Printf("%-24s%10s%6s\n", side, "functions", "files")
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if p != "all" {
			fmt.Printf("%-24s%10d%6d\n", p, functions[p], files[p])
		}
	}
	fmt.Printf("%-24s%10d%6d\n\n", "all", functions["all"], files["all"])
	if !list {
		return
	}
	for _, file := range slices.Sorted(maps.Keys(w)) {
		fmt.Printf("%s: %s\n", file, strings.Join(w[file], " "))
	}
	fmt.Println()
}
