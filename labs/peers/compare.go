package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// setupRun measures one peer once.
func setupRun(set *flag.FlagSet) func(env) error {
	var s shape
	s.flags(set)
	name := set.String("peer", "", "the peer's `name`: "+strings.Join(peerNames(), ", "))
	cores := set.String("cores", report.Unpinned,
		"pinned: client on one core, server on another; or unpinned")
	asJSON := set.Bool("json", false, "print one JSON object")
	return func(e env) error {
		if err := s.check(); err != nil {
			return err
		}
		p, err := findPeer("--peer", *name)
		if err != nil {
			return err
		}
		if err := carries(p, s); err != nil {
			return usagef("--size: %v", err)
		}
		placements, err := placements(*cores, e.err)
		if err != nil || len(placements) != 1 {
			return usagef("--cores %s: want pinned or unpinned", *cores)
		}
		r, err := measurePeer(e.ctx, p, s, placements[0])
		if err != nil {
			return err
		}
		if *asJSON {
			return json.NewEncoder(e.out).Encode(r)
		}
		_, err = fmt.Fprintf(e.out,
			"%s %s, %s, %s, %d in flight, %d connections: %.0f RPC/s, p50 %.1f us, p99 %.1f us, CPU %.0f "+
				"ns per RPC\n",
			r.Peer, r.Version, cli.BytesText(
				r.Size), r.Cores, r.Window, r.Conns, r.Rps, r.P50, r.P99, r.CPU)
		return err
	}
}

// placements turns --cores into what to measure.
func placements(cores string, warn io.Writer) ([]string, error) {
	_, _, can := twoCores()
	switch cores {
	case report.Unpinned:
		return []string{report.Unpinned}, nil
	case report.Pinned:
		if !can {
			return nil, usagef("--cores pinned: processes cannot be pinned to two cores here")
		}
		return []string{report.Pinned}, nil
	case "both":
		if can {
			return []string{report.Pinned, report.Unpinned}, nil
		}
		fmt.Fprintln(warn, "processes cannot be pinned to two cores here: unpinned only")
		return []string{report.Unpinned}, nil
	}
	return nil, usagef("--cores %s: want pinned, unpinned or both", cores)
}

// plan is a comparison to be made.
type plan struct {
	shape
	rounds     int
	base       string
	peers      string // names, with commas
	transports string // of bin/erpc, with commas
	cores      string
	bin        string
	leftOut    []string // peers that contestants left out, and why
}

// flags declares those that bench has too.
func (p *plan) flags(set *flag.FlagSet) {
	set.StringVar(&p.peers, "peers", strings.Join(peerNames(), ","), "the peers' `names`")
	set.StringVar(&p.transports, "transports", "udp",
		"`names` of the transports that erpc is measured over; empty: none")
	set.StringVar(&p.bin, "erpc", "bin/erpc", "the erpc `command`")
	set.IntVar(&p.rounds, "rounds", 5, "how often each is measured")
}

// defaultBase may be missing from a comparison: then there are no ratios.
const defaultBase = "grpc-go"

// contestant is one way to measure one peer.
type contestant struct {
	name, cores string
	run         func(context.Context, shape) (report.Run, error)
}

// split cuts a list of names at its commas.
func split(list string) (names []string) {
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// contestants checks the plan and lists them: bin/erpc first.
func (p *plan) contestants(warn io.Writer) (list []contestant, err error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.rounds < 1 || p.rounds > 1000 {
		return nil, usagef("--rounds %d: want 1 to 1000", p.rounds)
	}
	for _, tr := range split(p.transports) {
		if err := findERPC(p.bin); err != nil {
			return nil, err
		}
		list = append(list, contestant{erpcName(tr), report.Pinned,
			func(ctx context.Context, s shape) (report.Run, error) {
				return measureERPC(ctx, p.bin, tr, s)
			}})
	}
	cores, err := placements(p.cores, warn)
	if err != nil {
		return nil, err
	}
	for _, name := range split(p.peers) {
		peer, err := findPeer("--peers", name)
		if err != nil {
			return nil, err
		}
		if err := carries(peer, p.shape); err != nil { // the others are worth having
			p.leftOut = append(p.leftOut, err.Error())
			fmt.Fprintln(warn, "left out:", err)
			continue
		}
		for _, c := range cores {
			list = append(list, contestant{name, c, func(ctx context.Context, s shape) (report.Run, error) {
				return measurePeer(ctx, peer, s, c)
			}})
		}
	}
	if len(list) == 0 {
		return nil, usagef("--peers and --transports: nothing to compare")
	}
	if p.base != defaultBase &&
		!slices.ContainsFunc(list, func(c contestant) bool { return c.name == p.base }) {
		return nil, usagef("--base %q is not among those compared", p.base)
	}
	return list, nil
}

// compare measures all contestants in turns. After an interruption or a failure it gives
// what there is.
func (p *plan) compare(e env) (c report.Comparison, err error) {
	list, err := p.contestants(e.err)
	if err != nil {
		return c, err
	}
	var runs []report.Run
	begun := time.Now()
	// Each round begins with another one, so that nobody always has the same neighbour.
	for i := range p.rounds * len(list) {
		round := i / len(list)
		k := list[(i+round)%len(list)]
		rate, lat, err := p.measure(e.ctx, k, round+1)
		if e.ctx.Err() != nil {
			c.Interrupted = true
			break
		}
		if err != nil { // the others' runs are worth keeping
			c.Failures = append(c.Failures,
				fmt.Sprintf("round %d of %s, %s: %v", round+1, k.name, k.cores, err))
			fmt.Fprintln(e.err, c.Failures[len(c.Failures)-1])
			continue
		}
		runs = append(runs, rate, lat)
		fmt.Fprintf(e.err, "[%3.0fs] round %d of %d: %-12s %-8s %9.0f RPC/s, alone p50 %.1f us\n",
			time.Since(begun).Seconds(), round+1, p.rounds, k.name, k.cores, rate.Rps, lat.P50)
	}
	switch {
	case len(runs) > 0:
	case c.Interrupted:
		return c, errors.New("interrupted before anything was measured")
	default:
		return c, failed(c)
	}
	return report.Compare(report.Comparison{Machine: report.ThisMachine(), Size: p.size,
		RespSize: p.resp, Window: p.window,
		Rounds: p.rounds, Duration: p.duration.Seconds(), Base: p.base,
		Interrupted: c.Interrupted, Failures: c.Failures,
		LeftOut: p.leftOut}, runs), nil
}

// failed is an error if a run has failed.
func failed(c report.Comparison) error { return failures(c.Failures) }

func failures(list []string) error {
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("%d turns failed, the first: %s", len(list), list[0])
}

// measure is one turn: the rate with the window in flight, then the latency alone.
func (p *plan) measure(ctx context.Context, k contestant, round int) (rate, lat report.Run,
	err error) {
	if rate, err = k.run(ctx, p.shape); err != nil {
		return rate, lat, err
	}
	alone := p.shape
	alone.window = 1
	lat, err = k.run(ctx, alone)
	rate.Bench, lat.Bench = "rate", "latency"
	rate.Round, lat.Round = round, round
	rate.SetGbps() // only now it is known to be a rate, should the window be 1
	return rate, lat, err
}

// setupCompare prints the comparison.
func setupCompare(set *flag.FlagSet) func(env) error {
	p := &plan{}
	p.shape.flags(set)
	p.flags(set)
	set.StringVar(&p.base, "base", defaultBase, "the peer that ratios are to")
	set.StringVar(&p.cores, "cores", "both",
		"of the goroutine-based peers: pinned, client on one core, server on another; unpinned; or both")
	asJSON := set.Bool("json", false, "print one JSON object")
	return func(e env) error {
		c, err := p.compare(e)
		if err != nil {
			return err
		}
		if *asJSON {
			return errors.Join(json.NewEncoder(e.out).Encode(c), failed(c))
		}
		return errors.Join(c.Text(e.out), failed(c))
	}
}
