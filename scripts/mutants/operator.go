package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// operator names an operator of a file without its place, so that it keeps its name when
// lines move or are written in another way. A new operator of the kind in the same function
// changes Of, and what was said of the operators there has to be read again.
type operator struct {
	Func string `json:"func"` // "Func" or "Type.Method"; outside of functions what is declared
	Op   string `json:"op"`   // as it is written
	Nth  int    `json:"nth"`  // among the operators of File, Func and Op, from 1 on
	Of   int    `json:"of"`   // how many these are
}

// entryKey returns what an entry of a list begins with.
func entryKey(file, kind string, o operator) string {
	s := fmt.Sprintf("%s: %s: %s %s", file, o.Func, kind, o.Op)
	if o.Of > 1 {
		s += fmt.Sprintf(" #%d of %d", o.Nth, o.Of)
	}
	return s
}

// source is one Go file.
type source struct {
	lines     []string
	operators map[[2]int]operator // by line and column
}

func parseSource(name string, b []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, b, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{lines: strings.Split(string(b), "\n"), operators: map[[2]int]operator{}}
	type group struct{ fn, op string }
	places := map[group][][2]int{}
	collect := func(fn string, within ast.Node) {
		for _, t := range tokens(within) {
			p, g := fset.Position(t.pos), group{fn, t.tok.String()}
			places[g] = append(places[g], [2]int{p.Line, p.Column})
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			collect(funcName(d), d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				collect(specName(spec), spec)
			}
		}
	}
	for g, list := range places {
		for i, p := range list {
			s.operators[p] = operator{g.fn, g.op, i + 1, len(list)}
		}
	}
	return s, nil
}

// has reports whether the file has an operator of that name.
func (s *source) has(o operator) bool {
	for _, p := range s.operators {
		if p == o {
			return true
		}
	}
	return false
}

// placed is an operator at its place.
type placed struct {
	tok token.Token
	pos token.Pos
}

// tokens returns the operators below a node, in the order of the source.
func tokens(within ast.Node) (list []placed) {
	ast.Inspect(within, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			list = append(list, placed{n.Op, n.OpPos})
		case *ast.UnaryExpr:
			list = append(list, placed{n.Op, n.OpPos})
		case *ast.IncDecStmt:
			list = append(list, placed{n.Tok, n.TokPos})
		case *ast.AssignStmt:
			list = append(list, placed{n.Tok, n.TokPos})
		case *ast.BranchStmt:
			list = append(list, placed{n.Tok, n.TokPos})
		}
		return true
	})
	slices.SortFunc(list, func(a, b placed) int { return cmp.Compare(a.pos, b.pos) })
	return list
}

// specName returns the first name that a declaration outside of functions gives.
func specName(spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		return spec.Names[0].Name
	case *ast.TypeSpec:
		return spec.Name.Name
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
