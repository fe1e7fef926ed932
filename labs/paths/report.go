package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// measure is a figure with a bar. Of several turns the median counts for times and rates, and the
// worst for counts.
type measure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitempty"` // "" is a count
	Bar    float64 `json:"bar"`
	Least  bool    `json:"least,omitempty"`    // the bar is the least good value, not the largest
	NoBar  bool    `json:"no_bar,omitempty"`   // a figure to read
	Missed bool    `json:"missed,omitempty"`   // of the bar
	Runs   int     `json:"of_turns,omitempty"` // behind the value
}

// never is the time of what did not happen.
const never = time.Hour

func (m *measure) judge() {
	m.Missed = !m.NoBar && (m.Least && m.Value < m.Bar || !m.Least && m.Value > m.Bar)
}

func figure(v float64, unit string) string {
	switch {
	case unit == "ms" && v >= float64(never)/1e6:
		return "never"
	case unit == "ms":
		return fmt.Sprintf("%.4g ms", v)
	case unit == "":
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}

func (m *measure) bar() string {
	switch {
	case m.NoBar:
		return ""
	case m.Least:
		return m.Name + " >= " + figure(m.Bar, m.Unit)
	case m.Bar == 0:
		return "no " + m.Name
	}
	return m.Name + " <= " + figure(m.Bar, m.Unit)
}

func (m *measure) text() string {
	text := m.Name + " " + figure(m.Value, m.Unit)
	if m.Missed {
		text = "MISSED: " + text
	}
	return text
}

func (t *trial) add(m measure) { t.measures = append(t.measures, m) }

// atMost and atLeast hold a figure to a bar.
func (t *trial) atMost(name string, v, bar float64, unit string) {
	t.add(measure{Name: name, Value: v, Bar: bar, Unit: unit})
}

func (t *trial) atLeast(name string, v, bar float64, unit string) {
	t.add(measure{Name: name, Value: v, Bar: bar, Unit: unit, Least: true})
}

// within holds a time to a bar. One that never came, 0, misses it.
func (t *trial) within(name string, d, bar time.Duration) {
	if d == 0 {
		d = never
	}
	t.atMost(name, float64(d)/1e6, float64(bar)/1e6, "ms")
}

// none wants no case of something.
func (t *trial) none(name string, n int) { t.atMost(name, float64(n), 0, "") }

// shown is a figure without a bar.
func (t *trial) shown(name string, v float64, unit string) {
	t.add(measure{Name: name, Value: v, Unit: unit, NoBar: true})
}

// answered wants that every call of a load was answered, and with its bytes.
func (t *trial) answered(rep *loadReport) {
	failed := 0
	for i := range rep.Phases {
		failed += rep.Phases[i].failed()
	}
	t.atMost("calls failed", float64(failed+dialFailed(rep)), 0, "")
	t.endings(rep)
}

// named lets calls fail, each with an error that has a name.
func (t *trial) named(rep *loadReport) {
	failed := 0
	for i := range rep.Phases {
		failed += rep.Phases[i].failed()
	}
	t.shown("calls failed", float64(failed), "")
	t.endings(rep)
}

func (t *trial) endings(rep *loadReport) {
	ok, wrong, strange := 0, 0, 0
	for _, p := range rep.Phases {
		ok, wrong = ok+p.OK, wrong+p.Wrong
		if f := p.Failed[nameless]; f != nil {
			strange += f.N
		}
	}
	t.atLeast("calls answered", float64(ok), 1, "")
	t.none("wrong bytes", wrong)
	t.none("calls that never ended", rep.Unended)
	t.none("nameless errors", strange)
}

func dialFailed(rep *loadReport) int {
	if rep.DialError != "" {
		return 1
	}
	return 0
}

// together is one report of all loads.
func together(reps []*loadReport) *loadReport {
	all := &loadReport{}
	for _, rep := range reps {
		all.Phases = append(all.Phases, rep.Phases...)
		all.Unended += rep.Unended
		if rep.DialError != "" {
			all.DialError = rep.DialError
		}
	}
	return all
}

// mbit is the goodput of all phases of a name, in one direction.
func (r *loadReport) mbit(name string) (sum float64) {
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Name == name {
			sum += p.mbit()
		}
	}
	return sum
}

// phase returns what happened after a mark.
func (r *loadReport) phase(name string) *phase {
	for i := range r.Phases {
		if r.Phases[i].Name == name {
			return &r.Phases[i]
		}
	}
	return &phase{}
}

// mbit is the goodput of a phase in one direction.
func (p *phase) mbit() float64 {
	if p.Length == 0 {
		return 0
	}
	return float64(p.Bytes) * 8 / p.Length.Seconds() / 1e6
}

// result is a row of the table.
type result struct {
	Case     string        `json:"case"`
	Group    string        `json:"group"`
	Rows     string        `json:"rows,omitempty"`
	Verdict  string        `json:"verdict"` // passed, MISSED, BROKEN, void, elsewhere
	Measures []measure     `json:"measures,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
	Took     time.Duration `json:"took"`
}

const (
	passed    = "passed"
	missed    = "MISSED"
	broke     = "BROKEN"
	void      = "void"
	elsewhere = "elsewhere"
)

// merge makes one list of the measures of several turns.
func merge(turns [][]measure) (list []measure) {
	byName := map[string][]measure{}
	var order []string
	for _, turn := range turns {
		for _, m := range turn {
			if byName[m.Name] == nil {
				order = append(order, m.Name)
			}
			byName[m.Name] = append(byName[m.Name], m)
		}
	}
	for _, name := range order {
		of := byName[name]
		m := of[0]
		var values []float64
		for _, x := range of {
			values = append(values, x.Value)
		}
		switch {
		case m.Unit != "":
			m.Value = cli.Median(values)
		case m.Least:
			m.Value = slices.Min(values)
		default:
			m.Value = slices.Max(values)
		}
		m.Runs = len(of)
		m.judge()
		list = append(list, m)
	}
	return list
}

// quiet are counts that every case has: they are in a row only if they are wrong.
var quiet = []string{"wrong bytes", "calls that never ended", "nameless errors", "handlers twice",
	"answers without a handler", `"did not run" that ran`, "calls answered"}

func (r *result) print(out io.Writer, asJSON bool) {
	if asJSON {
		b, _ := json.Marshal(r)
		fmt.Fprintf(out, "%s\n", b)
		return
	}
	var bars, values []string
	for i := range r.Measures {
		m := &r.Measures[i]
		if slices.Contains(quiet, m.Name) && !m.Missed {
			continue
		}
		if bar := m.bar(); bar != "" {
			bars = append(bars, bar)
		}
		values = append(values, m.text())
	}
	fmt.Fprintf(out, "%-24s %-9s %5.1f s  %s", r.Case, r.Verdict, r.Took.Seconds(),
		strings.Join(values, "; "))
	if len(bars) > 0 {
		fmt.Fprintf(out, "  [%s]", strings.Join(bars, "; "))
	}
	fmt.Fprintln(out)
	if r.Verdict == passed {
		return
	}
	for i, n := range r.Notes {
		if i == 6 {
			fmt.Fprintf(out, "    and %d more\n", len(r.Notes)-i)
			break
		}
		fmt.Fprintf(out, "    %s\n", n)
	}
}
