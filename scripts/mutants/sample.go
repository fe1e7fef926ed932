package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
)

// sampleLines draws lines at random until they hold at least n mutants, and returns their
// numbers by file, in order. The same seed draws the same lines from the same mutants.
// gremlins chooses by line, so a drawn line brings all its mutants.
func sampleLines(all []mutant, n int, seed uint64) map[string][]int {
	type line struct {
		file   string
		number int
	}
	count := map[line]int{}
	var lines []line
	for _, m := range all {
		l := line{m.File, m.Line}
		if count[l]++; count[l] == 1 {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.number, b.number))
	})
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	drawn := map[string][]int{}
	for have := 0; len(lines) > 0 && have < n; lines = lines[1:] {
		have += count[lines[0]]
		drawn[lines[0].file] = append(drawn[lines[0].file], lines[0].number)
	}
	for _, numbers := range drawn {
		slices.Sort(numbers)
	}
	return drawn
}

// mark adds a space to the end of the given lines of a text. Formatted code has no such line,
// so the smallest difference to the original has these lines as new ones and no other.
// Replacing the lines in the original would not do: a line may be equal to its neighbour.
func mark(text string, lines []int) string {
	all := strings.Split(text, "\n")
	for _, n := range lines {
		all[n-1] += " "
	}
	return strings.Join(all, "\n")
}

// inSample returns the mutants on drawn lines.
func inSample(all []mutant, lines map[string][]int) []mutant {
	return slices.DeleteFunc(slices.Clone(all), func(m mutant) bool {
		return !slices.Contains(lines[m.File], m.Line)
	})
}
