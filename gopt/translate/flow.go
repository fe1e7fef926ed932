package translate

import (
	"go/ast"
	"go/token"
	"go/types"
)

// set is a set of variables.
type set map[*variable]bool

// flow says what a part of the function does with variables.
type flow struct {
	reads  set // of what they were before
	kills  set // they have been assigned for certain
	writes set // they may have been assigned
	named  set // all that stand there
}

func newFlow() flow { return flow{set{}, set{}, set{}, set{}} }

// follow returns the flow of nodes, one behind the other.
func (f *function) follow(nodes []ast.Node) flow {
	out := newFlow()
	for i := len(nodes) - 1; i >= 0; i-- {
		one := f.mentions(nodes[i])
		for v := range one.kills {
			delete(out.reads, v)
			out.kills[v] = true
		}
		for v := range one.reads {
			out.reads[v] = true
		}
		for v := range one.writes {
			out.writes[v] = true
		}
		for v := range one.named {
			out.named[v] = true
		}
	}
	return out
}

// mentions returns the flow of one statement or expression.
func (f *function) mentions(n ast.Node) flow {
	out := newFlow()
	pure := map[*ast.Ident]bool{} // assigned and not read
	write := func(e ast.Expr, alone bool) {
		if e == nil {
			return
		}
		id, ok := ast.Unparen(e).(*ast.Ident)
		if ok && alone {
			pure[id] = true
		}
		if !ok {
			id = root(e)
		}
		if id != nil {
			if v := f.variableOf(id); v != nil {
				out.writes[v] = true
			}
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			for _, e := range s.Lhs {
				write(e, s.Tok == token.ASSIGN || s.Tok == token.DEFINE)
			}
		case *ast.IncDecStmt:
			write(s.X, false)
		case *ast.RangeStmt:
			write(s.Key, true)
			write(s.Value, true)
		case *ast.ValueSpec:
			for _, id := range s.Names {
				write(id, true)
			}
		case *ast.ReturnStmt:
			for _, v := range f.results {
				if len(s.Results) == 0 && v.obj != nil {
					out.reads[v], out.named[v] = true, true
				}
			}
		case *ast.Ident:
			if v := f.variableOf(s); v != nil {
				out.named[v] = true
				if v.taken.IsValid() {
					out.writes[v] = true
				}
				if !pure[s] {
					out.reads[v] = true
				}
			}
		}
		return true
	})
	for v := range out.reads {
		if v.obj != nil && n.Pos() <= v.obj.Pos() && v.obj.Pos() < n.End() {
			delete(out.reads, v) // it begins here
		}
	}
	f.kills(n, &out)
	return out
}

// kills finds the variables that a statement assigns for certain.
func (f *function) kills(n ast.Node, out *flow) {
	kill := func(e ast.Expr) {
		if id, ok := ast.Unparen(e).(*ast.Ident); ok {
			if v := f.variableOf(id); v != nil {
				out.kills[v] = true
			}
		}
	}
	switch s := n.(type) {
	case *ast.AssignStmt:
		if s.Tok == token.ASSIGN || s.Tok == token.DEFINE {
			for _, e := range s.Lhs {
				kill(e)
			}
		}
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for _, id := range v.Names {
					kill(id)
				}
			}
		}
	}
}

// root returns the variable that an assignment to a part of it names, or nil.
func root(e ast.Expr) *ast.Ident {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.SelectorExpr:
		return root(e.X)
	}
	return nil
}

func (f *function) variableOf(id *ast.Ident) *variable {
	v, ok := f.object(id).(*types.Var)
	if !ok {
		return nil
	}
	return f.vars[v]
}

// typed returns a variable whose type is known as text.
func (f *function) typed(v *variable) *variable {
	if v.typ == "" {
		v.typ = f.typeText(v.obj.Type(), v.obj.Pos())
	}
	return v
}

// pinned refuses a variable that moves while a pointer to it may be out.
func (f *function) pinned(v *variable) {
	if v.taken.IsValid() {
		f.refuse(v.taken, "a pointer to %s, which is used on both sides of a mark", v.name)
	}
}

// unmovable refuses constants and types of the function that are used outside of the node in which
// they are declared.
func (f *function) unmovable(places func(id *ast.Ident) int) {
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		o := f.info.Uses[id]
		switch o.(type) {
		case *types.Const, *types.TypeName:
			if o.Pos() < f.decl.Body.Pos() || o.Pos() > f.decl.Body.End() {
				return true
			}
			decl := &ast.Ident{NamePos: o.Pos()}
			if places(decl) != places(id) {
				f.refuse(id.Pos(), "%s is declared in the function and used on both sides of a mark: "+
					"declare it outside", id.Name)
			}
		}
		return true
	})
}
