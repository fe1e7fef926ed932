package cli

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Table lines up cells that are separated by tabs, as tabwriter does, and keeps its lines within
// the width of the terminal: what is longer goes on below its second cell.
type Table struct {
	out   io.Writer
	width int // in columns; 0: any
	first int // columns of the widest first cell
	raw   bytes.Buffer
}

// tableGap is the space between two cells.
const tableGap = 2

// NewTable returns a table that Flush writes to out, as wide as Width says.
func NewTable(out io.Writer) *Table { return &Table{out: out, width: Width(out)} }

// Width returns the columns that lines on out have: what COLUMNS says, or else the terminal's, if
// it is one; 0 if there is no limit.
func Width(out io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := out.(*os.File); ok {
		return terminalWidth(f)
	}
	return 0
}

// Write implements io.Writer. It keeps the text for Flush.
func (t *Table) Write(p []byte) (int, error) { return t.raw.Write(p) }

// Flush writes the table.
func (t *Table) Flush() error {
	for line := range strings.Lines(t.raw.String()) {
		if cell, _, ok := strings.Cut(line, "\t"); ok {
			t.first = max(t.first, utf8.RuneCountInString(cell))
		}
	}
	var lined bytes.Buffer
	w := tabwriter.NewWriter(&lined, 0, 4, tableGap, ' ', 0)
	_, _ = w.Write(t.raw.Bytes()) // to memory
	_ = w.Flush()
	t.raw.Reset()
	var out strings.Builder
	for line := range strings.Lines(lined.String()) {
		t.wrap(&out, strings.TrimRight(line, " \n"))
	}
	_, err := io.WriteString(t.out, out.String())
	return err
}

// wrap writes a line in as many lines as it takes, broken at spaces where there are any.
func (t *Table) wrap(out *strings.Builder, line string) {
	indent := min(t.first+tableGap, t.width/2)
	rest, prefix := []rune(line), ""
	for t.width > 0 && len(rest)+len(prefix) > t.width {
		room := max(1, t.width-len(prefix))
		at := room
		for i := room; i > room/3; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		out.WriteString(strings.TrimRight(prefix+string(rest[:at]), " ") + "\n")
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
		prefix = strings.Repeat(" ", indent)
	}
	if len(rest) > 0 || prefix == "" {
		out.WriteString(prefix + string(rest) + "\n")
	}
}
