package main

import (
	"slices"
	"strings"
	"testing"
)

const list = `# The mutants of p.

p.go: T.Grow: B #2
	if n < 1 || n < 2 {
	The second condition
	never matters.

p.go: -: A
	const most = 8 - 1
	Nothing: reads it.
`

func TestEquivalents(t *testing.T) {
	got, err := parseEquivalents("mutants.txt", list)
	if err != nil {
		t.Fatal(err)
	}
	want := []equivalent{
		{line: 3, file: "p.go", fn: "T.Grow", kind: "B", nth: 2, code: "if n < 1 || n < 2 {",
			reason: "The second condition never matters."},
		{line: 8, file: "p.go", fn: "-", kind: "A", code: "const most = 8 - 1",
			reason: "Nothing: reads it."},
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	matched, wrong := matchEquivalents(got, described(t))
	if len(wrong) != 0 {
		t.Errorf("wrong: %q", wrong)
	}
	second, outside := place{"p.go", 8, 16, "B"}, place{"p.go", 3, 16, "A"}
	if len(matched) != 2 || !matched[second] || !matched[outside] {
		t.Errorf("matched %v", matched)
	}
}

func TestEquivalentsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"\tcode":                     "mutants.txt:1: an indented line",
		"p.go: F: A\n":               "mutants.txt:1: an entry needs",
		"\np.go: F: A\n\tcode\n":     "mutants.txt:2: an entry needs",
		"p.go: F: A\n\n\tcode\n\tr":  "mutants.txt:3: an indented line",
		"p.go: A\n\tcode\n\treason":  "want \"file.go: Func: KIND #n\"",
		"p: F: A\n\tcode\n\treason":  "want \"file.go: Func: KIND #n\"",
		"p.go: F: A #0\n\tc\n\tr":    `"0" is no number`,
		"p.go: F: A #two\n\tc\n\tr":  `"two" is no number`,
		"p.go: F: A #1 \n\tc\n#\n\n": "an entry needs",
	} {
		_, err := parseEquivalents("mutants.txt", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestEquivalentsThatDoNotMatch(t *testing.T) {
	code := "if n < 1 || n < 2 {"
	good := equivalent{file: "p.go", fn: "T.Grow", kind: "B", code: code, nth: 3}
	for name, c := range map[string]struct {
		change func(*equivalent)
		want   string
	}{
		"file":   {func(e *equivalent) { e.file = "q.go" }, "stale"},
		"func":   {func(e *equivalent) { e.fn = "Free" }, "stale"},
		"kind":   {func(e *equivalent) { e.kind = "C" }, "stale"},
		"code":   {func(e *equivalent) { e.code += " //" }, "stale"},
		"number": {func(e *equivalent) { e.nth = 4 }, "stale"},
		"none":   {func(e *equivalent) { e.nth = 0 }, "from #1 to #3"},
		"twice":  {func(e *equivalent) {}, "a second time"},
	} {
		e := good
		c.change(&e)
		matched, wrong := matchEquivalents([]equivalent{good, e}, described(t))
		if len(wrong) != 1 || !strings.Contains(wrong[0], c.want) {
			t.Errorf("%s: %q, want %q", name, wrong, c.want)
		}
		if len(matched) != 1 || !matched[place{"p.go", 11, 7, "B"}] {
			t.Errorf("%s: matched %v", name, matched)
		}
	}
}
