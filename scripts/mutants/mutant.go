package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The states of a mutant, in the words of gremlins.
const (
	killed     = "KILLED"
	lived      = "LIVED"
	timedOut   = "TIMED OUT"
	notCovered = "NOT COVERED"
	notViable  = "NOT VIABLE"
	skipped    = "SKIPPED"
	runnable   = "RUNNABLE"
)

// mutant is one change of one operator.
type mutant struct {
	File   string `json:"-"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Type   string `json:"type"`
	Status string `json:"status"`
	operator
	Code string `json:"code"` // the line, without space around it
}

// place identifies a mutant as long as the file does not change.
type place struct {
	file         string
	line, column int
	kind         string
}

func (m mutant) place() place { return place{m.File, m.Line, m.Column, m.Type} }

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d\n\t\t%s\n\t\t%s", m.File, m.Line, m.Column,
		entryKey(m.File, m.Type, m.operator), m.Code)
}

// parseReport reads the report of gremlins. The mutants come in the order of the source.
func parseReport(b []byte) ([]mutant, error) {
	var report struct {
		Files []struct {
			Name      string   `json:"file_name"`
			Mutations []mutant `json:"mutations"`
		} `json:"files"`
	}
	if err := json.Unmarshal(b, &report); err != nil {
		return nil, fmt.Errorf("the report of gremlins: %w", err)
	}
	var list []mutant
	for _, f := range report.Files {
		for _, m := range f.Mutations {
			m.File = f.Name
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b mutant) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Type, b.Type))
	})
	return list, nil
}

// describe fills in operators and lines of code. The list holds mutants of a package; read
// returns the source of a file.
func describe(list []mutant, read func(file string) ([]byte, error)) error {
	sources := map[string]*source{}
	for i := range list {
		m := &list[i]
		src := sources[m.File]
		if src == nil {
			b, err := read(m.File)
			if err != nil {
				return err
			}
			if src, err = parseSource(m.File, b); err != nil {
				return err
			}
			sources[m.File] = src
		}
		op, ok := src.operators[[2]int{m.Line, m.Column}]
		if !ok {
			return fmt.Errorf("%s:%d:%d: no operator", m.File, m.Line, m.Column)
		}
		m.operator, m.Code = op, strings.TrimSpace(src.lines[m.Line-1])
	}
	return nil
}
