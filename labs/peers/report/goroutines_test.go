package report

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// someTurns: three rounds of a contestant and of the base, the last of them without the base.
func someTurns() []Turn {
	turn := func(peer string, round int, rps, cpu float64) Turn {
		return Turn{Row: "row", Case: "one", Late: 2,
			Run: Run{Peer: peer, Version: "v1", Round: round, Rps: rps, CPU: cpu, P50: 10 * rps, P99: 2000}}
	}
	other := turn("own", 1, 1e9, 1)
	other.Case = "another"
	return []Turn{turn("base", 1, 10, 6000), turn("own", 1, 100, 1000), other,
		turn("own", 2, 80, 3000),
		turn("base", 2, 40, 6000), turn("own", 3, 30, 2000)}
}

func sumOf(c Case, turns []Turn) Case {
	c.Row, c.Name = "row", "one"
	g := Goroutines{Cases: []Case{c}, Turns: turns}
	g.Sum()
	return g.Cases[0]
}

// TestSum: figures are medians of all rounds, ratios of those that have both.
func TestSum(t *testing.T) {
	c := sumOf(Case{Base: "base", Columns: []string{"rate", "cpu", "p99", "share"}}, someTurns())
	if len(c.Results) != 2 || c.Results[0].Peer != "base" {
		t.Fatalf("%+v", c.Results)
	}
	want := CaseResult{Peer: "own", Version: "v1",
		Figures: map[string]Stat{"rate": {80, 30, 100}, "cpu": {2, 1, 3},
			"p99": {2000, 2000, 2000}, "share": {}},
		Ratios: map[string]Stat{"rate": {6, 2, 10}, "cpu": {1. / 3, 1. / 6, 0.5}}}
	if !reflect.DeepEqual(c.Results[1], want) {
		t.Errorf("got %+v\nwant %+v", c.Results[1], want)
	}
	if c = sumOf(Case{Columns: []string{"rate"}}, someTurns()); c.Results[1].Ratios != nil {
		t.Errorf("ratios to nobody: %+v", c.Results[1])
	}
}

// TestSumTwice: two turns of each in a round count as one, by their median.
func TestSumTwice(t *testing.T) {
	turns := someTurns()[:2]
	again := turns[1]
	again.Rps = 300
	c := sumOf(Case{Base: "base", Columns: []string{"rate"}}, append(turns, again))
	if got := c.Results[1].Ratios["rate"]; got != (Stat{20, 20, 20}) {
		t.Errorf("%+v", got)
	}
}

func TestVerdicts(t *testing.T) {
	for _, tt := range []struct {
		bar  Bar
		want string
	}{
		// The ratios are 10 and 2, the figures 100, 80 and 30.
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: AtLeast, Bound: 6}, Met},
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: AtLeast, Bound: 6.01}, Missed},
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: AtMost, Bound: 6}, Met},
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: AtMost, Bound: 5.99}, Missed},
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: Below, Bound: 6.01}, Met},
		{Bar{Peer: "own", Column: "rate", Base: "base", Limit: Below, Bound: 6}, Missed},
		{Bar{Peer: "own", Column: "p50", Base: "base", Limit: Below, Bound: 1}, Missed},
		{Bar{Peer: "own", Column: "rate", Limit: AtLeast, Bound: 80}, Met},
		{Bar{Peer: "own", Column: "rate", Limit: AtLeast, Bound: 81}, Missed},
		{Bar{Peer: "own", Column: "rate", Worst: true, Limit: AtLeast, Bound: 0.375}, Met},
		{Bar{Peer: "own", Column: "rate", Worst: true, Limit: AtLeast, Bound: 0.376}, Missed},
		{Bar{Peer: "own", Column: "rate", Share: 0.3, Limit: AtLeast, Bound: 100}, Met},
		{Bar{Peer: "own", Column: "rate", Share: 0.7, Limit: AtLeast, Bound: 80}, Missed},
		{Bar{Peer: "own", Column: "rate", Base: "base", Share: 1, Limit: AtLeast, Bound: 2}, Met},
		{Bar{Peer: "own", Column: "threads", Limit: AtMost, Bound: 4}, Met}, // 0 is a figure
		{Bar{Peer: "nobody", Column: "rate", Limit: AtMost, Bound: 1}, NotMeasured},
		{Bar{Peer: "nobody", Column: "rate", Worst: true, Limit: AtMost, Bound: 1}, NotMeasured},
		{Bar{Peer: "own", Column: "rate", Base: "nobody", Limit: AtMost, Bound: 1}, NotMeasured},
		{Bar{Peer: "own", Column: "nothing", Limit: AtMost, Bound: 1}, NotMeasured},
	} {
		got := sumOf(Case{Bars: []Bar{tt.bar}}, someTurns()).Bars[0]
		if got.Verdict != tt.want || (got.Got == nil) != (tt.want == NotMeasured) {
			t.Errorf("%+v: %s, %+v, want %s", tt.bar, got.Verdict, got.Got, tt.want)
		}
	}
	turns := someTurns()
	for i := range turns {
		turns[i].CPU = 0 // not known
	}
	for _, base := range []string{"", "base"} {
		b := Bar{Peer: "own", Column: "cpu", Base: base, Limit: AtMost, Bound: 1}
		if got := sumOf(Case{Bars: []Bar{b}}, turns).Bars[0]; got.Verdict != NotMeasured {
			t.Errorf("a figure that is not known: %+v", got)
		}
	}
}

func TestGoroutinesText(t *testing.T) {
	turns := append(someTurns(), Turn{Row: "row", Case: "idle", Share: 0.002, Threads: 102,
		Run: Run{Peer: "own", Round: 1}})
	g := Goroutines{Rounds: 3, Duration: 0.5, Interrupted: true, Failures: []string{"it broke"},
		Turns: turns}
	g.Cases = []Case{
		{Row: "row", Name: "one", What: "an echo", Base: "base",
			Columns: []string{"rate", "cpu", "p50", "late"}, LeftOut: []string{"tcp: it cannot"},
			Bars: []Bar{
				{Peer: "own", Column: "rate", Base: "base", Limit: AtLeast, Bound: 15},
				{Peer: "own", Column: "cpu", Base: "base", Limit: AtMost, Bound: 1. / 12},
				{Peer: "own", Column: "p99", Base: "base", Limit: Below, Bound: 1},
				{Peer: "own", Column: "rate", Worst: true, Limit: AtLeast, Bound: 0.3},
				{Peer: "own", Column: "p99", Share: 0.8, Limit: Below, Bound: 3000},
			}},
		{Row: "row", Name: "idle", What: "nothing",
			Columns: []string{"share", "threads", "rate"}, Bars: []Bar{
				{Peer: "own", Column: "share", Limit: AtMost, Bound: 0.005},
				{Peer: "nobody", Column: "threads", Limit: AtMost, Bound: 4},
			}},
	}
	g.Sum()
	var b bytes.Buffer
	if err := g.Text(&b); err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"Calls from goroutines, client and server in two processes, medians of 3 rounds of 0.5 s " +
			"(least .. most), interrupted",
		"row, one: an echo",
		"calls/s times base CPU per call times base p50 calls began late",
		"base v1 25.0 (10.0 .. 40.0) 1.00 6.0 us 1.00 250.0 us (100.0 us .. 400.0 us) 2.0 us",
		"own v1 80.0 (30.0 .. 100.0) 6.00 (2.00 .. 10) 2.0 us (1.0 us .. 3.0 us) " +
			"0.333 (0.167 .. 0.500) 800.0 us (300.0 us .. 1.00 ms) 2.0 us",
		"bar: own, calls/s: at least 15 times base's: 6.00 (2.00 .. 10): missed",
		"bar: own, CPU per call: at most 1/12 times base's: 0.333 (0.167 .. 0.500): missed",
		"bar: own, p99: below base's: 1.00: missed",
		"bar: own, calls/s: the least at least 0.3 of the median: 0.375: met",
		"bar: own, p99: below 3.00 ms in 80 % of the turns: 2.00 ms: met",
		"left out: tcp: it cannot",
		"share of a core extra threads calls/s",
		"own 0.20 % 102 -",
		"bar: own, share of a core: at most 0.50 %: 0.20 %: met",
		"bar: nobody, extra threads: at most 4: not measured",
		"Bars: 3 met, 3 missed, 1 not measured.",
		"- Failed, and not in the figures: it broke",
	} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}

// TestGoroutinesJSON: a report can be read again as it was written.
func TestGoroutinesJSON(t *testing.T) {
	g := Goroutines{Turns: someTurns(), Cases: []Case{{Row: "row", Name: "one", Base: "base",
		Columns: []string{"rate"},
		Bars:    []Bar{{Peer: "own", Column: "rate", Base: "base", Limit: AtLeast, Bound: 6}}}}}
	g.Sum()
	text, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var again Goroutines
	if err := json.Unmarshal(text, &again); err != nil || !reflect.DeepEqual(g, again) {
		t.Errorf("%v: %+v became %+v", err, g, again)
	}
	for _, want := range []string{`"bench":"goroutines"`, `"verdict":"met"`,
		`"got":{"median":6,"min":2,"max":10}`, `"cpu_ns_per_rpc":1000`, `"case":"another"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestReportOfOthers: a report on something else has a title and notes of its own.
func TestReportOfOthers(t *testing.T) {
	g := Goroutines{What: "Large messages", Notes: []string{"read it so"}, Rounds: 3, Duration: 1}
	g.Cases = []Case{{Row: "row", Name: "one", Columns: []string{"packets", "memory", "least"}}}
	g.Turns = []Turn{{Row: "row", Case: "one", Run: Run{Peer: "own", Round: 1}, Packets: 1291.8,
		Memory: 84e6, Least: 0.5}}
	g.Sum()
	var b bytes.Buffer
	if err := g.Text(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Large messages, medians of 3 rounds", "\n- read it so\n",
		"own  1292              84 MB            0.500"} {
		if text := b.String(); !strings.Contains(text, want) || strings.Contains(text, goNotes[1]) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
