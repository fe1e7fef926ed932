package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/report"
	"github.com/userspace-rpc/erpc/labs/peers/stubs"
)

// stubsRun measures grpcerpc beside grpc-go.
type stubsRun struct {
	rows, cases, peers string
	rounds             int
	duration           time.Duration
	asJSON             bool

	links map[string]*vethLink // by the names of their modes
}

// setupStubs prints a table for each case of the rows, and the bars beside them.
func setupStubs(set *flag.FlagSet) func(env) error {
	r := &stubsRun{links: map[string]*vethLink{}}
	var names []string
	help := "the `rows` to measure, with commas:"
	for _, row := range stubsRows() {
		names = append(names, row.name)
		help += fmt.Sprintf("\n%-10s  %s", row.name, row.does)
	}
	set.StringVar(&r.rows, "rows", strings.Join(names, ","), help+"\n")
	set.StringVar(&r.cases, "cases", "", "a regular `expression` of the cases' names; empty: all")
	set.StringVar(&r.peers, "peers", "", "a regular `expression` of the peers' names; empty: all")
	set.IntVar(&r.rounds, "rounds", 5, "how often each is measured")
	set.DurationVar(&r.duration, "duration", 500*time.Millisecond,
		"how long a turn measures; with large messages beside small calls and idle streams three times "+
			"as long")
	set.BoolVar(&r.asJSON, "json", false, "print one JSON object")
	return r.run
}

// stubsNotes say how to read the tables.
var stubsNotes = []string{
	"All contestants in turns, round by round; each turn in new processes, unpinned, with a warm-up " +
		"and default settings but for limits of message sizes. Ratios are taken within a round.",
	"A client has one connection. Messages are google.protobuf.BytesValue; their ends are compared. " +
		"CPU per call is that of both processes, per call or message.",
	"Links: one veth pair between two namespaces, random loss both ways; TCP has cubic, or reno " +
		"where the machine allows namespaces no cubic.",
}

func (r *stubsRun) run(e env) (err error) {
	rows, err := r.check()
	if err != nil {
		return err
	}
	defer func() {
		for _, k := range r.links {
			err = errors.Join(err, k.close())
		}
	}()
	var plan []goRow
	cases := map[string]*stubsCase{}
	for _, row := range rows {
		g := goRow{name: row.name}
		for i := range row.cases {
			c := &row.cases[i]
			if err := r.connect(c); err != nil {
				return err
			}
			cases[row.name+"/"+c.Name] = c
			g.cases = append(g.cases, goCase{Case: c.Case})
		}
		plan = append(plan, g)
	}
	contestants := func(c *goCase) ([]goContestant, []string) {
		return r.contestants(cases[c.Row+"/"+c.Name]), nil
	}
	got, err := measureRows(e, plan, contestants, report.Goroutines{Machine: report.ThisMachine(),
		What: "grpcerpc beside grpc-go, client and server in two processes", Notes: stubsNotes,
		Rounds: r.rounds, Duration: r.duration.Seconds()})
	if err != nil {
		return err
	}
	if r.asJSON {
		err = json.NewEncoder(e.out).Encode(got)
	} else {
		err = got.Text(e.out)
	}
	return errors.Join(err, failures(got.Failures))
}

// check returns the rows with the cases that are chosen, or says what is wrong with the flags.
func (r *stubsRun) check() (rows []stubsRow, err error) {
	switch {
	case r.rounds < 1 || r.rounds > 1000:
		return nil, usagef("--rounds %d: want 1 to 1000", r.rounds)
	case r.duration < time.Millisecond:
		return nil, usagef("--duration %v: want at least 1ms", r.duration)
	}
	chosen, err := regexp.Compile(r.cases)
	if err != nil {
		return nil, usagef("--cases: %v", err)
	}
	peers, err := regexp.Compile(r.peers)
	if err != nil {
		return nil, usagef("--peers: %v", err)
	}
	all, names := stubsRows(), split(r.rows)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(row stubsRow) bool { return row.name == name }) {
			return nil, usagef("--rows: %q is unknown; see peers stubs --help", name)
		}
	}
	for _, row := range all {
		row.cases = slices.DeleteFunc(row.cases, func(c stubsCase) bool {
			return !chosen.MatchString(c.Name)
		})
		for i := range row.cases {
			c := &row.cases[i]
			c.peers = slices.DeleteFunc(slices.Clone(c.peers), func(p string) bool {
				return !peers.MatchString(p)
			})
		}
		if slices.Contains(names, row.name) && len(row.cases) > 0 {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, usagef("--rows and --cases: nothing to measure")
	}
	return rows, nil
}

// connect makes the link that a case needs, unless it is there.
func (r *stubsRun) connect(c *stubsCase) error {
	name := c.link.name
	if name == loopback.name || r.links[name] != nil {
		return nil
	}
	k, err := newLink(c.link)
	if err != nil {
		return fmt.Errorf("%s: %w; the other --rows need none", name, err)
	}
	r.links[name] = k
	return nil
}

func (r *stubsRun) contestants(c *stubsCase) (list []goContestant) {
	for _, name := range c.peers {
		list = append(list, goContestant{name, func(ctx context.Context, _ int) (report.Turn, error) {
			return r.turn(ctx, c, name)
		}})
	}
	return list
}

// turn measures a peer once: if the case says so alone first, and then beside the others.
func (r *stubsRun) turn(ctx context.Context, c *stubsCase, peer string) (t report.Turn, err error) {
	l := c.load
	if l.Warmup, l.Duration = c.warmup(), r.duration; l.Kind == stubs.BesideLoad ||
		l.Kind == stubs.MixedLoad || l.Kind == stubs.IdleLoad {
		l.Duration *= 3
	}
	if !c.alone {
		return r.one(ctx, c, peer, l)
	}
	alone := l
	alone.Beside = 0
	a, err := r.one(ctx, c, peer, alone)
	if err != nil {
		return a, err
	}
	if t, err = r.one(ctx, c, peer, l); err == nil {
		t.AloneP50, t.AloneP99, t.More = a.P50, a.P99, t.P99-a.P99
	}
	return t, err
}

// one measures a load in new processes.
func (r *stubsRun) one(ctx context.Context, c *stubsCase, peer string, l stubs.Load) (t report.Turn,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, l.Warmup+l.Duration+patience)
	defer cancel()
	at, host, own := anywhere, "127.0.0.1", "127.0.0.1"
	if k := r.links[c.link.name]; k != nil {
		at = place{spot{core: -1, net: k.client}, spot{core: -1, net: k.server}}
		host, own = serverOfLink, clientOfLink
	}
	srv, err := startChild(ctx, at.server, "stubs-serve", "--peer="+peer,
		"--at="+net.JoinHostPort(host, "0"))
	if err != nil {
		return t, fmt.Errorf("the server did not start: %w", err)
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	text, err := json.Marshal(l)
	if err != nil {
		return t, err
	}
	args := []string{"stubs-client", "--peer=" + peer, "--addr=" + srv.line,
		"--at=" + net.JoinHostPort(own, "0"), "--load=" + string(text)}
	list, errs := make([]report.Turn, max(1, c.clients)), make([]error, max(1, c.clients))
	var all sync.WaitGroup
	for i := range list {
		a := args
		if i == 0 { // the server's CPU time counts once
			a = append(slices.Clone(args), srv.pidFlag())
		}
		all.Go(func() { errs[i] = runChild(ctx, at.client, &list[i], a...) })
	}
	all.Wait()
	if err = errors.Join(errs...); err != nil {
		return t, fmt.Errorf("a client: %w", err)
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return together(list), nil
}

// setupStubsServe is the server process: it prints its address and serves until its standard input
// ends.
func setupStubsServe(set *flag.FlagSet) func(env) error {
	name := set.String("peer", "", "the peer's `name`")
	at := set.String("at", "", "the `address` to listen at")
	return func(e env) error {
		p, err := stubs.ByName(*name)
		if err != nil {
			return err
		}
		stop, err := profile("server")
		if err != nil {
			return err
		}
		addr, err := p.Serve(*at)
		if err != nil {
			return err
		}
		fmt.Fprintln(e.out, addr)
		<-inputEnds(e)
		return stop()
	}
}

// setupStubsClient is the client process: it prints a report.Turn.
func setupStubsClient(set *flag.FlagSet) func(env) error {
	name := set.String("peer", "", "the peer's `name`")
	addr := set.String("addr", "", "the server's `address`")
	at := set.String("at", "", "the client's own `address`")
	text := set.String("load", "", "a stubs.Load in JSON")
	pid := set.Int("server-pid", 0, "the server's process, whose CPU time is counted")
	return func(e env) error {
		p, err := stubs.ByName(*name)
		if err != nil {
			return err
		}
		var l stubs.Load
		if err := json.Unmarshal([]byte(*text), &l); err != nil {
			return usagef("--load: %v", err)
		}
		conn, err := p.Dial(*addr, *at)
		if err != nil {
			return err
		}
		stop := func() error { return nil }
		var own, theirs time.Duration
		res, err := stubs.Run(e.ctx, conn, l, func() {
			stop, err = profile("client")
			own, theirs = cpuTime(os.Getpid()), cpuTime(*pid)
		}, func() { own, theirs = cpuTime(os.Getpid())-own, cpuTime(*pid)-theirs })
		if err = errors.Join(err, stop()); err != nil {
			return err
		}
		t := report.Turn{Run: stubsTurn(&p, &l, &res), All: res.All,
			BesideRps: float64(res.Beside) / res.Elapsed.Seconds()}
		t.CPU = float64(own+theirs) / float64(max(res.Ops, 1))
		t.Share = own.Seconds() / res.Elapsed.Seconds()
		t.ServerShare = theirs.Seconds() / res.Elapsed.Seconds()
		if err = conn.Close(); err == nil {
			t.Packets = each(stubs.Packets(conn), t.All)
		}
		return errors.Join(json.NewEncoder(e.out).Encode(t), err)
	}
}

func stubsTurn(p *stubs.Peer, l *stubs.Load, res *stubs.Result) report.Run {
	us := func(q float64) float64 { return float64(res.Hist.ValueAtQuantile(q)) / 1e3 }
	return report.Run{Bench: l.Kind, Peer: p.Name, Transport: p.Transport, Size: l.Size,
		RespSize: l.Size, Window: l.Callers, Conns: 1, Duration: res.Elapsed.Seconds(), Rpcs: res.Ops,
		Rps: float64(res.Ops) / res.Elapsed.Seconds(), Mean: res.Hist.Mean() / 1e3, P50: us(50),
		P99: us(99), P999: us(99.9), Max: float64(res.Hist.Max()) / 1e3}
}
