package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/userspace-rpc/erpc/kit/cli"
)

func factor(n float64) string {
	if n < 10 {
		return fmt.Sprintf("%.2f", n)
	}
	return fmt.Sprintf("%.0f", n)
}

func micros(n float64) string {
	if n < 1000 {
		return fmt.Sprintf("%.1f us", n)
	}
	return fmt.Sprintf("%.2f ms", n/1000)
}

// text is spread, or a dash if there is no figure.
func (s Stat) text(f func(float64) string) string {
	if s == (Stat{}) {
		return "-"
	}
	return s.spread(f)
}

// cells are the rows of the comparison's table, the first one its heading.
func (c *Comparison) cells() [][]string {
	rows := [][]string{{"peer", fmt.Sprintf("%d in flight, RPC/s", c.Window), "times " + c.Base,
		"CPU per RPC", "cores", "1 in flight, p50", "p99", "cores"}}
	bulk := false
	for _, r := range c.Rows {
		bulk = bulk || r.Gbps != nil
	}
	if bulk {
		rows[0] = append(rows[0], "Gbit/s")
	}
	for _, r := range c.Rows {
		ratio := "-"
		if r.Ratio != nil {
			ratio = r.Ratio.text(factor)
		}
		line := []string{strings.TrimSpace(r.Peer + " " + r.Version), r.Rps.text(cli.CountText), ratio,
			r.CPU.text(func(n float64) string { return micros(n / 1000) }), r.RateCores,
			r.P50.text(micros), r.P99.text(micros), r.LatencyCores}
		if bulk {
			g := Stat{}
			if r.Gbps != nil {
				g = *r.Gbps
			}
			line = append(line, g.text(factor))
		}
		rows = append(rows, line)
	}
	return rows
}

// Title says what was compared.
func (c *Comparison) Title() string {
	what := cli.BytesText(c.Size) + " unary echo"
	if c.RespSize != c.Size {
		what = fmt.Sprintf("unary RPC, requests %s, responses %s", cli.BytesText(c.Size),
			cli.BytesText(c.RespSize))
	}
	rounds := fmt.Sprintf("medians of %d rounds of %.3g s (least .. most)", c.Rounds, c.Duration)
	if c.Interrupted {
		rounds += ", interrupted"
	}
	return what + ", client and server in two processes, " + rounds
}

// Text prints the comparison for people.
func (c *Comparison) Text(w io.Writer) error {
	fmt.Fprintln(w, c.Title())
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, row := range c.cells() {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, n := range c.Notes {
		if _, err := fmt.Fprintln(w, "- "+n); err != nil {
			return err
		}
	}
	return nil
}

// Markdown prints all results as tables.
func (r *Results) Markdown(w io.Writer) error {
	if len(r.Figures) > 0 {
		rows := [][]string{{"what", "transport", "erpc", "raw transport", "ratio", "CPU per RPC"}}
		for i := range r.Figures {
			rows = append(rows, r.Figures[i].cells())
		}
		if err := markdown(w, machineText(r.Figures[0].Machine), rows, nil); err != nil {
			return err
		}
	}
	if r.Peers == nil {
		return nil
	}
	if len(r.Figures) > 0 {
		fmt.Fprintln(w)
	}
	return markdown(w, r.Peers.Title()+". "+machineText(r.Peers.Machine), r.Peers.cells(),
		r.Peers.Notes)
}

func machineText(m Machine) string {
	text := fmt.Sprintf("Measured on %s, %d cores, %s/%s", m.CPU, m.Cores, m.OS, m.Arch)
	if m.Kernel != "" {
		text += ", kernel " + m.Kernel
	}
	text += ", " + m.Go
	if m.Commit != "" {
		text += ", commit " + m.Commit
	}
	return text + "."
}

func (f *Figure) cells() []string {
	own, raw := "", "-"
	switch f.Bench {
	case "latency":
		own = fmt.Sprintf("p50 %s, p99 %s", micros(f.P50), micros(f.P99))
		if f.RawP50 > 0 {
			raw = "p50 " + micros(f.RawP50)
		}
	case "bandwidth":
		own = fmt.Sprintf("%.1f Gbit/s", f.Gbps)
		if f.RawGbps > 0 {
			raw = fmt.Sprintf("%.1f Gbit/s", f.RawGbps)
		}
	default:
		own = fmt.Sprintf("%s/s, p50 %s, p99 %s", cli.CountText(f.Rps), micros(f.P50), micros(f.P99))
		if f.RawRps > 0 {
			raw = cli.CountText(f.RawRps) + "/s echoed"
		}
	}
	ratio, cpu := "-", "-"
	if f.Ratio > 0 {
		ratio = factor(f.Ratio)
	}
	if f.CPU > 0 {
		cpu = micros(f.CPU / 1000)
	}
	return []string{f.Name(), f.Transport, own, raw, ratio, cpu}
}

// markdown prints a table whose columns are aligned in the source too.
func markdown(w io.Writer, intro string, rows [][]string, notes []string) error {
	fmt.Fprintf(w, "%s\n\n", intro)
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			cell = strings.ReplaceAll(cell, "|", `\|`)
			fmt.Fprintf(w, "| %-*s ", width[i], cell)
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, wd := range width {
				fmt.Fprint(w, "|"+strings.Repeat("-", wd+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
	if len(notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range notes {
		if _, err := fmt.Fprintln(w, "- "+n); err != nil {
			return err
		}
	}
	return nil
}
