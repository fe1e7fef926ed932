package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const sourceText = `package p

const most = 8 - 1

func Free(n int) bool { return n < most }

func (t *T[K]) Grow(n int) {
	if n < 1 || n < 2 {
		t.n = n
	}
	if n < 1 || n < 2 {
		t.n = n
	}
}
`

// sourceMutants are some mutants of sourceText, as gremlins reports them.
const sourceMutants = `{"go_module": "m", "files": [{"file_name": "p.go", "mutations": [
{"type": "B", "status": "LIVED", "line": 11, "column": 7},
{"type": "B", "status": "KILLED", "line": 8, "column": 16},
{"type": "B", "status": "KILLED", "line": 8, "column": 7},
{"type": "A", "status": "NOT COVERED", "line": 8, "column": 7},
{"type": "B", "status": "TIMED OUT", "line": 5, "column": 34},
{"type": "A", "status": "LIVED", "line": 3, "column": 16}]},
{"file_name": "a.go", "mutations": [
{"type": "A", "status": "NOT VIABLE", "line": 1, "column": 1}]}]}`

// described returns the mutants of sourceMutants in p.go.
func described(t *testing.T) []mutant {
	t.Helper()
	list, err := parseReport([]byte(sourceMutants))
	if err != nil {
		t.Fatal(err)
	}
	list = list[1:] // without a.go
	read := func(string) ([]byte, error) { return []byte(sourceText), nil }
	if err := describe(list, read); err != nil {
		t.Fatal(err)
	}
	return list
}

func TestReportIsInOrderOfTheSource(t *testing.T) {
	list, err := parseReport([]byte(sourceMutants))
	if err != nil {
		t.Fatal(err)
	}
	var got []place
	for _, m := range list {
		got = append(got, m.place())
	}
	want := []place{{"a.go", 1, 1, "A"}, {"p.go", 3, 16, "A"}, {"p.go", 5, 34, "B"},
		{"p.go", 8, 7, "A"}, {"p.go", 8, 7, "B"}, {"p.go", 8, 16, "B"}, {"p.go", 11, 7, "B"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if list[0].Status != notViable || list[2].Status != timedOut {
		t.Errorf("states: %q, %q", list[0].Status, list[2].Status)
	}
	if _, err := parseReport([]byte("{")); err == nil {
		t.Error("half a report is no error")
	}
}

// TestDescribe: an operator is counted among those of its spelling in one function.
func TestDescribe(t *testing.T) {
	type description struct {
		operator
		code string
	}
	var got []description
	for _, m := range described(t) {
		got = append(got, description{m.operator, m.Code})
	}
	want := []description{
		{operator{"most", "-", 1, 1}, "const most = 8 - 1"},
		{operator{"Free", "<", 1, 1}, "func Free(n int) bool { return n < most }"},
		{operator{"T.Grow", "<", 1, 4}, "if n < 1 || n < 2 {"}, // the one of kind A
		{operator{"T.Grow", "<", 1, 4}, "if n < 1 || n < 2 {"},
		{operator{"T.Grow", "<", 2, 4}, "if n < 1 || n < 2 {"},
		{operator{"T.Grow", "<", 3, 4}, "if n < 1 || n < 2 {"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%v, want\n%v", got, want)
	}
}

func TestDescribeRefuses(t *testing.T) {
	missing := errors.New("missing")
	for name, read := range map[string]func(string) ([]byte, error){
		"missing":   func(string) ([]byte, error) { return nil, missing },
		"no Go":     func(string) ([]byte, error) { return []byte("func"), nil },
		"too short": func(string) ([]byte, error) { return []byte("package p"), nil },
		"elsewhere": func(string) ([]byte, error) { return []byte("package p\n\nvar x = 1"), nil },
	} {
		if err := describe([]mutant{{File: "p.go", Line: 3}}, read); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSettle(t *testing.T) {
	listed := func() []mutant {
		return []mutant{{File: "p.go", Line: 1, Type: "A", Status: runnable},
			{File: "p.go", Line: 2, Type: "A", Status: runnable}}
	}
	ran := listed()
	ran[0].Status, ran[1].Status = killed, lived
	list := listed()
	if err := settle(list, ran); err != nil {
		t.Fatal(err)
	}
	if list[0].Status != killed || list[1].Status != lived {
		t.Errorf("got %v", list)
	}
	if err := settle(listed(), ran[:1]); err == nil {
		t.Error("a mutant that did not run is no error")
	}
	ran[1].Line = 3
	if err := settle(listed(), ran); err == nil || !strings.Contains(err.Error(), "did not run") {
		t.Errorf("another mutant than listed: %v", err)
	}
	if err := settle(listed(), listed()); err == nil {
		t.Error("mutants that gremlins only listed are no error")
	}
}
