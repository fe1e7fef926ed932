package watch

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Least sizes of a terminal that shows all rows of a part.
const (
	minWidth  = 20
	minHeight = 4
)

// Style says how text is drawn.
type Style struct {
	Width, Height int
	Colour        bool // or plain text, for NO_COLOR
}

// bold and dim draw text with colour.
func (s *Style) bold(text string) string { return s.paint("1", text) }
func (s *Style) warn(text string) string { return s.paint("1;31", text) }

func (s *Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Text draws the frame in at most Height lines of at most Width columns. Note is shown in the last
// line. Columns that do not fit are left out, the least telling ones first.
func (f *Frame) Text(s Style, note string) []string {
	s.Width, s.Height = max(minWidth, s.Width), max(minHeight, s.Height)
	lines := f.head(&s)
	body := s.Height - len(lines) - 1
	for _, g := range []*grid{f.loopGrid(), f.typeGrid(), f.sessionGrid()} {
		if len(g.rows) == 0 || body < 3 {
			continue
		}
		part := g.lines(&s, min(len(g.rows), body-2))
		lines = append(append(lines, ""), part...)
		body -= len(part) + 1
	}
	lines = lines[:min(len(lines), s.Height-1)]
	return append(lines, cut(note, s.Width))
}

// head draws the totals with their trends.
func (f *Frame) head(s *Style) []string {
	title := fmt.Sprintf("%s  pid %d  %d loop(s)  %s", f.Program, f.PID, len(f.Loops),
		f.At.Format(time.TimeOnly))
	lines := []string{s.bold(cut(title, s.Width))}
	if f.Total.Late {
		lines = append(lines, s.warn(cut("a loop does not answer: counters only", s.Width)))
	}
	t := &f.Total
	for _, row := range []struct {
		name, now string
		of        func(*Point) float64
	}{
		{"calls", perSecond(t.Calls), func(p *Point) float64 { return p.Calls }},
		{"p99", Micros(t.P99), func(p *Point) float64 { return p.P99 }},
		{"rtt", Micros(t.RTT50), func(p *Point) float64 { return p.RTT50 }},
		{"out", Count(t.TX) + "B/s", func(p *Point) float64 { return p.TX }},
		{"failed", perSecond(t.Failed), func(p *Point) float64 { return p.Failed }},
		{"resent", perSecond(t.Resent), func(p *Point) float64 { return p.Resent }},
	} {
		var values []float64
		for i := range f.Trend {
			values = append(values, row.of(&f.Trend[i]))
		}
		text := fmt.Sprintf("%-6s %11s ", row.name, row.now)
		lines = append(lines, text+Spark(values, s.Width-utf8.RuneCountInString(text)))
	}
	return lines
}

// Spark draws the last n values as a line of blocks; the largest one is full.
func Spark(values []float64, n int) string {
	const blocks = "▁▂▃▄▅▆▇█"
	values = values[max(0, len(values)-max(0, n)):]
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 && v > 0 {
			i = min(7, int(v/most*7+0.5))
		}
		b.WriteString(blocks[3*i : 3*i+3])
	}
	return b.String()
}

// cut shortens text to n columns.
func cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	r := []rune(text)
	return string(r[:max(0, n-1)]) + "…"
}

// Count writes a number with three digits or so, and a letter for thousands.
func Count(v float64) string {
	for _, u := range []struct {
		from float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.from*0.9995 {
			return digits(v/u.from) + " " + u.name
		}
	}
	return digits(v) + " "
}

// perSecond writes a rate of events.
func perSecond(v float64) string { return strings.TrimSpace(Count(v)) + "/s" }

// digits writes three digits.
func digits(v float64) string {
	switch {
	case v >= 99.95 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Micros writes a time in us, ms or s; "-" if there is none.
func Micros(v float64) string {
	switch {
	case v <= 0:
		return "-"
	case v >= 1e6:
		return digits(v/1e6) + " s"
	case v >= 1e3:
		return digits(v/1e3) + " ms"
	}
	return digits(v) + " us"
}

// Lines prints the frame for pipes: a line for each loop and each type, fields as name=value.
func (f *Frame) Lines(w io.Writer) error {
	at := f.At.UTC().Format("2006-01-02T15:04:05.000Z")
	for i := range f.Loops {
		l := &f.Loops[i]
		if _, err := fmt.Fprintf(w, "%s loop endpoint=%s loop=%d late=%t calls=%.0f failed=%.0f "+
			"p50_us=%.1f p99_us=%.1f rtt_us=%.1f rx=%.0f tx=%.0f resent=%.0f dropped=%.0f "+
			"blind=%.3f sessions=%d limited=%d rate_bps=%.0f inflight=%d queued=%d handlers=%d\n",
			at, l.Endpoint, l.Number, l.Late, l.Calls, l.Failed, l.P50, l.P99, l.RTT50, l.RX, l.TX,
			l.Resent, l.Dropped, l.Blind, l.Sessions, l.Limited, l.Rate, l.InFlight, l.Queued,
			l.Handlers); err != nil {
			return err
		}
	}
	for i := range f.Types {
		t := &f.Types[i]
		if _, err := fmt.Fprintf(w, "%s type name=%q side=%s calls=%.0f failed=%.0f p50_us=%.1f "+
			"p99_us=%.1f handler_p50_us=%.1f handler_p99_us=%.1f\n", at, t.Name, t.side(), t.Calls,
			t.Failed, t.P50, t.P99, t.Handler50, t.Handler99); err != nil {
			return err
		}
	}
	return nil
}

func (t *Type) side() string {
	if t.Server {
		return "server"
	}
	return "client"
}
