package main

import (
	"fmt"
	"slices"
	"strings"
)

// equivalent is one entry of a list of equivalent mutants.
type equivalent struct {
	line       int // of the entry in the list
	file, kind string
	operator
	reason string
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
		default:
			e := &list[len(list)-1]
			e.reason = strings.TrimSpace(e.reason + " " + trimmed)
		}
	}
	for _, e := range list {
		if e.reason == "" {
			return nil, fmt.Errorf("%s:%d: an entry needs a reason", name, e.line)
		}
	}
	return list, nil
}

// parseKey reads what entryKey writes.
func parseKey(s string) (e equivalent, err error) {
	parts := strings.Split(s, ": ")
	if len(parts) == 3 && strings.HasSuffix(parts[0], ".go") {
		var rest []string
		e.file, e.Func, rest = parts[0], parts[1], strings.Fields(parts[2])
		switch e.Nth, e.Of = 1, 1; len(rest) {
		case 2:
			e.kind, e.Op = rest[0], rest[1]
			return e, nil
		case 5:
			e.kind, e.Op = rest[0], rest[1]
			n, err := fmt.Sscanf(strings.Join(rest[2:], " "), "#%d of %d", &e.Nth, &e.Of)
			if n == 2 && err == nil && 1 <= e.Nth && e.Nth <= e.Of && 1 < e.Of {
				return e, nil
			}
		}
	}
	return e, fmt.Errorf("want \"file.go: Func: KIND + #n of m\", not %q", s)
}

func (e equivalent) String() string { return entryKey(e.file, e.kind, e.operator) }

// matchEquivalents finds the mutant of each entry among all mutants of the package, and
// says what is wrong with the list. The first result has the matched mutants.
func matchEquivalents(list []equivalent, all []mutant) (matched map[place]bool, wrong []string) {
	matched = map[place]bool{}
	for _, e := range list {
		i := slices.IndexFunc(all, func(m mutant) bool {
			return m.File == e.file && m.Type == e.kind && m.operator == e.operator
		})
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("stale, no such mutant: line %d: %v", e.line, e))
		case matched[all[i].place()]:
			wrong = append(wrong, fmt.Sprintf("a second time: line %d: %v", e.line, e))
		default:
			matched[all[i].place()] = true
		}
	}
	return matched, wrong
}
