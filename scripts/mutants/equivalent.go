package main

import (
	"fmt"
	"strconv"
	"strings"
)

// equivalent is one entry of a list of equivalent mutants.
type equivalent struct {
	line                 int // of the entry in the list
	file, fn, kind, code string
	nth                  int // 0: the only one
	reason               string
}

// parseEquivalents reads a list, in the form that the package comment describes. The name
// of the list is for errors.
func parseEquivalents(name, text string) ([]equivalent, error) {
	var list []equivalent
	open := false
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "":
			open = false
		case line[0] == '#':
		case line[0] != ' ' && line[0] != '\t':
			e, err := parseKey(trimmed)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", name, i+1, err)
			}
			e.line, open = i+1, true
			list = append(list, e)
		case !open:
			return nil, fmt.Errorf("%s:%d: an indented line without an entry above it", name, i+1)
		case list[len(list)-1].code == "":
			list[len(list)-1].code = trimmed
		default:
			e := &list[len(list)-1]
			e.reason = strings.TrimSpace(e.reason + " " + trimmed)
		}
	}
	for _, e := range list {
		if e.code == "" || e.reason == "" {
			return nil, fmt.Errorf("%s:%d: an entry needs a line of code and a reason", name, e.line)
		}
	}
	return list, nil
}

// parseKey reads "file.go: Func: KIND" or "file.go: Func: KIND #2".
func parseKey(s string) (e equivalent, err error) {
	parts := strings.Split(s, ": ")
	if len(parts) != 3 || !strings.HasSuffix(parts[0], ".go") {
		return e, fmt.Errorf("want \"file.go: Func: KIND #n\", not %q", s)
	}
	kind, nth, numbered := strings.Cut(parts[2], " #")
	if numbered {
		if e.nth, err = strconv.Atoi(nth); err != nil || e.nth < 1 {
			return e, fmt.Errorf("%q is no number of a mutant", nth)
		}
	}
	e.file, e.fn, e.kind = parts[0], parts[1], kind
	return e, nil
}

func (e equivalent) String() string {
	s := e.file + ": " + e.fn + ": " + e.kind
	if e.nth > 0 {
		s += " #" + strconv.Itoa(e.nth)
	}
	return s + ": " + e.code
}

// matchEquivalents finds the mutant of each entry among all mutants of the package, and
// says what is wrong with the list. The first result has the matched mutants.
func matchEquivalents(list []equivalent, all []mutant) (matched map[place]bool, wrong []string) {
	matched = map[place]bool{}
	for _, e := range list {
		var found []mutant
		for _, m := range all {
			if m.File == e.file && m.Func == e.fn && m.Type == e.kind && m.Code == e.code &&
				(e.nth == 0 || e.nth == m.Nth) {
				found = append(found, m)
			}
		}
		switch {
		case len(found) == 0:
			wrong = append(wrong, fmt.Sprintf("stale, no such mutant: line %d: %v", e.line, e))
		case len(found) > 1:
			wrong = append(wrong, fmt.Sprintf("needs a number from #1 to #%d: line %d: %v",
				len(found), e.line, e))
		case matched[found[0].place()]:
			wrong = append(wrong, fmt.Sprintf("a second time: line %d: %v", e.line, e))
		default:
			matched[found[0].place()] = true
		}
	}
	return matched, wrong
}
