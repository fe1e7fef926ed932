package failures

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// anchor is grpc-go in one situation.
type anchor struct {
	policy, fault string
	lone, keep    bool
}

func (a anchor) String() string {
	s := "grpc-go " + a.policy
	if a.lone {
		s += ", one server"
	}
	if !a.keep {
		s += ", no keepalive"
	}
	return s
}

// row is what the rounds of a cell, or of grpc-go, showed.
type row struct {
	Cell   string
	Rounds []*sample
	Median *sample
	Broken []string // bars
	faults []string // of all rounds, also those that were made again
	anchor anchor
}

// matrix collects rows.
type matrix struct {
	rows    []*row
	anchors map[anchor]*row
}

// faults returns what no lack of time explains, or none that the client had.
func (s *sample) faults() (list []string) {
	count := func(n int, what string) {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(s.Wrong, "wrong answers")
	count(s.Twice, "calls ran twice")
	if s.busy() {
		return list
	}
	count(s.Early, "calls failed before the fault")
	if s.Slowest > deadline+hung {
		list = append(list, fmt.Sprintf("a call took %v, its deadline was %v", s.Slowest, deadline))
	}
	return list
}

// judge returns the bars that a cell breaks, beside grpc-go.
func (c cell) judge(s, beside *sample) (broken []string) {
	bar := func(ok bool, format string, args ...any) {
		if !ok {
			broken = append(broken, fmt.Sprintf(format, args...))
		}
	}
	more := max(1, int(s.Rate*c.share()*0.01))
	most := beside.Failed + more
	if c.lone() && (c.fault() == faultKill || c.fault() == faultDrain) {
		most = max(most, callers*int(watching/restFor)) // all that there is time for
	}
	bar(s.Early == 0, "%d calls failed before the fault", s.Early)
	bar(s.Slowest <= deadline+overdue+s.Gap, "a call took %v, its deadline was %v", s.Slowest,
		deadline)
	bar(s.Failed <= most, "%d calls failed, grpc-go's %d, bar %d", s.Failed, beside.Failed, most)
	switch {
	case c.fault() == faultHang:
		bar(s.Slow <= beside.Slow+more, "%d slow calls, bar %d and %d", s.Slow, beside.Slow, more)
	case c.silent() && c.lone():
	case c.silent():
		bar(s.Slow <= callers, "%d slow calls, bar one of each caller", s.Slow)
		bar(s.LateSlow == 0, "%d slow calls began %v after the fault or later", s.LateSlow, noticing)
	default:
		bar(s.Slow <= beside.Slow, "%d slow calls, grpc-go's %d", s.Slow, beside.Slow)
	}
	return broken
}

// median returns the medians of each figure; what is not a figure is of the last round.
func median(list []*sample) *sample {
	m := *list[len(list)-1]
	m.Rate = middle(list, func(s *sample) float64 { return s.Rate })
	m.Failed = middle(list, func(s *sample) int { return s.Failed })
	m.Slow = middle(list, func(s *sample) int { return s.Slow })
	m.LateSlow = middle(list, func(s *sample) int { return s.LateSlow })
	m.Slowest = middle(list, func(s *sample) time.Duration { return s.Slowest })
	m.Back = middle(list, func(s *sample) time.Duration { return s.Back })
	m.Left = middle(list, func(s *sample) time.Duration { return s.Left })
	m.Good = middle(list, func(s *sample) float64 { return s.Good })
	return &m
}

func middle[T cmp.Ordered](list []*sample, of func(*sample) T) T {
	values := make([]T, len(list))
	for i, s := range list {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// ms is for tables; a negative duration means never.
func ms(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", d.Seconds()*1e3)
}

func (s *sample) String() string {
	return fmt.Sprintf("failed %d, slow %d (%d late), slowest %s ms, back %s ms, left %s ms, "+
		"good %.0f %%, %.0f calls/s, %v", s.Failed, s.Slow, s.LateSlow, ms(s.Slowest), ms(s.Back),
		ms(s.Left), 100*s.Good, s.Rate, s.Errors)
}

// String draws the tables: cells, grpc-go, void cells.
func (m *matrix) String() string {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "cell\tfailed\tgrpc\tslow\tgrpc\tback ms\tgrpc\tleft ms\tgood %\tverdict")
	for _, r := range m.rows {
		s, beside := r.Median, new(sample)
		if a := m.anchors[r.anchor]; a != nil {
			beside = a.Median
		}
		verdict := "met"
		if len(r.Broken) > 0 {
			verdict = strings.Join(r.Broken, "; ")
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%.0f\t%s\n", r.Cell, s.Failed, beside.Failed,
			s.Slow, beside.Slow, ms(s.Back), ms(beside.Back), ms(s.Left), 100*s.Good, verdict)
	}
	fmt.Fprintln(w, "\ngrpc-go\tfailed\t\tslow\t\tback ms\t\t\tgood %\t")
	byName := func(a, b *row) int { return cmp.Compare(a.Cell, b.Cell) }
	for _, r := range slices.SortedFunc(maps.Values(m.anchors), byName) {
		s := r.Median
		fmt.Fprintf(w, "%s\t%d\t\t%d\t\t%s\t\t\t%.0f\t\n", r.Cell, s.Failed, s.Slow, ms(s.Back),
			100*s.Good)
	}
	_ = w.Flush() // to memory
	_, voids := allCells()
	for _, why := range slices.Sorted(maps.Keys(voids)) {
		fmt.Fprintf(&b, "\n%d void: %s", voids[why], why)
	}
	return b.String()
}

// write writes the rows as JSON.
func (m *matrix) write(path string) error {
	text, err := json.MarshalIndent(map[string]any{"cells": m.rows,
		"grpc-go": slices.Collect(maps.Values(m.anchors))}, "", "  ")
	if err != nil {
		return err
	}
	return outfile.Write(path, text, 0o644)
}
