package translate

import (
	"go/ast"
	"go/token"
	"go/types"
)

// terminates reports whether nothing behind a statement is reached: it is a "terminating statement"
// of the Go specification, or a jump. Label is the statement's, or "".
func (f *function) terminates(s ast.Stmt, label string) bool {
	switch s := s.(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.BranchStmt:
		return s.Tok != token.FALLTHROUGH
	case *ast.BlockStmt:
		return f.listEnds(s.List)
	case *ast.IfStmt:
		return s.Else != nil && f.terminates(s.Body, "") && f.terminates(s.Else, "")
	case *ast.ForStmt:
		return s.Cond == nil && !leaves(s.Body, label, true)
	case *ast.SwitchStmt:
		return f.casesEnd(s.Body, label)
	case *ast.TypeSwitchStmt:
		return f.casesEnd(s.Body, label)
	case *ast.LabeledStmt:
		return f.terminates(s.Stmt, s.Label.Name)
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return false
		}
		id, ok := call.Fun.(*ast.Ident)
		if !ok || id.Name != "panic" {
			return false
		}
		_, ok = f.info.Uses[id].(*types.Builtin)
		return ok
	}
	return false
}

func (f *function) listEnds(list []ast.Stmt) bool {
	return len(list) > 0 && f.terminates(list[len(list)-1], "")
}

// casesEnd reports whether one of a switch's cases is taken for certain, and none is left.
func (f *function) casesEnd(body *ast.BlockStmt, label string) bool {
	whole := false
	for _, c := range body.List {
		c := c.(*ast.CaseClause)
		whole = whole || c.List == nil
		on := false
		if n := len(c.Body); n > 0 {
			b, ok := c.Body[n-1].(*ast.BranchStmt)
			on = ok && b.Tok == token.FALLTHROUGH
		}
		if !on && !f.listEnds(c.Body) {
			return false
		}
	}
	return whole && !leaves(body, label, true)
}

// leaves reports whether a break in a part of a statement leaves the statement: one without a
// label, if plain, or with this one.
func leaves(n ast.Node, label string, plain bool) (found bool) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch s := m.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt:
			if m != n && plain {
				found = found || leaves(m, label, false)
				return false
			}
		case *ast.BranchStmt:
			found = found || s.Tok == token.BREAK &&
				(s.Label == nil && plain || s.Label != nil && s.Label.Name == label)
		}
		return true
	})
	return found
}
