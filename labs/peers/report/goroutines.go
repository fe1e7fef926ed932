package report

import (
	"slices"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// GoroutinesName is Bench of a Goroutines.
const GoroutinesName = "goroutines"

// Turn is one measurement of one contestant in one case.
type Turn struct {
	Run
	Row  string  `json:"row"`
	Case string  `json:"case"`
	Late float64 `json:"late_p50_us,omitempty"` // how long after their arrival calls began

	// Of idle clients: the share of a core that their process uses, that of the servers'
	// process, and the threads that their process has more than before the first of them.
	Share       float64 `json:"cpu_share,omitempty"`
	ServerShare float64 `json:"server_cpu_share,omitempty"`
	Threads     float64 `json:"extra_threads,omitempty"`

	// Of a goroutine that computes beside the calls: the part of its rate alone that it keeps.
	Kept float64 `json:"spinner_kept,omitempty"`

	// All calls, those of the warm-up too; packets that client and server sent for each, and the
	// system calls that did; the most bytes that the server's process had resident.
	All           int64   `json:"all_rpcs,omitempty"`
	Packets       float64 `json:"packets,omitempty"`
	Sends         float64 `json:"sends,omitempty"`
	ServerPackets float64 `json:"server_packets,omitempty"`
	ServerSends   float64 `json:"server_sends,omitempty"`
	Memory        float64 `json:"server_memory,omitempty"`

	// Of several clients: the least calls of one, relative to an equal share.
	Least float64 `json:"least_share,omitempty"`

	// Of calls beside others: the percentiles that they have alone, us, how often theirs is the 99th
	// alone, how much longer theirs is, us, and how many of the others there were per second.
	AloneP50  float64 `json:"alone_p50_us,omitempty"`
	AloneP99  float64 `json:"alone_p99_us,omitempty"`
	Growth    float64 `json:"p99_growth,omitempty"`
	More      float64 `json:"p99_more_us,omitempty"`
	BesideRps float64 `json:"beside_rps,omitempty"`

	// Of a client of two servers, one of which is killed: the fewest calls that ended well in a
	// window, relative to one server's part of those that arrived; failed calls that may have run,
	// and how many more than were in flight at a time; how long the dead server got calls, us.
	Lowest  float64 `json:"lowest_window,omitempty"`
	Lost    float64 `json:"may_have_run,omitempty"`
	Excess  float64 `json:"beyond_in_flight,omitempty"`
	Ejected float64 `json:"ejected_us,omitempty"`
}

// Goroutines is the report on calls from goroutines: cases, measured in turns.
type Goroutines struct {
	Bench       string   `json:"bench"`
	What        string   `json:"what,omitempty"`  // empty: calls from goroutines
	Notes       []string `json:"notes,omitempty"` // how to read the tables, if What is not empty
	Machine     Machine  `json:"machine"`
	Rounds      int      `json:"rounds"`
	Duration    float64  `json:"duration_s"` // of each turn
	Interrupted bool     `json:"interrupted,omitempty"`
	Failures    []string `json:"failures,omitempty"` // turns that gave nothing, and why
	Cases       []Case   `json:"cases"`
	Turns       []Turn   `json:"turns"`
}

// Case is one situation in which contestants are measured.
type Case struct {
	Row     string   `json:"row"`
	Name    string   `json:"case"`
	What    string   `json:"what"`
	Base    string   `json:"base"` // the contestant that ratios are to; empty: no ratios
	Columns []string `json:"columns"`
	Bars    []Bar    `json:"bars,omitempty"`
	LeftOut []string `json:"left_out,omitempty"` // contestants, and why

	Results []CaseResult `json:"results"` // filled in by Sum
}

// CaseResult has the figures of one contestant in a Case.
type CaseResult struct {
	Peer    string          `json:"peer"`
	Version string          `json:"version,omitempty"`
	Figures map[string]Stat `json:"figures"`          // by column
	Ratios  map[string]Stat `json:"ratios,omitempty"` // to the base in the same round, by column
}

// Limit says on which side of a bar a figure is to be.
type Limit string

// Limits of a Bar.
const (
	AtLeast Limit = "at least"
	AtMost  Limit = "at most"
	Below   Limit = "below"
)

// Verdicts on a Bar.
const (
	Met         = "met"
	Missed      = "missed"
	NotMeasured = "not measured"
)

// Bar is a bound that a contestant's median must keep.
type Bar struct {
	Peer   string  `json:"peer"`
	Column string  `json:"column"`
	Base   string  `json:"base,omitempty"` // the median is of ratios to it; empty: of the figure
	Worst  bool    `json:"worst,omitempty"`
	Share  float64 `json:"share,omitempty"` // of the turns that must keep the bound; 0: their median
	Limit  Limit   `json:"limit"`
	Bound  float64 `json:"bound"`

	Got     *Stat  `json:"got,omitempty"` // filled in by Sum, as is Verdict
	Verdict string `json:"verdict"`
}

// column is a figure of a Turn.
type column struct {
	name, heading string
	of            func(*Turn) float64
	text          func(float64) string
	ratio         bool // tables have its ratio to the base too
	zero          bool // 0 is a figure; else it means that it is not known
}

// columns are all that a Case may name.
var columns = []column{
	{"rate", "calls/s", func(t *Turn) float64 { return t.Rps }, cli.CountText, true, false},
	{"cpu", "CPU per call", func(t *Turn) float64 { return t.CPU / 1e3 }, micros, true, false},
	{"p50", "p50", func(t *Turn) float64 { return t.P50 }, micros, false, false},
	{"p99", "p99", func(t *Turn) float64 { return t.P99 }, micros, false, false},
	{"p99.9", "p99.9", func(t *Turn) float64 { return t.P999 }, micros, false, false},
	{"max", "longest", func(t *Turn) float64 { return t.Max }, micros, false, false},
	{"late", "calls began late", func(t *Turn) float64 { return t.Late }, micros, false, false},
	{"kept", "the goroutine keeps", func(t *Turn) float64 { return t.Kept }, part, false, false},
	{"share", "share of a core", func(t *Turn) float64 { return t.Share }, percent, false, true},
	{"server", "the servers'", func(t *Turn) float64 { return t.ServerShare }, percent, false, true},
	{"threads", "extra threads", func(t *Turn) float64 { return t.Threads }, whole, false, true},
	{"lowest", "lowest window", func(t *Turn) float64 { return t.Lowest }, part, false, true},
	{"lost", "may have run", func(t *Turn) float64 { return t.Lost }, whole, false, true},
	{"excess", "beyond in flight", func(t *Turn) float64 { return t.Excess }, whole, false, true},
	{"packets", "client's packets", func(t *Turn) float64 { return t.Packets }, count, false, false},
	{"sends", "its sends", func(t *Turn) float64 { return t.Sends }, count, false, false},
	{"server packets", "server's packets", func(t *Turn) float64 { return t.ServerPackets }, count,
		false, false},
	{"server sends", "its sends", func(t *Turn) float64 { return t.ServerSends }, count, false, false},
	{"memory", "server's memory", func(t *Turn) float64 { return t.Memory }, megabytes, false, false},
	{"least", "least client", func(t *Turn) float64 { return t.Least }, part, false, false},
	{"alone p50", "alone p50", func(t *Turn) float64 { return t.AloneP50 }, micros, false, false},
	{"alone p99", "alone p99", func(t *Turn) float64 { return t.AloneP99 }, micros, false, false},
	{"growth", "p99 beside / alone", func(t *Turn) float64 { return t.Growth }, part, false, false},
	{"more", "p99 more than alone", func(t *Turn) float64 { return t.More }, micros, false, true},
	{"beside", "large ones/s", func(t *Turn) float64 { return t.BesideRps }, cli.CountText, true,
		false},
	{"ejected", "ejected after", func(t *Turn) float64 { return t.Ejected }, micros, false, false},
}

// columnOf finds a column; ok is false if there is none of that name.
func columnOf(name string) (c column, ok bool) {
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
	if i < 0 {
		return c, false
	}
	return columns[i], true
}

// Sum fills in the results and verdicts of the cases from the turns.
func (g *Goroutines) Sum() {
	g.Bench = GoroutinesName
	for i := range g.Cases {
		c := &g.Cases[i]
		var turns []Turn
		for _, t := range g.Turns {
			if t.Row == c.Row && t.Case == c.Name {
				turns = append(turns, t)
			}
		}
		c.sum(turns)
	}
}

func (c *Case) sum(turns []Turn) {
	c.Results = nil
	for _, t := range turns {
		if !slices.ContainsFunc(c.Results, func(r CaseResult) bool { return r.Peer == t.Peer }) {
			c.Results = append(c.Results, c.result(t, turns))
		}
	}
	for i := range c.Bars {
		c.Bars[i].judge(turns)
	}
}

// result sums up the turns of first's contestant.
func (c *Case) result(first Turn, turns []Turn) CaseResult {
	r := CaseResult{Peer: first.Peer, Version: first.Version, Figures: map[string]Stat{}}
	for _, name := range c.Columns {
		col, ok := columnOf(name)
		if !ok {
			continue
		}
		if v := figures(turns, r.Peer, col); len(v) > 0 {
			r.Figures[name] = StatOf(v)
		}
		if v := ratiosTo(turns, r.Peer, c.Base, col); col.ratio && len(v) > 0 {
			if r.Ratios == nil {
				r.Ratios = map[string]Stat{}
			}
			r.Ratios[name] = StatOf(v)
		}
	}
	return r
}

// figure is the column's of a contestant's turn; ok is false for others' turns, and if it is
// not known.
func (col column) figure(t *Turn, peer string) (n float64, ok bool) {
	if t.Peer != peer {
		return 0, false
	}
	n = col.of(t)
	return n, n != 0 || col.zero
}

// figures are those of a contestant, in the order of the turns.
func figures(turns []Turn, peer string, col column) (v []float64) {
	for i := range turns {
		if n, ok := col.figure(&turns[i], peer); ok {
			v = append(v, n)
		}
	}
	return v
}

// ratiosTo are a contestant's figures divided by the base's, in rounds that have both. Where
// a round has several turns of each, their medians count.
func ratiosTo(turns []Turn, peer, base string, col column) (v []float64) {
	own, other := byRound(turns, peer, col), byRound(turns, base, col)
	for _, round := range own.rounds {
		if m := StatOf(other.figures[round]).Median; m > 0 {
			v = append(v, StatOf(own.figures[round]).Median/m)
		}
	}
	return v
}

// rounds are a contestant's figures by round.
type rounds struct {
	rounds  []int
	figures map[int][]float64
}

func byRound(turns []Turn, peer string, col column) rounds {
	r := rounds{figures: map[int][]float64{}}
	for i := range turns {
		n, ok := col.figure(&turns[i], peer)
		if !ok {
			continue
		}
		round := turns[i].Round
		if r.figures[round] == nil {
			r.rounds = append(r.rounds, round)
		}
		r.figures[round] = append(r.figures[round], n)
	}
	return r
}

// judge fills in Got and Verdict.
func (b *Bar) judge(turns []Turn) {
	b.Got, b.Verdict = nil, NotMeasured
	col, ok := columnOf(b.Column)
	if !ok {
		return
	}
	var v []float64
	switch {
	case b.Worst:
		if s := StatOf(figures(turns, b.Peer, col)); s.Median > 0 {
			v = []float64{s.Min / s.Median}
		}
	case b.Base != "":
		v = ratiosTo(turns, b.Peer, b.Base, col)
	default:
		v = figures(turns, b.Peer, col)
	}
	if len(v) == 0 {
		return
	}
	s := StatOf(v)
	b.Got, b.Verdict = &s, Missed
	if b.holds(v, s) {
		b.Verdict = Met
	}
}

// holds says whether enough of the figures keep the bound, or their median does.
func (b *Bar) holds(v []float64, s Stat) bool {
	if b.Share == 0 {
		return b.Limit.holds(s.Median, b.Bound)
	}
	n := 0
	for _, got := range v {
		if b.Limit.holds(got, b.Bound) {
			n++
		}
	}
	return float64(n) >= b.Share*float64(len(v))
}

func (l Limit) holds(got, bound float64) bool {
	switch l {
	case AtLeast:
		return got >= bound
	case AtMost:
		return got <= bound
	}
	return got < bound
}
