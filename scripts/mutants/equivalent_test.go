package main

import (
	"slices"
	"strings"
	"testing"
)

const list = `# The mutants of p.

p.go: T.Grow: B < #2 of 4
	The second condition
	never matters.

p.go: most: A -
	Nothing: reads it.
`

// second and outside are the operators of list.
var (
	second  = operator{"T.Grow", "<", 2, 4}
	outside = operator{"most", "-", 1, 1}
)

func TestEquivalents(t *testing.T) {
	got, err := parseEquivalents("mutants.txt", list)
	if err != nil {
		t.Fatal(err)
	}
	want := []equivalent{
		{line: 3, file: "p.go", kind: "B", operator: second,
			reason: "The second condition never matters."},
		{line: 7, file: "p.go", kind: "A", operator: outside, reason: "Nothing: reads it."},
	}
	if !slices.Equal(got, want) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	for _, e := range got {
		if again, err := parseKey(e.String()); err != nil || again.operator != e.operator {
			t.Errorf("%v is read as %v, %v", e, again, err)
		}
	}
	matched, wrong := matchEquivalents(got, described(t))
	if len(wrong) != 0 {
		t.Errorf("wrong: %q", wrong)
	}
	inside, before := place{"p.go", 8, 16, "B"}, place{"p.go", 3, 16, "A"}
	if len(matched) != 2 || !matched[inside] || !matched[before] {
		t.Errorf("matched %v", matched)
	}
}

func TestEquivalentsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"\treason":                      "mutants.txt:1: an indented line",
		"p.go: F: A <\n":                "mutants.txt:1: an entry needs",
		"\np.go: F: A <\n":              "mutants.txt:2: an entry needs",
		"p.go: F: A <\n\n\tr":           "mutants.txt:3: an indented line",
		"p.go: F: A < #1 of 2 \n#\n\n":  "an entry needs",
		"p.go: A <\n\treason":           "want \"file.go: Func: KIND",
		"p: F: A <\n\treason":           "want \"file.go: Func: KIND",
		"p.go: F: A\n\treason":          "want \"file.go: Func: KIND",
		"p.go: F: A < #1\n\tr":          "want \"file.go: Func: KIND",
		"p.go: F: A < #0 of 2\n\tr":     "want \"file.go: Func: KIND",
		"p.go: F: A < #3 of 2\n\tr":     "want \"file.go: Func: KIND",
		"p.go: F: A < #1 of 1\n\tr":     "want \"file.go: Func: KIND",
		"p.go: F: A < #two of 2\n\tr":   "want \"file.go: Func: KIND",
		"p.go: F: A < #1 of 2 x\n\tr":   "want \"file.go: Func: KIND",
		"p.go: F: A < number 1 of\n\tr": "want \"file.go: Func: KIND",
	} {
		_, err := parseEquivalents("mutants.txt", text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestEquivalentsThatDoNotMatch(t *testing.T) {
	good := equivalent{file: "p.go", kind: "B", operator: operator{"T.Grow", "<", 3, 4}}
	for name, c := range map[string]struct {
		change func(*equivalent)
		want   string
	}{
		"file":     {func(e *equivalent) { e.file = "q.go" }, "stale"},
		"func":     {func(e *equivalent) { e.Func = "Free" }, "stale"},
		"kind":     {func(e *equivalent) { e.kind = "C" }, "stale"},
		"operator": {func(e *equivalent) { e.Op = "<=" }, "stale"},
		"number":   {func(e *equivalent) { e.Nth = 4 }, "stale"}, // is no mutant
		"more":     {func(e *equivalent) { e.Of = 5 }, "stale"},
		"twice":    {func(e *equivalent) {}, "a second time"},
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
