package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/outfile"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// rawSuite measures transports that reach another machine beside their raw selves, across a link
// that bin/erpc makes between two network namespaces.
type rawSuite struct {
	bin, dir, transports, benches, args string
	runs                                int
	duration                            time.Duration
}

func setupRaw(set *flag.FlagSet) func(env) error {
	s := &rawSuite{}
	set.StringVar(&s.bin, "erpc", "bin/erpc", "the erpc `command`")
	set.StringVar(&s.dir, "dir", "", "the `folder` to write each run's JSON to; empty: none")
	set.StringVar(&s.transports, "transports", "udp,afpacket,afxdp", "the transports' `names`")
	set.StringVar(&s.benches, "benches", strings.Join(report.RawBenches, ","),
		"the `benches`, with commas")
	set.StringVar(&s.args, "args", "",
		"further `flags` for all benches, with spaces between them, such as --mtu=3776")
	set.IntVar(&s.runs, "runs", 3, "how often each is measured; the table has the medians")
	set.DurationVar(&s.duration, "duration", 2*time.Second,
		"how long RPCs are measured in a run; the raw rounds take as long again")
	return s.run
}

func (s *rawSuite) run(e env) error {
	if err := s.check(); err != nil {
		return err
	}
	machine := report.ThisMachine()
	var figures []report.Figure
	var failures error
	for run := range s.runs {
		for _, tr := range split(s.transports) {
			for _, bench := range split(s.benches) {
				fmt.Fprintf(e.err, "run %d of %d: %s over %s\n", run+1, s.runs, bench, tr)
				f, err := s.one(e.ctx, run, bench, tr, machine)
				if e.ctx.Err() != nil {
					return errors.New("interrupted")
				}
				if err != nil { // the others are worth having
					failures = errors.Join(failures, err)
					continue
				}
				figures = append(figures, f)
			}
		}
	}
	return errors.Join(report.RawTable(e.out, figures), failures)
}

func (s *rawSuite) check() error {
	for _, name := range split(s.benches) {
		if !slices.Contains(report.RawBenches, name) {
			return usagef("--benches: %q is unknown; there are %s", name,
				strings.Join(report.RawBenches, ", "))
		}
	}
	switch {
	case s.runs < 1:
		return usagef("--runs %d: want at least 1", s.runs)
	case s.duration < time.Millisecond:
		return usagef("--duration %v: want at least 1ms", s.duration)
	}
	if s.dir != "" {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return err
		}
	}
	return findERPC(s.bin)
}

// one measures once.
func (s *rawSuite) one(ctx context.Context, run int, bench, tr string,
	m report.Machine) (f report.Figure, err error) {
	args := append([]string{"--raw"}, strings.Fields(s.args)...)
	if tr == "udp" { // the others are never without
		args = append(args, "--veth")
	}
	b, err := runERPC(ctx, s.bin, bench, tr, s.duration, args...)
	if err != nil {
		return f, err
	}
	if b, err = report.AddMachine(b, m); err != nil {
		return f, err
	}
	if s.dir != "" {
		if err := outfile.Write(filepath.Join(s.dir, fmt.Sprintf("%s-%s-%d.json", bench, tr, run+1)), b,
			0o644); err != nil {
			return f, err
		}
	}
	return f, json.Unmarshal(b, &f)
}
