package failures

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	played, err := play()
	switch {
	case !played:
		os.Exit(m.Run())
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	which  = flag.String("failures", "", "which `cells` run: all, pairs; a few without it")
	only   = flag.String("failures.only", "", "run only cells whose names match an `expression`")
	rounds = flag.Int("failures.rounds", 1, "`rounds` of each cell; the table has their medians")
	asJSON = flag.String("failures.json", "", "write the figures to a `file`, too")
)

// some are the cells of a plain go test: they show that the lab works, and have no bars, since
// other tests run beside them.
var some = []cell{{udpTransport, plain, poolClient, faultKill}}

// bare reports whether a plain go test runs them.
func bare() bool { return *which == "" && *only == "" }

// selected are the cells that the flags ask for.
func selected(t *testing.T) (cells []cell) {
	if *rounds < 1 {
		t.Fatalf("-failures.rounds=%d: want 1 at least", *rounds)
	}
	all, _ := allCells()
	list := map[string][]cell{"": some, "pairs": allPairs(all), "all": all}[*which]
	if list == nil {
		t.Fatalf("-failures=%s: want all or pairs", *which)
	}
	if *only != "" && *which == "" {
		list = all
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if match.MatchString(c.String()) {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		t.Fatalf("-failures.only=%s: no cell matches", *only)
	}
	return cells
}

// TestMatrix runs cells, each beside grpc-go, and holds them to their bars.
func TestMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("the cells take seconds")
	}
	m := &matrix{anchors: make(map[anchor]*row)}
	for _, c := range selected(t) {
		t.Run(c.String(), func(t *testing.T) { m.measure(t, c) })
	}
	t.Log("\n" + m.String())
	if *asJSON != "" {
		if err := m.write(*asJSON); err != nil {
			t.Fatal(err)
		}
	}
}

// moreRounds is how often a cell that misses a bar runs again, each time after grpc-go.
const moreRounds = 4

// measure runs a cell until it meets its bars, and reports those that it never met. With rounds
// that have a median there is one run.
func (m *matrix) measure(t *testing.T, c cell) {
	cl := &row{Cell: c.String(), anchor: c.anchor()}
	m.rows = append(m.rows, cl)
	for more := moreRounds; ; more-- {
		beside := m.beside(t, c, more < moreRounds)
		cl.measure(t, c, c.library(), false)
		t.Logf("%-46s %v", c, cl.Median)
		t.Logf("metrics: %s", strings.Join(cl.Median.Signs, ", "))
		t.Logf("top: %s; trace: %s", cl.Median.Top, cl.Median.Trace)
		cl.Broken = c.judge(cl.Median, beside)
		if len(cl.Broken) == 0 || more == 0 || *rounds > 1 || bare() {
			break
		}
		t.Logf("again, grpc-go first: %s", strings.Join(cl.Broken, "; "))
	}
	cl.Broken = append(cl.Broken, cl.faults...)
	for _, b := range cl.Broken {
		if bare() {
			t.Log("bar, which does not count here:", b)
		} else {
			t.Error(b)
		}
	}
}

// beside returns what grpc-go showed in a cell's place. It runs if it is missing, or anew.
func (m *matrix) beside(t *testing.T, c cell, anew bool) *sample {
	a := c.anchor()
	of := []anchor{a}
	if *which == "all" && (c.fault() == faultKill || c.fault() == faultRestart) {
		a.keep = false
		of = append(of, a)
	}
	for _, a := range of {
		if (anew || m.anchors[a] == nil) && !(a.lone && a.fault == faultReplace) {
			m.anchors[a] = &row{Cell: a.String() + ", " + a.fault}
			m.anchors[a].measure(t, c, "grpc-go", a.keep)
		}
	}
	r := m.anchors[of[0]]
	if r == nil {
		return new(sample)
	}
	t.Logf("%-46s %v", r.Cell, r.Median)
	return r.Median
}

// measure makes a row's rounds, or ends the test.
func (r *row) measure(t *testing.T, c cell, library string, keep bool) {
	r.Rounds, r.Median = nil, new(sample)
	r.Broken = []string{"skipped, or did not run to its end"}
	for range *rounds {
		var s *sample
		for again := 2; ; again-- {
			var err error
			if s, err = measure(t, c, library, keep); err != nil {
				r.Broken = []string{err.Error()}
				t.Fatal(library, err)
			}
			r.faults = append(r.faults, s.faults()...)
			if again == 0 || !s.busy() || bare() {
				break
			}
			t.Logf("again, the machine is busy: %v, overslept by %v", s, s.Gap)
		}
		r.Rounds = append(r.Rounds, s)
	}
	r.Median, r.Broken = median(r.Rounds), nil
}
