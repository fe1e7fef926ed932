package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// benchstat compares two runs of Go benchmarks.
const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

// suite runs the measurements of make bench.
type suite struct {
	plan
	dir, only, packages string
	baseline, goCommand string
	count               int
	benchTime           time.Duration
}

// One figure of bin/erpc is measured for figureTimes as long as a Go benchmark, with
// --raw in turns with the raw transport, and one run of a peer for peerTimes as long.
const (
	figureTimes = 15
	peerTimes   = 2
)

// parts of a suite, in their order.
var parts = []string{"figures", "peers", "go", "plot", "table"}

func setupBench(set *flag.FlagSet) func(env) error {
	s := &suite{}
	s.plan.flags(set)
	set.Lookup("rounds").DefValue, s.rounds = "3", 3
	set.StringVar(&s.dir, "dir", "out/bench", "the `folder` to write to")
	set.StringVar(&s.only, "only", strings.Join(parts, ","), "the `parts` to do")
	set.StringVar(&s.packages, "packages", "./...",
		"the Go benchmarks' `packages`, with spaces between them")
	set.StringVar(&s.baseline, "baseline", "labs/baseline/go.txt",
		"the `file` that benchstat compares the Go benchmarks with; empty: no comparison")
	set.StringVar(&s.goCommand, "go", "go", "the go `command`")
	set.IntVar(&s.count, "count", 6, "how often each Go benchmark runs")
	set.DurationVar(&s.benchTime, "benchtime", 200*time.Millisecond,
		fmt.Sprintf("how long each Go benchmark runs; a figure of bin/erpc takes %d times as long or "+
			"more, a run of a peer %d times", figureTimes, peerTimes))
	return s.run
}

func (s *suite) run(e env) error {
	only := split(s.only)
	for _, name := range only {
		if !slices.Contains(parts, name) {
			return usagef("--only: %q is unknown; there are %s", name, strings.Join(parts, ", "))
		}
	}
	if s.benchTime < time.Millisecond {
		return usagef("--benchtime %v: want at least 1ms", s.benchTime)
	}
	if s.count < 1 {
		return usagef("--count %d: want at least 1", s.count)
	}
	s.plan.shape = shape{size: 32, resp: 32, window: 60, conns: 1, duration: peerTimes * s.benchTime}
	s.plan.base, s.plan.cores = defaultBase, "both"
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	do := map[string]func(env) error{"figures": s.figures, "peers": s.comparison, "go": s.goBenchmarks,
		"plot": s.plot, "table": s.table}
	var failures []error
	for _, name := range parts {
		if !slices.Contains(only, name) {
			continue
		}
		err := do[name](e)
		if e.ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil { // the other parts are worth having
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failures...)
}

// figure is one call of bin/erpc bench.
type figure struct {
	file, bench string
	args        []string
}

var figures = []figure{
	{"latency", "latency", nil},
	{"rate", "rate", nil},
	{"bandwidth", "bandwidth", nil},
	{"bandwidth-reverse", "bandwidth", []string{"--reverse"}},
}

// figures measures this library beside its raw transports, and writes one file for each.
// A transport that does not work here keeps none of the others from being measured.
func (s *suite) figures(e env) (err error) {
	if err := findERPC(s.bin); err != nil {
		return err
	}
	machine := report.ThisMachine()
	for _, tr := range split(s.transports) {
		for _, f := range figures {
			if e.ctx.Err() != nil {
				return err
			}
			file := filepath.Join(s.dir, f.file+"-"+tr+".json")
			fmt.Fprintf(e.err, "erpc bench %s over %s\n",
				strings.Join(append([]string{f.bench}, f.args...), " "), tr)
			b, ferr := s.figure(e.ctx, f, tr, machine)
			if ferr == nil {
				ferr = outfile.Write(file, b, 0o644)
			} else {
				_ = os.Remove(file) // of an earlier time: it would pass for a result of this one
			}
			err = errors.Join(err, ferr)
		}
	}
	return err
}

func (s *suite) figure(ctx context.Context, f figure, tr string, m report.Machine) ([]byte, error) {
	b, err := runERPC(ctx, s.bin, f.bench, tr, figureTimes*s.benchTime,
		append([]string{"--raw"}, f.args...)...)
	if err != nil {
		return nil, err
	}
	return report.AddMachine(b, m)
}

// comparison measures the peers.
func (s *suite) comparison(e env) error {
	c, err := s.compare(e)
	if err != nil {
		return err
	}
	return errors.Join(report.Write(filepath.Join(s.dir, report.PeersFile), c), failed(c))
}

// goBenchmarks runs the Go benchmarks and compares them with the baseline.
func (s *suite) goBenchmarks(e env) (err error) {
	file := filepath.Join(s.dir, "go.txt")
	w, err := outfile.Create(file, 0o666)
	if err != nil {
		return err
	}
	args := append([]string{"test", "-run=^$", "-bench=.", "-benchmem", "-p=1",
		fmt.Sprint("-count=", s.count), fmt.Sprint("-benchtime=", s.benchTime)},
		strings.Fields(s.packages)...)
	c := exec.CommandContext(e.ctx, s.goCommand, args...)
	progress := &lockedWriter{to: e.err}
	c.Stdout, c.Stderr = io.MultiWriter(w, progress), progress
	if err = errors.Join(c.Run(), w.Close()); err != nil {
		return err
	}
	if s.baseline == "" {
		return nil
	}
	if _, err := os.Stat(s.baseline); err != nil {
		fmt.Fprintf(e.err, "no comparison of the Go benchmarks: there is no %s; make bench-baseline "+
			"writes it\n", s.baseline)
		return nil
	}
	return s.benchstat(e, file)
}

// lockedWriter takes a process's two outputs at the same time.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// benchstat shows what changed since the baseline. Where the tool cannot be fetched the
// comparison is left out, and that is said.
func (s *suite) benchstat(e env, file string) error {
	var said bytes.Buffer
	probe := exec.CommandContext(e.ctx, s.goCommand, "run", benchstat, os.DevNull)
	probe.Stderr = &said
	if err := probe.Run(); err != nil {
		fmt.Fprintf(e.err, "no comparison of the Go benchmarks: %s cannot be run: %s\n", benchstat,
			lastLine(&said))
		return nil
	}
	c := exec.CommandContext(e.ctx, s.goCommand, "run", benchstat, "baseline="+s.baseline, "now="+file)
	c.Stderr = e.err
	out, err := c.Output()
	if err != nil {
		return fmt.Errorf("benchstat: %w", err)
	}
	all := filepath.Join(s.dir, "benchstat.txt")
	if err := outfile.Write(all, out, 0o644); err != nil {
		return err
	}
	fmt.Fprintf(e.out, "Go benchmarks that differ from %s (all of them: %s):\n\n", s.baseline, all)
	for _, line := range changed(string(out)) {
		fmt.Fprintln(e.out, line)
	}
	_, err = fmt.Fprintln(e.out)
	return err
}

// changed picks the lines of benchstat's tables that show a significant change, and
// adds the package and the unit, which the tables have in headings.
func changed(tables string) (lines []string) {
	pkg, unit := "", ""
	for line := range strings.Lines(tables) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "pkg: "); ok {
			pkg = name[strings.LastIndex(name, "/")+1:]
		}
		if _, heading, ok := strings.Cut(line, "│"); ok && strings.Contains(line, "vs base") {
			unit = strings.Fields(heading)[0]
		}
		if strings.Contains(line, "(p=") && !strings.Contains(line, "~") {
			lines = append(lines, fmt.Sprintf("%s, %s: %s", pkg, unit, line))
		}
	}
	if lines == nil {
		lines = []string{"none"}
	}
	return lines
}

func (s *suite) plot(e env) error { return plotDir(e, s.dir) }

func (s *suite) table(e env) error {
	var b bytes.Buffer
	if err := tableDir(&b, s.dir); err != nil {
		return err
	}
	if err := outfile.Write(filepath.Join(s.dir, "table.md"), b.Bytes(), 0o644); err != nil {
		return err
	}
	_, err := e.out.Write(b.Bytes())
	return err
}

func plotDir(e env, dir string) error {
	r, err := report.Read(dir)
	if err != nil {
		return err
	}
	files, err := r.Plots(dir)
	for _, f := range files {
		fmt.Fprintln(e.err, "drew", f)
	}
	return err
}

func tableDir(w io.Writer, dir string) error {
	r, err := report.Read(dir)
	if err != nil {
		return err
	}
	return r.Markdown(w)
}

func setupTable(set *flag.FlagSet) func(env) error {
	dir := set.String("dir", "out/bench", "the `folder` with the JSON files")
	return func(e env) error { return tableDir(e.out, *dir) }
}

func setupPlot(set *flag.FlagSet) func(env) error {
	dir := set.String("dir", "out/bench", "the `folder` with the JSON files; the plots go there too")
	return func(e env) error { return plotDir(e, *dir) }
}
