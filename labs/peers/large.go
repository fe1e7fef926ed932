package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// large measures large messages and lost packets.
type large struct {
	rows, cases string
	rounds      int
	duration    time.Duration
	asJSON      bool

	links map[string]*vethLink // by the names of their modes
}

// setupLarge prints a table for each case of the rows, and the bars beside them.
func setupLarge(set *flag.FlagSet) func(env) error {
	l := &large{links: map[string]*vethLink{}}
	var names []string
	help := "the `rows` to measure, with commas:"
	for _, r := range largeRows() {
		names = append(names, r.name)
		help += fmt.Sprintf("\n%-10s  %s", r.name, r.does)
	}
	set.StringVar(&l.rows, "rows", strings.Join(names, ","), help+"\n")
	set.StringVar(&l.cases, "cases", "", "a regular `expression` of the cases' names; empty: all")
	set.IntVar(&l.rounds, "rounds", 5, "how often each is measured")
	set.DurationVar(&l.duration, "duration", time.Second, "how long a turn measures")
	set.BoolVar(&l.asJSON, "json", false, "print one JSON object")
	return l.run
}

// largeNotes say how to read the tables.
var largeNotes = []string{
	"All contestants in turns, round by round; each turn in new processes, unpinned, with a " +
		"warm-up and default settings. Ratios are taken within a round.",
	"Every response is compared with its request, all bytes of it, and each request has a number " +
		"of its own. CPU per call is that of both processes.",
	"tcp-mux is the standard library by hand: one connection, a reader and a writer on each side, " +
		"which writes all that wait with one call. There and with erpc-client (Client.Call and " +
		"Server.Handle) each message has memory of its own, which the collector takes. " +
		"tcp-mux-reuse and erpc-reuse (AppendCall and HandleBorrowed) use memory again.",
	"erpc-loop is an Rpc on each side. tcp-spin is one thread a side that spins on read(2) and " +
		"write(2). udp-bare has no protocol: trains of 44 packets, and a lost one ends the run.",
	"Packets and sends are this library's own counts for each call; a send is a system call.",
	"TCP has cubic on the links, or reno where the machine allows namespaces no cubic; on loopback " +
		"it has what the machine has. QUIC encrypts; the others do not.",
}

func (l *large) run(e env) (err error) {
	rows, err := l.check()
	if err != nil {
		return err
	}
	defer func() {
		for _, k := range l.links {
			err = errors.Join(err, k.close())
		}
	}()
	if err := l.connect(rows); err != nil {
		return err
	}
	r, err := measureRows(e, rows, l.contestants, report.Goroutines{Machine: report.ThisMachine(),
		What: "Large messages and lost packets, client and server in two processes", Notes: largeNotes,
		Rounds: l.rounds, Duration: l.duration.Seconds()})
	if err != nil {
		return err
	}
	if l.asJSON {
		err = json.NewEncoder(e.out).Encode(r)
	} else {
		err = r.Text(e.out)
	}
	return errors.Join(err, failures(r.Failures))
}

// check returns the rows with the cases that are chosen, or says what is wrong with the flags.
func (l *large) check() (rows []goRow, err error) {
	switch {
	case l.rounds < 1 || l.rounds > 1000:
		return nil, usagef("--rounds %d: want 1 to 1000", l.rounds)
	case l.duration < time.Millisecond:
		return nil, usagef("--duration %v: want at least 1ms", l.duration)
	}
	chosen, err := regexp.Compile(l.cases)
	if err != nil {
		return nil, usagef("--cases: %v", err)
	}
	all, names := largeRows(), split(l.rows)
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r goRow) bool { return r.name == name }) {
			return nil, usagef("--rows: %q is unknown; see peers large --help", name)
		}
	}
	for _, r := range all {
		r.cases = slices.DeleteFunc(r.cases, func(c goCase) bool { return !chosen.MatchString(c.Name) })
		if slices.Contains(names, r.name) && len(r.cases) > 0 {
			rows = append(rows, r)
		}
	}
	if len(rows) == 0 {
		return nil, usagef("--rows and --cases: nothing to measure")
	}
	return rows, nil
}

// connect makes the links that the rows need.
func (l *large) connect(rows []goRow) error {
	for _, r := range rows {
		for _, c := range r.cases {
			name := c.link.name
			if name == loopback.name || l.links[name] != nil {
				continue
			}
			k, err := newLink(c.link)
			if err != nil {
				return fmt.Errorf("%s: %w; --cases=loopback needs none", name, err)
			}
			l.links[name] = k
		}
	}
	return nil
}

// contestants are those of a case, and why others are left out.
func (l *large) contestants(c *goCase) (list []goContestant, out []string) {
	for _, name := range c.peers {
		p := largePeer(name)
		why := p.Unfit
		if err := carries(p, c.shape(l.duration)); err != nil {
			why = err.Error()
		}
		if why != "" {
			out = append(out, name+": "+why)
			continue
		}
		run := map[kind]func(context.Context, echo.Peer, *goCase) (report.Turn, error){
			largeKind: l.echo, crowdKind: l.crowd, mixedKind: l.mixed}[c.kind]
		list = append(list, goContestant{name, func(ctx context.Context, _ int) (report.Turn, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*l.duration+patience)
			defer cancel()
			return run(ctx, p, c)
		}})
	}
	return list, out
}

// largePeer is the peer of a contestant.
func largePeer(name string) echo.Peer {
	if of := largePeers[name]; of != "" {
		name = of
	}
	p, _ := echo.ByName(name)
	return p
}

// shape is a case's.
func (c *goCase) shape(d time.Duration) shape {
	return shape{size: c.size, resp: c.size, window: c.callers, conns: 1, duration: d}
}

// at is where a case's processes run, and the address of its server.
func (l *large) at(c *goCase) (at place, addr string) {
	k := l.links[c.link.name]
	if k == nil {
		return anywhere, "127.0.0.1:0"
	}
	return place{spot{core: -1, net: k.client}, spot{core: -1, net: k.server}}, serverOfLink + ":0"
}

// defaultGC is GOGC as programs have it.
const defaultGC = "--gc=100"

// serve starts a case's server.
func (l *large) serve(ctx context.Context, p echo.Peer, c *goCase) (*child, error) {
	at, addr := l.at(c)
	s := c.shape(l.duration)
	v, err := startChild(ctx, at.server, append([]string{"serve", "--peer=" + p.Name,
		"--at=" + addr, "--tell", defaultGC}, s.args()...)...)
	if err != nil {
		return nil, fmt.Errorf("the server did not start: %w", err)
	}
	return v, nil
}

// call runs a client of the server, with further flags.
func (l *large) call(ctx context.Context, p echo.Peer, c *goCase, srv *child,
	flags ...string) (t report.Turn, err error) {
	at, _ := l.at(c)
	s := c.shape(l.duration)
	args := append([]string{"client", "--peer=" + p.Name, "--whole", "--addr=" + srv.line, defaultGC},
		s.args()...)
	if err = runChild(ctx, at.client, &t, append(args, flags...)...); err != nil {
		err = fmt.Errorf("the client: %w", err)
	}
	return t, err
}

// withServer stops the server and adds what it has used and sent to the turn of its clients. Err
// is theirs.
func withServer(t report.Turn, srv *child, err error) (report.Turn, error) {
	if err != nil {
		return t, errors.Join(err, srv.stop())
	}
	var of served
	if err := srv.end(&of); err != nil {
		return t, fmt.Errorf("the server: %w", err)
	}
	t.ServerPackets, t.ServerSends = each(of.Packets, t.All), each(of.Sends, t.All)
	t.Memory = float64(of.Memory)
	return t, nil
}

// echo is a turn of a client and a server.
func (l *large) echo(ctx context.Context, p echo.Peer, c *goCase) (report.Turn, error) {
	return l.one(ctx, p, c)
}

// one measures a client, with further flags, and a server.
func (l *large) one(ctx context.Context, p echo.Peer, c *goCase, flags ...string) (t report.Turn,
	err error) {
	srv, err := l.serve(ctx, p, c)
	if err != nil {
		return t, err
	}
	t, err = l.call(ctx, p, c, srv, append(flags, srv.pidFlag())...)
	return withServer(t, srv, err)
}

// crowd is a turn of many clients of a server.
func (l *large) crowd(ctx context.Context, p echo.Peer, c *goCase) (report.Turn, error) {
	srv, err := l.serve(ctx, p, c)
	if err != nil {
		return report.Turn{}, err
	}
	list, errs := make([]report.Turn, crowdClients), make([]error, crowdClients)
	var all sync.WaitGroup
	for i := range list {
		var flags []string
		if i == 0 { // the server's CPU time counts once
			flags = append(flags, srv.pidFlag())
		}
		all.Go(func() { list[i], errs[i] = l.call(ctx, p, c, srv, flags...) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return withServer(report.Turn{}, srv, err)
	}
	return withServer(together(list), srv, nil)
}

// together is the turn that several clients have made. Its percentiles are the longest that a
// client has.
func together(list []report.Turn) report.Turn {
	t := list[0]
	cpu, packets, sends := 0.0, 0.0, 0.0
	t.Rps, t.Rpcs, t.All = 0, 0, 0
	least := list[0].Rps
	for _, k := range list {
		t.Rps, t.Rpcs, t.All = t.Rps+k.Rps, t.Rpcs+k.Rpcs, t.All+k.All
		cpu += k.CPU * float64(k.Rpcs)
		packets += k.Packets * float64(k.All)
		sends += k.Sends * float64(k.All)
		t.P50, t.P99 = max(t.P50, k.P50), max(t.P99, k.P99)
		t.P999, t.Max = max(t.P999, k.P999), max(t.Max, k.Max)
		least = min(least, k.Rps)
	}
	t.CPU = cpu / float64(t.Rpcs)
	t.Packets, t.Sends = packets/float64(t.All), sends/float64(t.All)
	t.Least = least / (t.Rps / float64(len(list)))
	t.SetGbps()
	return t
}

// mixed is a turn of small calls: alone, and then beside large ones.
func (l *large) mixed(ctx context.Context, p echo.Peer, c *goCase) (report.Turn, error) {
	alone, err := l.one(ctx, p, c)
	if err != nil {
		return alone, err
	}
	t, err := l.one(ctx, p, c, fmt.Sprint("--beside=", mixedWindow),
		fmt.Sprint("--beside-size=", mixedSize))
	t.AloneP50, t.AloneP99, t.Growth = alone.P50, alone.P99, t.P99/alone.P99
	return t, err
}
