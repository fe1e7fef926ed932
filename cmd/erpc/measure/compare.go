package measure

import (
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// Variant is the load of a bench with other flags.
type Variant struct {
	Name     string
	Set      func(*NetFlags)
	Sessions int // in place of the bench's, if not 0
}

// Measured holds the results of one side of a comparison.
type Measured struct {
	Name   string
	Sum    *Result   // all rounds
	Rates  []float64 // of each round
	Ratios []float64 // ... to the baseline's before and after
}

// Compared is a comparison that was made; the first side is the baseline.
type Compared struct {
	Sides  []Measured
	Turn   time.Duration // of a side
	Failed string        // why it ended early, if it did
}

// Compare measures a load, with these flags and with those of each variant in turns. It returns nil
// unless all were measured once; an error is to be returned in any case.
func (f *BenchFlags) Compare(e *Env, name string, s Shape, symmetric bool, variants []Variant) (
	*Compared, error) {
	b := bench{name: name, flags: f, shape: s, symmetric: symmetric}
	if err := b.check(); err != nil {
		return nil, err
	}
	c, failed, err := b.compared(e, variants)
	if c == nil {
		return nil, err
	}
	all := &Compared{Turn: c.turn, Failed: failed}
	for _, a := range c.arms {
		all.Sides = append(all.Sides, a.measured())
	}
	return all, err
}

func (a *arm) measured() Measured {
	m := Measured{Name: a.name, Sum: a.bench.result(), Ratios: a.ratios}
	for _, s := range a.bench.rounds {
		m.Rates = append(m.Rates, s.rate)
	}
	return m
}

// arm is one side of a comparison. It has threads and sessions of its own, which do
// nothing but stay alive while another arm is measured.
type arm struct {
	name   string
	bench  *bench
	team   *team
	ratios []float64      // one per round: this rate to the baseline's before and after
	memory bothFootprints // what opening and warming up took
}

// comparison measures arms in turns. The first one is the baseline; it runs before and
// after each turn of another, so that a machine that becomes slower or faster in the
// meantime does to both the same.
type comparison struct {
	arms    []*arm
	servers map[serverKind]*child
	order   []*child // the same, as started
	rounds  int
	turn    time.Duration
}

// compare measures b with its own flags and with those of each variant. After
// Ctrl-C it returns the measurements so far, and no error.
func (b *bench) compare(e *Env, variants []Variant) (c *comparison, err error) {
	f := b.flags
	if f.Pcap != "" || f.SnapLen != 0 {
		return nil, cli.Usagef("--pcap: not where measurements are compared; capturing slows them down")
	}
	if err := f.layLink(e, f.Veth, f.Addr); err != nil {
		return nil, err
	}
	f.endpoints = f.Threads * (len(variants) + 1)
	c = &comparison{rounds: f.Rounds, servers: map[serverKind]*child{}}
	c.turn = f.Duration / time.Duration(2*f.Rounds*len(variants)+1)
	c.add(b, Variant{Name: "baseline", Set: func(*NetFlags) {}})
	for _, v := range variants {
		if err := c.add(b, v).bench.flags.NetFlags.Check(); err != nil {
			return c, err
		}
	}
	f.tune(f.Threads)
	stopProfile, err := cli.StartProfile(f.Profile)
	if err != nil {
		return c, err
	}
	if err = c.open(e); err == nil {
		fmt.Fprintf(e.Err, "measuring for %v, %v at a time, in %d rounds\n", f.Duration,
			c.turn.Round(time.Microsecond), c.rounds)
		err = c.run(e)
	}
	stopProfile()
	return c, errors.Join(err, c.close())
}

// add makes an arm: a copy of b with flags of its own.
func (c *comparison) add(b *bench, v Variant) *arm {
	f := *b.flags
	v.Set(&f.NetFlags)
	a := &arm{name: v.Name,
		bench: &bench{name: b.name, flags: &f, shape: b.shape, symmetric: b.symmetric}}
	if v.Sessions != 0 {
		a.bench.shape.Sessions = v.Sessions
	}
	c.arms = append(c.arms, a)
	return a
}

// serverKind says what an arm wants of its server process: arms that want the same
// share it.
type serverKind struct {
	NetFlags `group:"net"`
	only     string // the arm that has it to itself
}

func (a *arm) serverKind() serverKind {
	f := a.bench.flags.NetFlags
	if a.bench.symmetric { // the server is a client too, of one arm
		return serverKind{f, a.name}
	}
	f.NoBatchedTime, f.NoRateBypass, f.NoPacingBypass = false, false, false
	if !f.ecn() {
		f.CC = "timely"
	}
	return serverKind{NetFlags: f}
}

// open starts the servers, connects all arms and warms them up.
func (c *comparison) open(e *Env) error {
	kinds := map[serverKind]bool{}
	for _, a := range c.arms {
		kinds[a.serverKind()] = true
	}
	if f := c.arms[0].bench.flags; len(kinds) > 1 && f.Addr == "" && f.frames().alone {
		return cli.Usagef("%s: these variants need several server processes, and one at a time has a "+
			"link of %s; use another transport",
			c.arms[0].bench.name, f.Transport)
	}
	for _, a := range c.arms {
		f := a.bench.flags
		at := peer{addr: f.Addr}
		var err error
		if f.Addr == "" {
			if at.server, err = c.server(a, len(kinds) > 1); err != nil {
				return err
			}
		}
		t, err := openTeam(e, &f.NetFlags, &f.FaultFlags, at, f.Threads)
		if err != nil {
			return err
		}
		a.team = t
		before := t.footprint()
		if err := a.bench.warmUp(t, min(c.turn, 100*time.Millisecond)); err != nil {
			return err
		}
		a.memory = t.footprint().less(before)
	}
	fmt.Fprintf(e.Err, "%s: %d variants beside a baseline, %d server process(es)\n",
		c.arms[0].bench.name, len(c.arms)-1, len(c.order))
	return nil
}

// server returns the server process of an arm, which it starts if there is none yet.
// Where there are several of them they must not spin: they share the cores, and only
// one has anything to do.
func (c *comparison) server(a *arm, several bool) (*child, error) {
	kind := a.serverKind()
	if s := c.servers[kind]; s != nil {
		return s, nil
	}
	flags, threads := kind.NetFlags, a.bench.flags.Threads
	if several && flags.Wait == "spin" {
		flags.Wait, flags.OwnCore = "adaptive", true // as near to spinning as can be
	}
	if len(c.order) > 0 {
		flags.Profile = "" // the baseline's has the file
	}
	cores, err := flags.cores(2 * threads)
	if err != nil {
		return nil, err
	}
	s, err := StartServer(&flags, threads, pinList(cores[threads:]), a.bench.serverFlags()...)
	if err != nil {
		return nil, err
	}
	c.servers[kind] = s
	c.order = append(c.order, s)
	return s, nil
}

// run measures all rounds.
func (c *comparison) run(e *Env) error {
	base := c.arms[0]
	before, err := c.take(e, base)
	for i := 0; i < c.rounds && err == nil; i++ {
		for _, a := range c.arms[1:] {
			var mid, after sum
			if mid, err = c.take(e, a); err != nil {
				break
			}
			if after, err = c.take(e, base); err != nil {
				break
			}
			a.ratios = append(a.ratios, mid.rate/((before.rate+after.rate)/2))
			before = after
		}
		if err == nil {
			fmt.Fprintf(e.Err, "round %d of %d: baseline %s/s\n", i+1, c.rounds, cli.CountText(before.rate))
		}
	}
	if errors.Is(err, cli.ErrStopped) {
		return nil
	}
	return err
}

// take measures one turn of an arm. After Ctrl-C it returns cli.ErrStopped.
func (c *comparison) take(e *Env, a *arm) (sum, error) {
	s, err := a.bench.rpcRound(a.team, c.turn)
	switch {
	case e.Ctx.Err() != nil:
		return s, cli.ErrStopped
	case a.team.stop.Load():
		return s, a.team.server.failure() // only the end of the server stops a team else
	case err != nil:
		return s, fmt.Errorf("%s: %w", a.name, err)
	case s.rate <= 0:
		return s, fmt.Errorf("%s: no RPC ended in %v", a.name, c.turn)
	}
	return s, nil
}

// close ends the arms, and then the servers, which say goodbye to them.
func (c *comparison) close() (err error) {
	for _, a := range c.arms {
		if a.team != nil {
			err = errors.Join(err, a.team.close())
		}
	}
	for _, s := range c.order {
		_ = s.stdin.Close() // they end side by side
	}
	for _, s := range c.order {
		err = errors.Join(err, s.Stop())
	}
	return err
}

// spread sums up what several rounds gave.
type spread struct{ Median, Min, Max float64 }

// SpreadOf sums up v.
func SpreadOf(v []float64) (s spread) {
	for i, x := range v {
		if i == 0 {
			s.Min, s.Max = x, x
		}
		s.Min, s.Max = min(s.Min, x), max(s.Max, x)
	}
	s.Median = cli.Median(v)
	return s
}

// Loss returns what a ratio loses, percent.
func Loss(ratio float64) float64 { return 100 * (1 - ratio) }

// Inverses returns 1/x for each x of v.
func Inverses(v []float64) (out []float64) {
	for _, x := range v {
		out = append(out, 1/x)
	}
	return out
}

// versus returns how the other side of --versus differs, and how its result is called.
func versus(other string) (set func(*NetFlags), text string, err error) {
	switch _, known := algorithms[other]; {
	case other == "metrics":
		return func(f *NetFlags) { f.Scraped = true }, "with metrics taken", nil
	case other == "trace":
		return func(f *NetFlags) { f.Recorded = true }, "with datagrams recorded", nil
	case known:
		return func(f *NetFlags) { f.CC = other }, "with --cc " + other, nil
	}
	return nil, "", cli.Usagef(
		"--versus %s: want timely, dcqcn, swift, cubic, none, metrics or trace", other)
}

// runVersus compares the load with the same under another congestion control, or while it is
// watched.
func (b *bench) runVersus(e *Env, other string) error {
	if err := b.check(); err != nil {
		return err
	}
	set, text, err := versus(other)
	if err != nil {
		return err
	}
	if b.flags.Raw {
		return cli.Usagef("--versus and --raw do not go together")
	}
	c, failed, err := b.compared(e, []Variant{{Name: text, Set: set}})
	if c == nil {
		return err
	}
	base, arm := c.arms[0].bench, c.arms[1]
	r := base.result()
	r.Interrupted, r.Failed = e.Ctx.Err() != nil, failed
	s := SpreadOf(Inverses(arm.ratios))
	r.Rounds, r.Versus, r.VersusRps = len(arm.ratios), other, medianOf(arm.bench.rounds, rateOf)
	r.VersusRatio, r.VersusMin, r.VersusMax, r.VersusCost = s.Median, s.Min, s.Max, Loss(s.Median)
	r.versusText = fmt.Sprintf("%s: %s costs %.1f %% (%.1f to %.1f", text, r.CC, r.VersusCost,
		Loss(s.Max), Loss(s.Min))
	if _, ok := algorithms[other]; !ok { // the other side is the one that pays
		s = SpreadOf(arm.ratios)
		r.VersusCost = Loss(s.Median)
		r.versusText = fmt.Sprintf("%s, which costs %.1f %% (%.1f to %.1f", text, r.VersusCost,
			Loss(s.Max), Loss(s.Min))
	}
	return errors.Join(err, r.print(e.Out, b.flags.JSON))
}

// compared is compare for callers that print: c is nil unless all variants were measured once.
// Failed says why it ended early, if it did; err is to be returned in any case.
func (b *bench) compared(e *Env, variants []Variant) (c *comparison, failed string, err error) {
	c, err = b.compare(e, variants)
	switch {
	case c == nil || len(c.arms[len(c.arms)-1].ratios) == 0: // not one round
		if err == nil {
			err = cli.ErrStopped
		}
		return nil, "", err
	case err != nil:
		failed = cli.OneLine(err)
	}
	return c, failed, err
}
