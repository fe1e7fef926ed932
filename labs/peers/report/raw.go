package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// RawBenches are the benches of a RawTable.
var RawBenches = []string{"latency", "rate", "bandwidth"}

// nearCores is the round trip of a cache line in ns from which two cores share no cache; bin/erpc
// has the same.
const nearCores = 250

// rawCell holds the figures of one bench over one transport.
type rawCell struct{ ours, raw, ratio []float64 }

func (c *rawCell) add(f *Figure) {
	ours, raw := f.P50, f.RawP50
	switch f.Bench {
	case "rate":
		ours, raw = f.Rps, f.RawRps
	case "bandwidth":
		ours, raw = f.Gbps, f.RawGbps
	}
	c.ours, c.raw, c.ratio = append(c.ours, ours), append(c.raw, raw), append(c.ratio, f.Ratio)
}

// RawTable writes a Markdown table with a row for each transport: medians of the figures, beside
// those of the raw transport, and their ratios; and in how many runs the two cores were near.
func RawTable(w io.Writer, figures []Figure) error {
	var order []string
	cells := map[[2]string]*rawCell{}
	near, runs := map[string]int{}, map[string]int{}
	for i := range figures {
		f := &figures[i]
		if !slices.Contains(order, f.Transport) {
			order = append(order, f.Transport)
		}
		at := [2]string{f.Transport, f.Bench}
		if cells[at] == nil {
			cells[at] = &rawCell{}
		}
		cells[at].add(f)
		if runs[f.Transport]++; f.Cores > 0 && f.Cores < nearCores {
			near[f.Transport]++
		}
	}
	var b strings.Builder
	b.WriteString("| transport | p50 | raw | ratio | rate | raw | ratio | 8 MiB | raw | ratio | " +
		"near cores |\n")
	b.WriteString("|" + strings.Repeat("---|", 11) + "\n")
	for _, tr := range order {
		fmt.Fprintf(&b, "| %s |", tr)
		for _, bench := range RawBenches {
			b.WriteString(cells[[2]string{tr, bench}].text(rawUnits[bench]))
		}
		fmt.Fprintf(&b, " %d of %d |\n", near[tr], runs[tr])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var rawUnits = map[string]func(float64) string{
	"latency":   func(n float64) string { return fmt.Sprintf("%.2f us", n) },
	"rate":      func(n float64) string { return cli.CountText(n) + "/s" },
	"bandwidth": func(n float64) string { return fmt.Sprintf("%.1f Gbit/s", n) },
}

// text is three columns of the table. A bench that was not measured is a nil cell.
func (c *rawCell) text(unit func(float64) string) string {
	if c == nil {
		return " - | - | - |"
	}
	return fmt.Sprintf(" %s | %s | %.2f |", unit(StatOf(c.ours).Median), unit(StatOf(c.raw).Median),
		StatOf(c.ratio).Median)
}
