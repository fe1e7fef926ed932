package pages

import (
	"cmp"
	options "flag"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var papersAll = options.Bool("pages.papers", false,
	"TestPapersFigures runs simulations that take minutes and gigabytes too")

// parts are the figures and tables of each paper, by the headings of docs/papers.md.
var parts = map[string]struct{ figures, tables int }{
	"eRPC": {6, 6}, "G-Opt": {12, 1}, "HERD": {14, 2}, "RFP": {10, 3}, "RF-RPC": {16, 4},
	"RR-Compound": {19, 5},
}

// paperRow is a row of docs/papers.md.
type paperRow struct {
	line                          int
	paper                         string // its heading
	part, what, said, here, ratio string
	how                           string
}

// paperRows reads the page's tables.
func paperRows(t *testing.T) (rows []paperRow) {
	t.Helper()
	heading := ""
	for i, line := range strings.Split(read(t, "docs/papers.md"), "\n") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			heading = name
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| in the paper") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		if len(cells) != 6 {
			t.Errorf("docs/papers.md:%d: %d cells, want 6", i+1, len(cells))
			continue
		}
		rows = append(rows, paperRow{i + 1, heading, cells[0], cells[1], cells[2], cells[3], cells[4],
			cells[5]})
	}
	return rows
}

// TestPapersComplete holds docs/papers.md to a row for every figure and table of every paper, and
// each row to a command, or to "no" with a reason.
func TestPapersComplete(t *testing.T) {
	have := map[string]bool{}
	for _, r := range paperRows(t) {
		if _, ok := parts[r.paper]; !ok {
			t.Errorf("docs/papers.md:%d: %q is no paper", r.line, r.paper)
		}
		for _, name := range partNames(r.part) {
			have[r.paper+" "+name] = true
		}
		reason, no := strings.CutPrefix(r.how, "no: ")
		switch {
		case no && (r.here != "" || r.ratio != "" || len(reason) < 8):
			t.Errorf("docs/papers.md:%d: figures without a command, or no reason", r.line)
		case !no && !strings.HasPrefix(r.how, "`"):
			t.Errorf("docs/papers.md:%d: neither a command nor \"no: \"", r.line)
		}
	}
	for paper, n := range parts {
		for kind, most := range map[string]int{"Figure": n.figures, "Table": n.tables} {
			for i := 1; i <= most; i++ {
				if name := fmt.Sprintf("%s %s %d", paper, kind, i); !have[name] {
					t.Errorf("docs/papers.md has no row for %s", name)
				}
				delete(have, fmt.Sprintf("%s %s %d", paper, kind, i))
			}
		}
	}
	for name := range have {
		t.Errorf("docs/papers.md has a row for %s, which there is not", name)
	}
}

// partNames takes "Figures 2, 4 to 6" and "Table 3" apart; sections have none.
func partNames(cell string) (names []string) {
	kind, list, _ := strings.Cut(cell, " ")
	kind = strings.TrimSuffix(kind, "s")
	if kind != "Figure" && kind != "Table" {
		return nil
	}
	for _, item := range strings.Split(list, ", ") {
		from, to, _ := strings.Cut(item, " to ")
		for n := ordinal(from); n <= ordinal(cmp.Or(to, from)); n++ {
			names = append(names, fmt.Sprintf("%s %d", kind, n))
		}
	}
	return names
}

// ordinal reads a number in figures, or up to V in Roman ones.
func ordinal(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	return slices.Index([]string{"", "I", "II", "III", "IV", "V"}, s)
}

var first = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)

// number returns the first number of a cell, NaN without one.
func number(cell string) float64 {
	x, err := strconv.ParseFloat(strings.ReplaceAll(first.FindString(cell), ",", ""), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// TestPapersRatios holds each ratio of docs/papers.md to the two figures beside it.
func TestPapersRatios(t *testing.T) {
	for _, r := range paperRows(t) {
		want := ""
		if ratio := number(r.here) / number(r.said); !math.IsNaN(ratio) {
			want = fmt.Sprintf("%.2f", ratio)
		}
		if r.ratio != want {
			t.Errorf("docs/papers.md:%d: ratio %q, want %q", r.line, r.ratio, want)
		}
	}
}

// simulated is a command whose figures depend on its flags alone, and where they stand: the
// beginning of a line, and the heading of a column.
var simulated = regexp.MustCompile("^`(erpc(?:-index)? sim[^`]*)`" +
	"(?:: `([^`]+)`, ([^;]+))?(; arithmetic)?$")

// TestPapersFigures holds every simulated figure of docs/papers.md to what its command prints. A
// row that names no line has one that begins as the row does, with the columns "model" and "paper".
// A row says "arithmetic" if the command gives the same from its inputs alone, and only then.
func TestPapersFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes: not with -short")
	}
	bin := build(t)
	commands := map[string][]paperRow{}
	var order []string
	for _, r := range paperRows(t) {
		m := simulated.FindStringSubmatch(r.how)
		if m == nil {
			if strings.HasPrefix(r.how, "`erpc sim") || strings.HasPrefix(r.how, "`erpc-index sim") {
				t.Errorf("docs/papers.md:%d: %s", r.line, r.how)
			}
			continue
		}
		if commands[m[1]] == nil {
			order = append(order, m[1])
		}
		commands[m[1]] = append(commands[m[1]], r)
	}
	for _, c := range order {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(c, "--threads 10") && !*papersAll {
				t.Skip("takes minutes and gigabytes: -pages.papers runs it")
			}
			words := strings.Fields(c)
			cmd := exec.CommandContext(t.Context(), filepath.Join(bin, words[0]), words[1:]...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range commands[c] {
				r.check(t, strings.Split(string(out), "\n"))
			}
		})
	}
}

// check compares a row with the output of its command.
func (r *paperRow) check(t *testing.T, out []string) {
	t.Helper()
	m := simulated.FindStringSubmatch(r.how)
	line, column := m[2], m[3]
	if line == "" {
		line, column = r.what, "model"
	}
	i := slices.IndexFunc(out, func(s string) bool {
		return strings.HasPrefix(strings.Join(strings.Fields(s), " ")+" ", line+" ")
	})
	if i < 0 {
		t.Errorf("docs/papers.md:%d: no line begins with %q", r.line, line)
		return
	}
	got := cell(out, i, column)
	value, unit, _ := strings.Cut(r.here, " ")
	if got != r.here && (got != value || !strings.HasSuffix(strings.TrimSpace(out[i]), unit)) {
		t.Errorf("docs/papers.md:%d: %s is %q, the command says %q", r.line, line, r.here, got)
	}
	said := strings.Fields(r.said)
	if len(said) > 0 && !slices.Contains(strings.Fields(out[i]), said[0]) && m[2] == "" {
		t.Errorf("docs/papers.md:%d: the paper has %q, the command says %q", r.line, r.said, out[i])
	}
	inputs := number(cell(out, i, "inputs alone"))
	same := math.Abs(number(got)/inputs-1) < .01
	if m[2] == "" && same != (m[4] != "") {
		t.Errorf("docs/papers.md:%d: %s: %s by a run, %.2f by the inputs", r.line, line, got, inputs)
	}
}

// cell returns what line i of a table has below a heading, "" if there is none.
func cell(out []string, i int, heading string) string {
	for k := i - 1; k >= 0; k-- {
		head := []rune("  " + out[k] + "  ")
		at := strings.Index(string(head), "  "+heading+"  ")
		if at < 0 {
			continue
		}
		at = len([]rune(string(head)[:at]))
		row := []rune(out[i])
		if at >= len(row) {
			return ""
		}
		text, _, _ := strings.Cut(string(row[at:]), "  ")
		return strings.TrimSpace(text)
	}
	return ""
}
