package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

func percent(n float64) string { return fmt.Sprintf("%.2f %%", 100*n) }

// count is so many for each call.
func count(n float64) string {
	if n >= 100 {
		return whole(n)
	}
	return fmt.Sprintf("%.3g", n)
}

func megabytes(n float64) string { return fmt.Sprintf("%.0f MB", n/1e6) }

func whole(n float64) string { return fmt.Sprintf("%.0f", n) }

// part is a ratio for people, exact enough for a twelfth too.
func part(n float64) string {
	if n < 1 {
		return fmt.Sprintf("%.3f", n)
	}
	return factor(n)
}

// boundText is a bound as people say it: a twelfth is 1/12.
func boundText(n float64) string {
	if inverse := 1 / n; n > 0 && n < 1 && math.Abs(inverse-math.Round(inverse)) < 1e-9 {
		return fmt.Sprintf("1/%.0f", inverse)
	}
	return fmt.Sprintf("%.3g", n)
}

// goNotes say how to read the tables.
var goNotes = []string{
	"All contestants in turns, round by round; each turn in new processes, with a warm-up and " +
		"default settings. Ratios are taken within a round.",
	"CPU per call is that of both processes. Every response of the peers is compared with its " +
		"request; bin/erpc does not compare contents.",
	"drpc has a connection for each call in flight; in open loops it has 256 in all, and a call " +
		"that finds none waits.",
	"In an open loop whose peer is too slow calls pile up: its rate is below that of the " +
		"arrivals, and its latencies grow with the time of the turn.",
}

// Text prints the cases for people.
func (g *Goroutines) Text(w io.Writer) error {
	var b strings.Builder
	what, notes := "Calls from goroutines, client and server in two processes", goNotes
	if g.What != "" {
		what, notes = g.What, g.Notes
	}
	fmt.Fprintf(&b, "%s, medians of %d rounds of %.3g s (least .. most)", what, g.Rounds, g.Duration)
	if g.Interrupted {
		b.WriteString(", interrupted")
	}
	b.WriteString("\n" + machineText(g.Machine) + "\n")
	verdicts := map[string]int{}
	for i := range g.Cases {
		c := &g.Cases[i]
		c.write(&b)
		for _, bar := range c.Bars {
			verdicts[bar.Verdict]++
		}
	}
	fmt.Fprintf(&b, "\nBars: %d met, %d missed, %d not measured.\n",
		verdicts[Met], verdicts[Missed], verdicts[NotMeasured])
	for _, n := range notes {
		fmt.Fprintf(&b, "- %s\n", n)
	}
	for _, f := range g.Failures {
		fmt.Fprintf(&b, "- Failed, and not in the figures: %s\n", f)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// write prints a case: its title, its table, its bars, and the contestants left out.
func (c *Case) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s, %s: %s\n", c.Row, c.Name, c.What)
	if len(c.Results) > 0 {
		t := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
		for _, row := range c.cells() {
			fmt.Fprintln(t, "  "+strings.Join(row, "\t"))
		}
		_ = t.Flush() // a Builder takes everything
	}
	for i := range c.Bars {
		fmt.Fprintf(b, "  bar: %s\n", c.Bars[i].text())
	}
	for _, why := range c.LeftOut {
		fmt.Fprintf(b, "  left out: %s\n", why)
	}
}

// cells are the rows of a case's table, the first one its heading.
func (c *Case) cells() [][]string {
	heading := []string{""}
	for _, name := range c.Columns {
		col, _ := columnOf(name)
		heading = append(heading, col.heading)
		if col.ratio && c.Base != "" {
			heading = append(heading, "times "+c.Base)
		}
	}
	rows := [][]string{heading}
	for _, r := range c.Results {
		row := []string{strings.TrimSpace(r.Peer + " " + r.Version)}
		for _, name := range c.Columns {
			col, _ := columnOf(name)
			row = append(row, cell(r.Figures, name, col.text))
			if col.ratio && c.Base != "" {
				row = append(row, cell(r.Ratios, name, part))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// cell is the figure of that name; a dash if there is none.
func cell(of map[string]Stat, name string, unit func(float64) string) string {
	s, ok := of[name]
	if !ok {
		return "-"
	}
	return s.spread(unit)
}

// spread is the median, and the least and the most if they differ from it.
func (s Stat) spread(unit func(float64) string) string {
	if s.Min == s.Max {
		return unit(s.Median)
	}
	return fmt.Sprintf("%s (%s .. %s)", unit(s.Median), unit(s.Min), unit(s.Max))
}

// text has the bar in words, its figures, and the verdict.
func (b *Bar) text() string {
	col, _ := columnOf(b.Column)
	unit, bound := part, boundText(b.Bound)
	what := fmt.Sprintf("%s, %s", b.Peer, col.heading)
	switch {
	case b.Worst:
		what += fmt.Sprintf(": the least %s %s of the median", b.Limit, bound)
	case b.Base != "" && b.Limit == Below && b.Bound == 1:
		what += fmt.Sprintf(": below %s's", b.Base)
	case b.Base != "":
		what += fmt.Sprintf(": %s %s times %s's", b.Limit, bound, b.Base)
	default:
		unit = col.text
		what += fmt.Sprintf(": %s %s", b.Limit, unit(b.Bound))
	}
	if b.Share > 0 {
		what += fmt.Sprintf(" in %.0f %% of the turns", 100*b.Share)
	}
	if b.Got == nil {
		return what + ": " + b.Verdict
	}
	return fmt.Sprintf("%s: %s: %s", what, b.Got.spread(unit), b.Verdict)
}
