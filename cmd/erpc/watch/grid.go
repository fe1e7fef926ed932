package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// column is a column of a grid. Those with the highest rank go first when there is no room.
type column struct {
	name string
	rank int
	left bool // aligned to the left
}

// grid is a table of text.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// lines draws a head and n rows within the width of s. If there are more rows it says so.
func (g *grid) lines(s *Style, n int) []string {
	widths := make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = utf8.RuneCountInString(c.name)
		for _, r := range g.rows[:n] {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	shown := make([]int, 0, len(g.columns))
	for i := range g.columns {
		shown = append(shown, i)
	}
	for total(widths, shown) > s.Width && len(shown) > 1 {
		worst := slices.MaxFunc(shown, func(a, b int) int {
			return g.columns[a].rank - g.columns[b].rank
		})
		shown = slices.DeleteFunc(shown, func(i int) bool { return i == worst })
	}
	head := make([]string, len(g.columns))
	for i, c := range g.columns {
		head[i] = c.name
	}
	lines := []string{s.bold(cut(g.line(head, widths, shown), s.Width))}
	for _, r := range g.rows[:n] {
		lines = append(lines, cut(g.line(r, widths, shown), s.Width))
	}
	if more := len(g.rows) - n; more > 0 && n > 1 {
		lines[len(lines)-1] = cut(fmt.Sprintf("... and %d more", more+1), s.Width)
	}
	return lines
}

func total(widths, shown []int) int {
	sum := 2 * (len(shown) - 1)
	for _, i := range shown {
		sum += widths[i]
	}
	return sum
}

func (g *grid) line(cells []string, widths, shown []int) string {
	var parts []string
	for _, i := range shown {
		space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[i]))
		if g.columns[i].left {
			parts = append(parts, cells[i]+space)
		} else {
			parts = append(parts, space+cells[i])
		}
	}
	return strings.TrimRight(strings.Join(parts, "  "), " ")
}

func (f *Frame) loopGrid() *grid {
	g := &grid{columns: []column{{"LOOP", 0, true}, {"CALLS/S", 1, false}, {"P50", 6, false},
		{"P99", 2, false}, {"RTT", 4, false}, {"IN", 9, false}, {"OUT", 8, false},
		{"SESS", 7, false}, {"LIMITED", 10, false}, {"RATE", 5, false}, {"FLIGHT", 12, false},
		{"QUEUED", 11, false}, {"RESENT", 3, false}, {"DROP", 13, false}, {"BLIND", 14, false}}}
	for i := range f.Loops {
		l := &f.Loops[i]
		name := l.Endpoint
		if l.Number > 0 {
			name += "/" + strconv.Itoa(l.Number)
		}
		if l.Late {
			name += " LATE"
		}
		g.add(name, Count(l.Calls), Micros(l.P50), Micros(l.P99), Micros(l.RTT50),
			Count(l.RX)+"B/s", Count(l.TX)+"B/s", strconv.Itoa(l.Sessions),
			fmt.Sprintf("%d/%d", l.Limited, l.Active), bits(l.Rate), strconv.Itoa(l.InFlight),
			strconv.Itoa(l.Queued), Count(l.Resent), Count(l.Dropped),
			fmt.Sprintf("%.1f%%", 100*l.Blind))
	}
	return g
}

// bits writes a rate; "-" if there is none.
func bits(v float64) string {
	if v <= 0 {
		return "-"
	}
	return Count(v) + "bit/s"
}

func (f *Frame) typeGrid() *grid {
	g := &grid{columns: []column{{"TYPE", 0, true}, {"SIDE", 3, true}, {"CALLS/S", 1, false},
		{"FAILED", 4, false}, {"P50", 7, false}, {"P99", 5, false}, {"HANDLER P50", 6, false},
		{"HANDLER P99", 2, false}}}
	for i := range f.Types {
		t := &f.Types[i]
		g.add(t.Name, t.side(), Count(t.Calls), Count(t.Failed), Micros(t.P50), Micros(t.P99),
			Micros(t.Handler50), Micros(t.Handler99))
	}
	return g
}

func (f *Frame) sessionGrid() *grid {
	g := &grid{columns: []column{{"SESSION", 5, false}, {"PEER", 0, true}, {"SIDE", 6, true},
		{"FLIGHT", 1, false}, {"QUEUED", 4, false}, {"CREDITS", 7, false}, {"RTT", 2, false},
		{"RTO", 8, false}, {"RATE", 3, false}}}
	for i := range f.Sessions {
		s := &f.Sessions[i]
		side, credits := "server", "-"
		if s.Client {
			side, credits = "client", fmt.Sprintf("%d/%d", s.Credits, s.Most)
		}
		rate := bits(s.Rate)
		if s.Limited {
			rate += "!"
		}
		g.add(strconv.Itoa(int(s.Number)), s.Peer, side, strconv.Itoa(s.InFlight),
			strconv.Itoa(s.Queued), credits, Micros(s.RTT), Micros(s.RTO), rate)
	}
	return g
}
