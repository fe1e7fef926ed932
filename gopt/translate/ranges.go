package translate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// addVariable adds a variable that the source does not have.
func (l *lowered) addVariable(name, typ string) *variable {
	v := &variable{name: l.fresh(name), typ: typ}
	l.added = append(l.added, v)
	return v
}

// rangeStmt lowers a loop over a number, a slice or an array as one with a counter.
func (l *lowered) rangeStmt(s *ast.RangeStmt, name string) {
	loop, next, end := l.label("loop"), l.label("next"), l.label("end")
	l.within(target{name, end, next, true}, func() {
		c := l.counter(s)
		l.place(loop)
		f := newFlow()
		f.read(c.at)
		if c.list != nil {
			f.read(c.list)
		}
		stmts := c.nodes
		if c.list == nil {
			f = f.and(l.follow(stmts))
		}
		l.add(&node{flow: f, stmts: stmts, jumps: []*label{end}, text: func() string {
			return fmt.Sprintf("if %s >= %s {\ngoto %s\n}\n", c.at.name, c.end(), end.name)
		}})
		l.assignRange(s, c)
		l.block(s.Body.List, s.Body.Lbrace+1, s.Body.Rbrace)
		l.place(next)
		f = newFlow()
		f.read(c.at)
		f.writes[c.at] = true
		l.line(f, func() string { return c.at.name + "++\n" })
		l.jump(loop)
	})
}

// counter counts the turns of a lowered range.
type counter struct {
	at    *variable
	list  *variable // what is gone through; nil: the expression is evaluated again
	nodes []ast.Node
	text  func() string // of what is gone through
	end   func() string
}

// counter begins a loop: it evaluates what is gone through once, unless that is the same each time.
func (l *lowered) counter(s *ast.RangeStmt) *counter {
	t := l.info.TypeOf(s.X)
	c := &counter{nodes: []ast.Node{s.X}, text: func() string { return l.of(s.X) }}
	if !l.steady(s.X) {
		c.list = l.addVariable("list", l.typeText(t, s.X.Pos()))
		f := l.follow(c.nodes)
		f.kills[c.list], f.writes[c.list] = true, true
		f.named[c.list] = true
		l.add(&node{flow: f, stmts: c.nodes,
			text: func() string { return c.list.name + " = " + l.of(s.X) + "\n" }})
		c.nodes, c.text = nil, func() string { return c.list.name }
	}
	typ := "int"
	c.end = func() string { return "len(" + c.text() + ")" }
	if b, ok := t.Underlying().(*types.Basic); ok && b.Info()&types.IsInteger != 0 {
		c.end = c.text
		typ = l.typeText(t, s.X.Pos())
		if s.Key != nil {
			typ = l.typeText(l.info.TypeOf(s.Key), s.X.Pos())
		}
	}
	c.at = l.ownCounter(s)
	if c.at == nil {
		c.at = l.addVariable("at", typ)
	}
	f := newFlow()
	f.kills[c.at], f.writes[c.at], f.named[c.at] = true, true, true
	l.line(f, func() string { return c.at.name + " = 0\n" })
	return c
}

// ownCounter returns the loop's variable if the body does not change it.
func (l *lowered) ownCounter(s *ast.RangeStmt) *variable {
	id, ok := s.Key.(*ast.Ident)
	if !ok || s.Tok != token.DEFINE || id.Name == "_" {
		return nil
	}
	v := l.variableOf(id)
	if v == nil || l.follow([]ast.Node{s.Body}).writes[v] {
		return nil
	}
	l.typed(v)
	return v
}

// steady reports whether an expression has the same value each time: a constant, or fields of what
// all lookups share.
func (l *lowered) steady(e ast.Expr) bool {
	if l.info.Types[e].Value != nil {
		return true
	}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		v, ok := l.object(e).(*types.Var)
		return ok && l.shared[v]
	case *ast.SelectorExpr:
		return l.info.Selections[e] != nil && l.steady(e.X)
	}
	return false
}

// assignRange gives the loop's variables their values of this turn.
func (l *lowered) assignRange(s *ast.RangeStmt, c *counter) {
	set := func(e ast.Expr, value func() string, f flow) {
		id, ok := e.(*ast.Ident)
		if !ok || id.Name == "_" {
			return
		}
		v := l.variableOf(id)
		if v == nil || v == c.at {
			return
		}
		f.read(c.at)
		f.kills[v], f.writes[v], f.named[v] = true, true, true
		l.line(f, func() string { return v.name + " = " + value() + "\n" })
	}
	if s.Key != nil {
		set(s.Key, func() string { return c.at.name }, newFlow())
	}
	if s.Value == nil {
		return
	}
	f := newFlow()
	if c.list != nil {
		f.read(c.list)
	} else {
		f = l.follow(c.nodes)
	}
	set(s.Value, func() string { return c.text() + "[" + c.at.name + "]" }, f)
}

func (f flow) read(v *variable) { f.reads[v], f.named[v] = true, true }

// and adds another flow that reads.
func (f flow) and(g flow) flow {
	for v := range g.reads {
		f.read(v)
	}
	return f
}
