package main

import (
	"reflect"
	"slices"
	"testing"
)

// hundred returns mutants on 100 lines of two files, three in each seventh line and
// one in the others.
func hundred() (all []mutant) {
	for line := 1; line <= 50; line++ {
		for _, file := range []string{"b.go", "a.go"} {
			for column := range 1 + 2*(line%7/6) {
				all = append(all, mutant{File: file, Line: line, Column: column})
			}
		}
	}
	return all
}

func TestSampleLines(t *testing.T) {
	all := hundred()
	drawn := sampleLines(all, 30, 1)
	got := inSample(all, drawn)
	if len(got) < 30 || len(got) > 32 {
		t.Errorf("%d mutants, want 30 and at most the rest of a line", len(got))
	}
	whole := map[place]bool{}
	for _, m := range got {
		whole[m.place()] = true
	}
	for _, m := range all {
		if slices.Contains(drawn[m.File], m.Line) != whole[m.place()] {
			t.Errorf("line %d of %s is cut", m.Line, m.File)
		}
	}
	for file, lines := range drawn {
		if !slices.IsSorted(lines) || len(slices.Compact(slices.Clone(lines))) != len(lines) {
			t.Errorf("%s: %v", file, lines)
		}
	}
	slices.Reverse(all)
	if !reflect.DeepEqual(sampleLines(all, 30, 1), drawn) {
		t.Error("the same seed draws other lines")
	}
	if reflect.DeepEqual(sampleLines(all, 30, 2), drawn) {
		t.Error("another seed draws the same lines")
	}
}

// TestSampleLinesAreEqual: over many seeds each line is drawn about as often as others.
func TestSampleLinesAreEqual(t *testing.T) {
	all := hundred()
	count := map[place]int{}
	for seed := range uint64(1000) {
		for file, lines := range sampleLines(all, 32, seed) {
			for _, line := range lines {
				count[place{file: file, line: line}]++
			}
		}
	}
	for _, m := range all {
		if n := count[place{file: m.File, line: m.Line}]; n < 180 || n > 320 {
			t.Errorf("line %d of %s was drawn %d times in 1000, want about 250", m.Line, m.File, n)
		}
	}
}

func TestSampleOfAll(t *testing.T) {
	all := hundred()
	if got := inSample(all, sampleLines(all, len(all)+1, 1)); len(got) != len(all) {
		t.Errorf("%d of %d mutants", len(got), len(all))
	}
}

func TestMark(t *testing.T) {
	if got, want := mark("a\nb\nb\nd\n", []int{2, 4}), "a\nb \nb\nd \n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
