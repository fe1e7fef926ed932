package translate

import (
	"go/ast"
	"go/token"
	"go/types"
)

// subset refuses what is outside the subset wherever it stands in the function.
func (f *function) subset() {
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.DeferStmt:
			f.refuse(s.Pos(), "defer: the end of a lookup is not the end of the function")
		case *ast.GoStmt:
			f.refuse(s.Pos(), "go: lookups of a batch run in one goroutine")
		case *ast.SelectStmt:
			f.refuse(s.Pos(), "select: a lookup may not wait for others")
		case *ast.SendStmt:
			f.refuse(s.Arrow, "a send writes to shared data")
		case *ast.FuncLit:
			f.literal(s)
			return false
		case *ast.RangeStmt:
			f.rangeKinds(s)
		case *ast.TypeSwitchStmt:
			if f.marked[s] {
				f.refuse(s.Pos(), "a type switch with a mark in it")
			}
		case *ast.AssignStmt:
			for _, e := range s.Lhs {
				f.writes(e)
			}
		case *ast.IncDecStmt:
			f.writes(s.X)
		case *ast.CallExpr:
			f.builtin(s)
		case *ast.UnaryExpr:
			switch s.Op {
			case token.AND:
				f.addressed(s.X)
			case token.ARROW:
				f.refuse(s.Pos(), "a receive takes from shared data")
			}
		case *ast.SliceExpr:
			if _, ok := f.info.TypeOf(s.X).Underlying().(*types.Array); ok {
				f.addressed(s.X)
			}
		case *ast.SelectorExpr:
			f.method(s)
		case *ast.Ident:
			f.enter(s)
		}
		return true
	})
}

// enter makes a local variable of the body known.
func (f *function) enter(id *ast.Ident) {
	v, ok := f.info.Defs[id].(*types.Var)
	if ok && !v.IsField() && f.vars[v] == nil && id.Name != "_" {
		f.vars[v] = &variable{obj: v, name: id.Name}
	}
}

// literal refuses a function literal that uses what belongs to the function.
func (f *function) literal(lit *ast.FuncLit) {
	ast.Inspect(lit, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		v, ok := f.info.Uses[id].(*types.Var)
		if ok && f.local(v) && (v.Pos() < lit.Pos() || v.Pos() >= lit.End()) {
			f.refuse(id.Pos(), "a function literal uses %s, which belongs to the lookup", id.Name)
		}
		return true
	})
}

// rangeKinds refuses loops that cannot be left and entered again.
func (f *function) rangeKinds(s *ast.RangeStmt) {
	for _, e := range []ast.Expr{s.Key, s.Value} {
		if e != nil && s.Tok == token.ASSIGN {
			f.writes(e)
		}
	}
	var what string
	switch t := f.info.TypeOf(s.X).Underlying().(type) {
	case *types.Signature:
		f.refuse(s.Pos(), "range over a function")
		return
	case *types.Chan:
		f.refuse(s.Pos(), "a range over a channel takes from shared data")
		return
	case *types.Map:
		what = "a map"
	case *types.Basic:
		if t.Info()&types.IsString != 0 {
			what = "a string"
		}
	case *types.Array:
		if id, ok := s.Value.(*ast.Ident); s.Value != nil && !(ok && id.Name == "_") {
			what = "an array by value: take its address"
		}
	case *types.Slice, *types.Pointer:
	default:
		what = "a value of a type parameter"
	}
	if !f.marked[s] {
		return
	}
	if what != "" {
		f.refuse(s.Pos(), "with a mark in it: range over %s", what)
	}
	for _, e := range []ast.Expr{s.Key, s.Value} {
		if _, ok := e.(*ast.Ident); e != nil && !ok {
			f.refuse(e.Pos(), "with a mark in it: range into something else than a variable")
		}
	}
}

// builtin refuses calls that write to shared data, and recover.
func (f *function) builtin(call *ast.CallExpr) {
	id, ok := ast.Unparen(call.Fun).(*ast.Ident)
	if !ok {
		return
	}
	if _, ok := f.info.Uses[id].(*types.Builtin); !ok || len(call.Args) == 0 && id.Name != "recover" {
		return
	}
	switch id.Name {
	case "recover":
		f.refuse(call.Pos(), "recover: there is no deferred call")
	case "append", "delete", "close":
		f.refuse(call.Pos(), "%s may write to shared data", id.Name)
	case "copy", "clear":
		s, ok := ast.Unparen(call.Args[0]).(*ast.SliceExpr)
		if !ok || !f.belongs(s.X) {
			f.refuse(call.Pos(), "%s may write to shared data: only the slice of a local array is sure "+
				"to be the lookup's own", id.Name)
		}
	}
}

// writes refuses an assignment to what does not belong to the lookup.
func (f *function) writes(e ast.Expr) {
	e = ast.Unparen(e)
	if id, ok := e.(*ast.Ident); ok {
		v, ok := f.object(id).(*types.Var)
		switch {
		case id.Name == "_" || !ok:
		case f.shared[v]:
			f.refuse(id.Pos(), "a write to %s, which all lookups share: copy it to a variable first",
				id.Name)
		case !f.local(v):
			f.refuse(id.Pos(), "a write to shared data: %s belongs to the package", id.Name)
		case f.isValue(id):
			f.refuse(id.Pos(), "a write to %s, which points at the lookup's own value: copy it to a "+
				"variable first", id.Name)
		}
		return
	}
	if !f.belongs(e) {
		f.refuse(e.Pos(), "a write to shared data: %s", f.source(e.Pos(), e.End()))
	}
}

// belongs reports whether a place in memory is a part of a local variable, or of what a parameter
// with values points at.
func (f *function) belongs(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, ok := f.object(e).(*types.Var)
		return ok && f.local(v) && !f.shared[v]
	case *ast.IndexExpr:
		_, ok := f.info.TypeOf(e.X).Underlying().(*types.Array)
		return ok && f.belongs(e.X)
	case *ast.StarExpr:
		return f.isValue(e.X)
	case *ast.SelectorExpr:
		s := f.info.Selections[e]
		if s == nil {
			return false
		}
		if s.Indirect() {
			return len(s.Index()) == 1 && f.isValue(e.X)
		}
		return f.belongs(e.X)
	}
	return false
}

// isValue reports whether e is a parameter with values.
func (f *function) isValue(e ast.Expr) bool {
	id, ok := ast.Unparen(e).(*ast.Ident)
	if !ok {
		return false
	}
	o, ok := f.object(id).(*types.Var)
	return ok && f.vars[o] != nil && f.vars[o].values
}

// method notes the variable whose address a method gets.
func (f *function) method(e *ast.SelectorExpr) {
	s := f.info.Selections[e]
	if s == nil || s.Kind() != types.MethodVal {
		return
	}
	recv := s.Obj().(*types.Func).Signature().Recv()
	if _, ok := recv.Type().(*types.Pointer); !ok || s.Indirect() {
		return
	}
	if _, ok := f.info.TypeOf(e.X).Underlying().(*types.Pointer); !ok {
		f.addressed(e.X)
	}
}

// addressed notes the variable that a pointer will lead to.
func (f *function) addressed(e ast.Expr) {
	for {
		switch x := ast.Unparen(e).(type) {
		case *ast.Ident:
			v, ok := f.object(x).(*types.Var)
			switch {
			case !ok || !f.local(v):
			case f.shared[v]:
				f.refuse(x.Pos(), "a pointer to %s, which all lookups share: copy it to a variable first",
					x.Name)
			default:
				if w := f.enterUse(v); !w.taken.IsValid() {
					w.taken = x.Pos()
				}
			}
			return
		case *ast.IndexExpr:
			if _, ok := f.info.TypeOf(x.X).Underlying().(*types.Array); !ok {
				return
			}
			e = x.X
		case *ast.SelectorExpr:
			if s := f.info.Selections[x]; s == nil || s.Indirect() {
				return
			}
			e = x.X
		default:
			return
		}
	}
}

func (f *function) enterUse(v *types.Var) *variable {
	if f.vars[v] == nil {
		f.vars[v] = &variable{obj: v, name: v.Name()}
	}
	return f.vars[v]
}
