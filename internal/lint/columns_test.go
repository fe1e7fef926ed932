package lint

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxColumns bounds the length of a line; a tab counts as one column.
const maxColumns = 100

// longLines has the number of longer lines in each top-level folder that are older than the rule.
var longLines = map[string]int{
	"raft-example": 213,
}

// tagged is a field of a struct with a tag, which cannot be wrapped.
var tagged = regexp.MustCompile("^\t+\\w+ +[\\w.\\[\\]*]+ +`\\w+:\".*\"`$")

// checkColumns keeps lines of Go and Markdown short, but for those with a URL, rows of tables,
// fields with tags, and as many others in a top-level folder as allowed has. The number must go
// down with the lines.
func checkColumns(t *tree, allowed map[string]int) (bad []string) {
	count := map[string]int{}
	add := func(name, text string) {
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\r\n")
			if utf8.RuneCountInString(line) > maxColumns && !strings.HasPrefix(line, "|") &&
				!strings.Contains(line, "://") && !tagged.MatchString(line) {
				count[firstElement(path.Dir(name))]++
			}
		}
	}
	for _, f := range t.files {
		if !f.generated {
			add(f.name, string(f.src))
		}
	}
	for name, text := range t.docs {
		add(name, text)
	}
	for top, n := range allowed {
		count[top] -= n
	}
	for _, top := range slices.Sorted(maps.Keys(count)) {
		if n := count[top]; n != 0 {
			bad = append(bad, fmt.Sprintf("%s: %+d lines of more than %d columns: wrap new ones, "+
				"or lower the number in columns_test.go", top, n, maxColumns))
		}
	}
	return bad
}

func TestCheckColumns(t *testing.T) {
	check := func(tree *tree) []string { return checkColumns(tree, map[string]int{"low": 1}) }
	full := "//" + strings.Repeat("ä", maxColumns-2) + "\n"
	for text, want := range map[string]string{
		"\t" + full: "", "\t" + full + "\t" + full: "low: +1 lines", full: "low: -1 lines",
		"\t" + full + "//" + full + "// https://a" + full: "low: +1 lines",
	} {
		expect(t, map[string]string{"low/a.go": text}, want, check)
		expect(t, map[string]string{"low/b/a.md": text + "| " + full}, want, check)
	}
	tag := "`help:\"" + strings.Repeat("x", maxColumns) + "\"`"
	for text, want := range map[string]string{
		"type t struct {\n\tF []byte  " + tag + "\n}\n": "low: -1 lines",
		"var (\n\tF = " + tag + "\n)\n":                 "",
	} {
		expect(t, map[string]string{"low/a.go": text}, want, check)
	}
}
