package lint

import (
	"fmt"
	"slices"
	"strings"
)

// checkArchitecture compares ARCHITECTURE.md, once it exists, with the tree and the
// table: it names each top-level folder, and its block of lines such as
//
//	erpc -> msgbuf session transport wire
//
// has the rows of the packages that exist. An indented line goes on with the one
// before it.
func checkArchitecture(t *tree, rows []row) (bad []string) {
	text, ok := t.docs["ARCHITECTURE.md"]
	if !ok {
		return nil
	}
	for _, dir := range sortedDirs(t) {
		top := firstElement(dir) + "/"
		if complaint := "ARCHITECTURE.md does not mention " + top; dir != "." &&
			!strings.Contains(text, top) && !slices.Contains(bad, complaint) {
			bad = append(bad, complaint)
		}
	}
	want := graph(t, rows)
	block := importBlock(text)
	if block == nil {
		return append(bad, "ARCHITECTURE.md has no fenced block with the import graph; it should hold:\n"+
			strings.Join(want, "\n"))
	}
	if !slices.Equal(block, want) {
		bad = append(bad, fmt.Sprintf(
			"ARCHITECTURE.md: the import graph differs from the table.\nmissing: %q\ntoo much: %q\nIt "+
				"should hold, in any order:\n%s",
			minus(want, block), minus(block, want), strings.Join(want, "\n")))
	}
	return bad
}

// graph returns a sorted line for each row whose package exists.
func graph(t *tree, rows []row) []string {
	var lines []string
	for _, r := range rows {
		exists := false
		for dir := range t.dirs {
			own, ok := rowOf(rows, dir)
			exists = exists || ok && own.path == r.path
		}
		if exists {
			lines = append(lines, graphLine(r.path, append(slices.Clone(r.may), r.third...)))
		}
	}
	slices.Sort(lines)
	return lines
}

// graphLine writes one line in its one form: names sorted, one space between.
func graphLine(from string, to []string) string {
	to = slices.Clone(to)
	slices.Sort(to)
	if len(to) == 0 {
		to = []string{"stdlib"}
	}
	return from + " -> " + strings.Join(to, " ")
}

// importBlock returns the sorted lines of the first fenced block all of whose lines
// are arrows, or nil.
func importBlock(text string) []string {
	var lines []string
	inside, arrows := false, false
	for line := range strings.Lines(text) {
		more := strings.HasPrefix(line, "  ") && len(lines) > 0
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			if inside && arrows && len(lines) > 0 {
				slices.Sort(lines)
				return lines
			}
			inside, arrows, lines = !inside, true, nil
			continue
		}
		if !inside || line == "" {
			continue
		}
		if n := len(lines) - 1; more && arrows {
			from, to, _ := strings.Cut(lines[n], "->")
			names := append(strings.Fields(to), strings.Fields(line)...)
			lines[n] = graphLine(strings.TrimSpace(from), names)
			continue
		}
		from, to, ok := strings.Cut(line, "->")
		from = strings.TrimSpace(from)
		arrows = arrows && ok && from != "" && !strings.Contains(from, " ")
		lines = append(lines, graphLine(from, strings.Fields(to)))
	}
	return nil
}

// minus returns what is in a and not in b.
func minus(a, b []string) (rest []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
