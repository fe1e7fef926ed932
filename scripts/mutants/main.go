package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// options are the flags.
type options struct {
	gremlins    string
	version     string
	goCmd       string
	out         string
	min         float64
	force       bool
	sample      int
	seed        uint64
	workers     int
	coefficient int
}

func main() {
	if isStandIn() {
		os.Exit(standIn(os.Args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.gremlins, "gremlins", "bin/gremlins", "the command of go-gremlins")
	flag.StringVar(&o.version, "version", "", "the version of go-gremlins, part of each hash")
	flag.StringVar(&o.goCmd, "go", "go", "the go command")
	flag.StringVar(&o.out, "out", "out/mutants", "the folder for the outcomes")
	flag.Float64Var(&o.min, "min", 90, "the least score, in per cent")
	flag.BoolVar(&o.force, "force", false, "run files again that have not changed")
	flag.IntVar(&o.sample, "sample", 0, "mutants of each package to run, drawn at random; 0: all")
	flag.Uint64Var(&o.seed, "seed", 1, "the seed of the sample")
	flag.IntVar(&o.workers, "workers", 0, "mutants at a time; 0: one per CPU")
	flag.IntVar(&o.coefficient, "coefficient", 0, "time limit, in times that the tests take; 0: 10")
	flag.Parse()
	ok, err := run(ctx, o, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run measures the packages in turn. It returns false if one of them misses the least
// score or has a wrong list of equivalents.
func run(ctx context.Context, o options, pkgs []string, w io.Writer) (bool, error) {
	if len(pkgs) == 0 {
		return false, errors.New("name the packages, such as: make mutants PKG=\"wire msgbuf\"")
	}
	var err error
	if o.gremlins, err = filepath.Abs(o.gremlins); err != nil {
		return false, err
	}
	if o.goCmd, err = exec.LookPath(o.goCmd); err != nil {
		return false, err
	}
	good := true
	for _, pkg := range pkgs {
		pkg = path.Clean(filepath.ToSlash(pkg))
		v, err := measure(ctx, o, pkg, w)
		if err != nil {
			return false, fmt.Errorf("%s: %w", pkg, err)
		}
		good = report(w, pkg, v, o.min) && good
	}
	return good, nil
}

// report prints the outcome of a package and says whether it is good enough.
func report(w io.Writer, pkg string, v verdict, least float64) bool {
	if len(v.survivors) > 0 {
		fmt.Fprintf(w, "\nnot killed in %s:\n", pkg)
	}
	for _, m := range v.survivors {
		fmt.Fprintf(w, "\t%s %v\n", strings.ToLower(m.Status), m)
	}
	fmt.Fprintf(w, "\n%s\n", v.table(pkg))
	for _, s := range v.wrong {
		fmt.Fprintf(w, "%s/mutants.txt: %s\n", pkg, s)
	}
	if v.total.score() < least {
		fmt.Fprintf(w, "%s: %.1f%% killed, at least %.1f%% wanted\n", pkg, v.total.score(), least)
		return false
	}
	return len(v.wrong) == 0
}

// measure runs the mutants of one package.
func measure(ctx context.Context, o options, pkg string, w io.Writer) (v verdict, err error) {
	temp, err := os.MkdirTemp("", "erpc-mutants-")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(temp)
	g := &gremlins{command: o.gremlins, goCmd: o.goCmd, temp: temp, pkg: pkg,
		scratch: filepath.Join(temp, "scratch"),
		setup:   setups[pkg], workers: o.workers, coefficient: o.coefficient}
	tests := append([]string{pkg}, g.setup.also...)
	if err := fillScratch(ctx, o.goCmd, ".", g.scratch, tests); err != nil {
		return v, err
	}
	module := moduleOf(g.scratch, pkg)
	p, err := goList(ctx, o.goCmd, filepath.Join(g.scratch, module), relative(module, pkg))
	if err != nil {
		return v, err
	}
	g.importPath = path.Join(p[0].Module.Path, relative(module, pkg))
	// Files for other systems never run here.
	all, err := g.all(ctx, append(p[0].GoFiles, p[0].CgoFiles...))
	if err != nil {
		return v, err
	}
	source := os.DirFS(g.scratch)
	read := func(file string) ([]byte, error) { return fs.ReadFile(source, path.Join(pkg, file)) }
	if err := describe(all, read); err != nil {
		return v, err
	}
	matched, wrong, err := equivalents(pkg, all)
	if err != nil {
		return v, err
	}
	out, chosen := filepath.Join(o.out, filepath.FromSlash(pkg)), all
	var drawn map[string][]int
	if o.sample > 0 {
		drawn = sampleLines(all, o.sample, o.seed)
		out = filepath.Join(out, fmt.Sprintf("sample-%d-%d", o.sample, o.seed))
		chosen = inSample(all, drawn)
		if err := commitAndMark(ctx, g.scratch, pkg, drawn); err != nil {
			return v, err
		}
		g.sampled = true
	}
	h, err := newHasher(source, tests, fmt.Sprint(o.version, g.setup), drawn)
	if err != nil {
		return v, err
	}
	fmt.Fprintf(w, "%s: %d mutants\n", pkg, len(chosen))
	ran, err := measureFiles(ctx, g, h, out, o.force, chosen, w)
	if err != nil {
		return v, err
	}
	v = judge(ran, matched)
	v.wrong = append(wrong, v.wrong...)
	return v, nil
}

// equivalents reads the list of a package, if it has one, and matches it with its mutants.
func equivalents(pkg string, all []mutant) (map[place]bool, []string, error) {
	name := filepath.Join(filepath.FromSlash(pkg), "mutants.txt")
	b, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	list, err := parseEquivalents(name, string(b))
	if err != nil {
		return nil, nil, err
	}
	matched, wrong := matchEquivalents(list, all)
	return matched, wrong, nil
}

// measureFiles runs the chosen mutants file by file, unless the outcome is known. It
// returns them with their states.
func measureFiles(
	ctx context.Context, g *gremlins, h *hasher, out string, force bool, chosen []mutant, w io.Writer,
) (ran []mutant, err error) {
	for len(chosen) > 0 {
		file := chosen[0].File
		n := slices.IndexFunc(chosen, func(m mutant) bool { return m.File != file })
		if n < 0 {
			n = len(chosen)
		}
		mutants := slices.Clone(chosen[:n])
		chosen = chosen[n:]
		hash, err := h.of(path.Join(g.pkg, file))
		if err != nil {
			return nil, err
		}
		list, known := loadOutcome(out, file, hash)
		if known && !force {
			fmt.Fprintf(w, "%s: %d mutants, known\n", file, n)
			ran = append(ran, list...)
			continue
		}
		if slices.ContainsFunc(mutants, func(m mutant) bool { return m.Status == runnable }) {
			fmt.Fprintf(w, "%s: %d mutants ...", file, n)
			got, err := g.test(ctx, file)
			if err != nil {
				return nil, err
			}
			if err := settle(mutants, got); err != nil {
				return nil, err
			}
			fmt.Fprintf(w, " done\n")
		}
		if err := saveOutcome(out, file, hash, mutants); err != nil {
			return nil, err
		}
		ran = append(ran, mutants...)
	}
	return ran, nil
}

// settle takes the states of the mutants from those that ran. Both lists must hold the
// same mutants.
func settle(mutants, ran []mutant) error {
	states := map[place]string{}
	for _, m := range ran {
		states[m.place()] = m.Status
	}
	if len(states) != len(mutants) {
		return fmt.Errorf("gremlins ran %d mutants instead of %d", len(states), len(mutants))
	}
	for i := range mutants {
		m := &mutants[i]
		s, ok := states[m.place()]
		if !ok || s == runnable {
			return fmt.Errorf("gremlins did not run this mutant: %v", m)
		}
		m.Status = s
	}
	return nil
}
