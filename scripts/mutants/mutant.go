package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	Func   string `json:"func"` // "Func", "Type.Method", or "-" outside of functions
	Code   string `json:"code"` // the line, without space around it
	Nth    int    `json:"nth"`  // among the mutants with the same File, Func, Type and Code
}

// place identifies a mutant as long as the file does not change.
type place struct {
	file         string
	line, column int
	kind         string
}

func (m mutant) place() place { return place{m.File, m.Line, m.Column, m.Type} }

func (m mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s #%d\n\t\t%s",
		m.File, m.Line, m.Column, m.Func, m.Type, m.Nth, m.Code)
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

// describe fills in Func, Code and Nth. The list holds all mutants of a package in order;
// read returns the source of a file.
func describe(list []mutant, read func(file string) ([]byte, error)) error {
	sources := map[string]*source{}
	type same struct{ file, fn, kind, code string }
	count := map[same]int{}
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
		if m.Line < 1 || m.Line > len(src.lines) {
			return fmt.Errorf("%s has no line %d", m.File, m.Line)
		}
		m.Func, m.Code = src.function(m.Line), strings.TrimSpace(src.lines[m.Line-1])
		key := same{m.File, m.Func, m.Type, m.Code}
		count[key]++
		m.Nth = count[key]
	}
	return nil
}

// source is one Go file.
type source struct {
	lines []string
	funcs []span
}

// span holds the lines of one function.
type span struct {
	name        string
	first, last int
}

func parseSource(name string, b []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, b, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{lines: strings.Split(string(b), "\n")}
	for _, d := range file.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			first, last := fset.Position(fn.Pos()), fset.Position(fn.End())
			s.funcs = append(s.funcs, span{funcName(fn), first.Line, last.Line})
		}
	}
	return s, nil
}

// function returns the name of the function that a line belongs to.
func (s *source) function(line int) string {
	for _, f := range s.funcs {
		if f.first <= line && line <= f.last {
			return f.name
		}
	}
	return "-"
}

// funcName returns "Func" or "Type.Method", without stars and type parameters.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.ParenExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}
