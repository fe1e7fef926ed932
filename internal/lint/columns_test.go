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

// tagged is a field of a struct with a tag, which cannot be wrapped.
var tagged = regexp.MustCompile("^\t+\\w+ +[\\w.\\[\\]*]+ +`\\w+:\".*\"`$")

// checkColumns keeps lines of Go and Markdown short, but for those with a URL, rows of tables,
// and fields with tags. It counts the longer ones of each top-level folder.
func checkColumns(t *tree) (bad []string) {
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
	for _, top := range slices.Sorted(maps.Keys(count)) {
		bad = append(bad, fmt.Sprintf("%s: %d lines of more than %d columns: wrap them",
			top, count[top], maxColumns))
	}
	return bad
}

func TestCheckColumns(t *testing.T) {
	full := "//" + strings.Repeat("ä", maxColumns-2) + "\n"
	for text, want := range map[string]string{
		full: "", "\t" + full: "low: 1 lines", "\t" + full + "\t" + full: "low: 2 lines",
		"\t" + full + "//" + full + "// https://a" + full: "low: 2 lines",
	} {
		expect(t, map[string]string{"low/a.go": text}, want, checkColumns)
		expect(t, map[string]string{"low/b/a.md": text + "| " + full}, want, checkColumns)
	}
	tag := "`help:\"" + strings.Repeat("x", maxColumns) + "\"`"
	for text, want := range map[string]string{
		"type t struct {\n\tF []byte  " + tag + "\n}\n": "",
		"var (\n\tF = " + tag + "\n)\n":                 "low: 1 lines",
	} {
		expect(t, map[string]string{"low/a.go": text}, want, checkColumns)
	}
}
