package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// tally counts the mutants of a file or a package. The columns are disjoint: equivalent
// mutants are not among those that lived or were not covered.
type tally struct {
	killed, lived, timedOut, notCovered, equivalent int
	notViable                                       int // counts nowhere
}

func (t tally) mutants() int {
	return t.killed + t.lived + t.timedOut + t.notCovered + t.equivalent
}

// score returns the killed per cent of those not equivalent, and 100 if there are none.
func (t tally) score() float64 {
	n := t.mutants() - t.equivalent
	if n == 0 {
		return 100
	}
	return 100 * float64(t.killed+t.timedOut) / float64(n)
}

func (t *tally) add(o tally) {
	t.killed += o.killed
	t.lived += o.lived
	t.timedOut += o.timedOut
	t.notCovered += o.notCovered
	t.equivalent += o.equivalent
	t.notViable += o.notViable
}

// verdict is the outcome for one package.
type verdict struct {
	files     map[string]tally
	total     tally
	survivors []mutant // not killed and not equivalent
	wrong     []string // what is wrong with the list of equivalents
}

// judge counts the mutants that ran. The equivalents were matched by matchEquivalents.
func judge(ran []mutant, equivalents map[place]bool) verdict {
	v := verdict{files: map[string]tally{}}
	for _, m := range ran {
		t := v.files[m.File]
		listed := equivalents[m.place()]
		switch {
		case m.Status == notViable:
			t.notViable++
		case listed && (m.Status == killed || m.Status == timedOut):
			v.wrong = append(v.wrong, fmt.Sprintf("%s, not equivalent: %v", strings.ToLower(m.Status), m))
		case listed:
			t.equivalent++
		case m.Status == timedOut:
			t.timedOut++
		case m.Status == killed:
			t.killed++
		case m.Status == notCovered:
			t.notCovered++
			v.survivors = append(v.survivors, m)
		default:
			t.lived++
			v.survivors = append(v.survivors, m)
		}
		v.files[m.File] = t
	}
	for _, t := range v.files {
		v.total.add(t)
	}
	return v
}

// table writes one row per file and one for the package.
func (v verdict) table(name string) string {
	names := make([]string, 0, len(v.files))
	width := len(name)
	for file := range v.files {
		names = append(names, file)
		width = max(width, len(file))
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	var b strings.Builder
	const heads = "mutants  killed  lived  timed out  not covered  equivalent   score"
	fmt.Fprintf(&b, "%-*s  %s\n", width, "", heads)
	row := func(name string, t tally) {
		fmt.Fprintf(&b, "%-*s  %7d  %6d  %5d  %9d  %11d  %10d  %5.1f%%\n", width, name,
			t.mutants(), t.killed, t.lived, t.timedOut, t.notCovered, t.equivalent, t.score())
	}
	for _, file := range names {
		row(file, v.files[file])
	}
	row(name, v.total)
	if n := v.total.notViable; n > 0 {
		fmt.Fprintf(&b, "%d more do not compile\n", n)
	}
	return b.String()
}
