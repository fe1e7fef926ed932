package benchrows

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is something to measure. Run works for about the given time and returns nanoseconds per
// operation, of which lower is better.
type Row struct {
	Name string
	Base string  // the row that its ratio refers to; "": none
	Bar  float64 // the least ratio of Base's time to its own; 0: none
	Run  func(each time.Duration) float64
}

// Times has the figures of each row by its name, one per round.
type Times map[string][]float64

// Measure runs all rows in turns, so many rounds.
func Measure(rows []Row, rounds int, each time.Duration) Times {
	t := Times{}
	for range rounds {
		for _, r := range rows {
			t[r.Name] = append(t[r.Name], r.Run(each))
		}
	}
	return t
}

// Choose returns the rows whose names begin with one of names, and their bases, which come before
// them.
func Choose(rows []Row, names []string) []Row {
	want := map[string]bool{}
	for _, r := range slices.Backward(rows) {
		for _, n := range names {
			want[r.Name] = want[r.Name] || strings.HasPrefix(r.Name, n)
		}
		want[r.Base] = want[r.Base] || want[r.Name]
	}
	return slices.DeleteFunc(rows, func(r Row) bool { return !want[r.Name] })
}

// Ratios returns how many times as fast a row was as another one, per round.
func (t Times) Ratios(name, base string) []float64 {
	list := make([]float64, len(t[name]))
	for i := range list {
		list[i] = t[base][i] / t[name][i]
	}
	return list
}

// Report prints the table.
func (t Times) Report(out io.Writer, rows []Row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head := "row\tns\tbest\tM/s\ttimes as fast\trange\tas\t"
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Bar > 0 }) {
		head += "bar\t"
	}
	fmt.Fprintln(w, head)
	for _, r := range rows {
		list := t[r.Name]
		med := Median(list)
		fmt.Fprintf(w, "%s\t%.1f\t%.1f\t%.2f\t", r.Name, med, slices.Min(list), 1e3/med)
		if r.Base != "" {
			ratios := t.Ratios(r.Name, r.Base)
			fmt.Fprintf(w, "%.2f\t%.2f to %.2f\t%s\t",
				Median(ratios), slices.Min(ratios), slices.Max(ratios), r.Base)
			if r.Bar > 0 {
				met := "met"
				if Median(ratios) < r.Bar {
					met = "missed"
				}
				fmt.Fprintf(w, "%.2f\t%s", r.Bar, met)
			}
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// figure is a row in JSON.
type figure struct {
	Name   string    `json:"name"`
	NS     []float64 `json:"ns"` // by round
	Median float64   `json:"median_ns"`
	Base   string    `json:"base,omitempty"`
	Ratio  float64   `json:"ratio,omitempty"` // the median of those to the base, by round
	Bar    float64   `json:"bar,omitempty"`
}

// JSON prints the table as one array.
func (t Times) JSON(out io.Writer, rows []Row) error {
	list := []figure{}
	for _, r := range rows {
		f := figure{Name: r.Name, NS: t[r.Name], Median: Median(t[r.Name]), Base: r.Base, Bar: r.Bar}
		if r.Base != "" {
			f.Ratio = Median(t.Ratios(r.Name, r.Base))
		}
		list = append(list, f)
	}
	return json.NewEncoder(out).Encode(list)
}

// Median returns the middle one of a list.
func Median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
