package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// goroutines measures calls from goroutines, in situations that programs meet.
type goroutines struct {
	rows, peers, bin string
	rounds           int
	duration         time.Duration
	asJSON           bool
}

// setupGoroutines prints a table for each case of the rows, and the bars beside them.
func setupGoroutines(set *flag.FlagSet) func(env) error {
	g := &goroutines{}
	rows := make([]string, 0, len(goRows()))
	help := "the `rows` to measure, with commas:"
	for _, r := range goRows() {
		rows = append(rows, r.name)
		help += fmt.Sprintf("\n%-10s  %s", r.name, r.does)
	}
	set.StringVar(&g.rows, "rows", strings.Join(rows, ","), help+"\n")
	set.StringVar(&g.peers, "peers", strings.Join(goPeers(), ","), "the peers' `names`")
	set.StringVar(&g.bin, "erpc", "bin/erpc", "the erpc `command`, for the row loops")
	set.IntVar(&g.rounds, "rounds", 5, "how often each is measured")
	set.DurationVar(&g.duration, "duration", time.Second,
		"how long a turn measures; idle clients three times as long")
	set.BoolVar(&g.asJSON, "json", false, "print one JSON object")
	return g.run
}

// goPeers are the peers whose calls can come from goroutines.
func goPeers() (names []string) {
	for _, name := range peerNames() {
		if p, _ := echo.ByName(name); !p.Streams {
			names = append(names, name)
		}
	}
	return names
}

func (g *goroutines) run(e env) error {
	rows, err := g.check()
	if err != nil {
		return err
	}
	r, err := g.measure(e, rows)
	if err != nil {
		return err
	}
	if g.asJSON {
		err = json.NewEncoder(e.out).Encode(r)
	} else {
		err = r.Text(e.out)
	}
	return errors.Join(err, failures(r.Failures))
}

// check returns the rows, in the order of goRows, or says what is wrong with the flags.
func (g *goroutines) check() (rows []goRow, err error) {
	if g.rounds < 1 || g.rounds > 1000 {
		return nil, usagef("--rounds %d: want 1 to 1000", g.rounds)
	}
	if g.duration < time.Millisecond {
		return nil, usagef("--duration %v: want at least 1ms", g.duration)
	}
	all := goRows()
	names := split(g.rows)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r goRow) bool { return r.name == name }) {
			return nil, usagef("--rows: %q is unknown; see peers goroutines --help", name)
		}
	}
	for _, name := range split(g.peers) {
		if _, err := findPeer("--peers", name); err != nil {
			return nil, err
		}
	}
	rows = slices.DeleteFunc(all, func(r goRow) bool { return !slices.Contains(names, r.name) })
	switch {
	case len(rows) == 0:
		return nil, usagef("--rows: nothing to measure")
	case slices.Contains(names, "loops"):
		return rows, findERPC(g.bin)
	}
	return rows, nil
}

// goTurn is one turn that is to be made.
type goTurn struct {
	of    *goCase
	who   goContestant
	round int
}

// goContestant is one of those that a case compares.
type goContestant struct {
	name string
	run  func(ctx context.Context, round int) (report.Turn, error)
}

// turns plans a row: all its cases in each round, and all contestants in each case. Each
// round begins with another contestant, so that nobody always has the same neighbour.
func turns(cases []goCase, who [][]goContestant, rounds int) (list []goTurn) {
	for round := range rounds {
		for i := range cases {
			n := len(who[i])
			for k := range n * max(1, cases[i].turns) {
				list = append(list, goTurn{&cases[i], who[i][(k+round)%n], round + 1})
			}
		}
	}
	return list
}

// measure makes all turns, row by row.
func (g *goroutines) measure(e env, rows []goRow) (report.Goroutines, error) {
	return measureRows(e, rows, g.contestants, report.Goroutines{Machine: report.ThisMachine(),
		Rounds: g.rounds, Duration: g.duration.Seconds()})
}

// measureRows adds cases and turns to r. Contestants says who takes part in a case, and why others
// are left out. After an interruption r has the turns that were made.
func measureRows(e env, rows []goRow, contestants func(*goCase) ([]goContestant, []string),
	r report.Goroutines) (report.Goroutines, error) {
	var plan []goTurn
	for _, row := range rows {
		who := make([][]goContestant, len(row.cases))
		for i := range row.cases {
			c := &row.cases[i]
			c.Row = row.name
			who[i], c.LeftOut = contestants(c)
			r.Cases = append(r.Cases, c.Case)
		}
		plan = append(plan, turns(row.cases, who, r.Rounds)...)
	}
	begun := time.Now()
	for _, turn := range plan {
		t, err := turn.make(e.ctx)
		if e.ctx.Err() != nil {
			r.Interrupted = true
			break
		}
		where := fmt.Sprintf("%s, %s, round %d of %d: %s", turn.of.Row, turn.of.Name, turn.round,
			r.Rounds, turn.who.name)
		if err != nil { // the others' turns are worth having
			r.Failures = append(r.Failures, fmt.Sprintf("%s: %v", where, err))
			fmt.Fprintln(e.err, r.Failures[len(r.Failures)-1])
			continue
		}
		r.Turns = append(r.Turns, t)
		fmt.Fprintf(e.err, "[%4.0fs] %s\n", time.Since(begun).Seconds(), where)
	}
	if len(r.Turns) == 0 && r.Interrupted {
		return r, errors.New("interrupted before anything was measured")
	}
	r.Sum()
	return r, nil
}

// make is one turn, beside neighbours if the case has them.
func (t *goTurn) make(ctx context.Context) (r report.Turn, err error) {
	if t.of.busy {
		stop, err := neighbours(ctx, cli.AllowedCores())
		if err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	r, err = t.who.run(ctx, t.round)
	r.Row, r.Case, r.Peer, r.Round = t.of.Row, t.of.Name, t.who.name, t.round
	return r, err
}

// contestants are those of a case, and why others are left out.
func (g *goroutines) contestants(c *goCase) (list []goContestant, out []string) {
	if (c.oneCore || c.busy) && len(cli.AllowedCores()) == 0 {
		return nil, []string{"all: processes cannot be pinned to cores here"}
	}
	if c.kind == loopKind {
		for _, v := range c.loops {
			list = append(list, goContestant{v.name, func(ctx context.Context, _ int) (report.Turn, error) {
				return measureLoop(ctx, g.bin, v, g.duration)
			}})
		}
		return list, []string{"peers: they have no event loop to choose"}
	}
	if c.kind == idleKind && noThreads != "" {
		return nil, []string{"all: " + noThreads}
	}
	at := anywhere
	if c.oneCore {
		first := core(cli.AllowedCores()[0])
		at = place{first, first}
	}
	names := split(g.peers)
	if c.peers != nil {
		names = c.peers
	}
	if c.arrivals > 0 && !slices.Contains(names, leastName) {
		names = append(names, leastName)
	}
	if c.oneProc {
		p, _ := echo.ByName(ours)
		one := func(ctx context.Context, round int) (report.Turn, error) {
			return measureCalls(ctx, p, c, place{oneProc, oneProc}, g.duration, round)
		}
		list = append(list, goContestant{oneProcName, one})
	}
	for _, name := range names {
		p, _ := echo.ByName(name)
		if p.Streams {
			out = append(out, p.Name+": one thread that spins makes all calls; none comes from a goroutine")
			continue
		}
		if c.kind == killKind && p.DialPool == nil {
			out = append(out, p.Name+": its connection is to one server")
			continue
		}
		run := func(ctx context.Context, round int) (report.Turn, error) {
			return measureCalls(ctx, p, c, at, g.duration, round)
		}
		if c.kind == idleKind {
			run = func(ctx context.Context, _ int) (report.Turn, error) {
				return measureIdle(ctx, p, 3*g.duration)
			}
		}
		if c.kind == killKind {
			run = func(ctx context.Context, round int) (report.Turn, error) {
				return measureKill(ctx, p, g.duration, round)
			}
		}
		list = append(list, goContestant{p.Name, run})
	}
	return list, out
}

// measureCalls measures one peer. All peers have the same arrivals in a round.
func measureCalls(ctx context.Context, p echo.Peer, c *goCase, at place, d time.Duration,
	round int) (t report.Turn, err error) {
	s := shape{size: 32, resp: 32, window: c.callers, conns: 1, duration: d, work: c.work}
	arrivals := c.arrivals
	switch {
	case c.spins:
		return measureAt(ctx, p, s, at, "--spin")
	case c.half != nil:
		if arrivals, err = c.half.of(ctx, s, at, round); err != nil {
			return t, err
		}
		s.window = openWindow
	case arrivals == 0:
		return measureAt(ctx, p, s, at)
	}
	if p.ConnPerCall {
		s.window = perCallConns
	}
	return measureAt(ctx, p, s, at,
		fmt.Sprint("--arrivals=", arrivals), fmt.Sprint("--seed=", round))
}

// halfRates are half of the base's rates, by round.
type halfRates map[int]float64

// of measures the base, with calls of this shape, the first time in a round.
func (h halfRates) of(ctx context.Context, s shape, at place, round int) (float64, error) {
	if h[round] == 0 {
		p, _ := echo.ByName(defaultBase)
		t, err := measureAt(ctx, p, s, at)
		if err != nil {
			return 0, err
		}
		h[round] = t.Rps / 2
	}
	return h[round], nil
}

// measureLoop runs bin/erpc bench rate.
func measureLoop(ctx context.Context, bin string, v loopVariant, d time.Duration) (t report.Turn,
	err error) {
	flags := append([]string{"--pin=none"}, v.flags...)
	out, err := runERPC(ctx, bin, "rate", v.transport, d, flags...)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(out, &t); err != nil {
		return t, fmt.Errorf("%s bench rate: %w", bin, err)
	}
	if t.Errors > 0 {
		return t, fmt.Errorf("%s: %d RPCs failed", v.name, t.Errors)
	}
	return t, nil
}
