package translate

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// node is a piece of the flattened function: text that runs from its first line to its last, or
// leaves by a jump.
type node struct {
	labels []*label // before it
	text   func() string
	parts  []part // in place of text: statements as they are
	stmts  []ast.Node
	flow   flow
	jumps  []*label
	ends   bool // it does not go on to the next node
	point  *point
}

// label is a place that jumps lead to.
type label struct {
	name string
	used bool
	at   int // number of the node behind it
}

// target is where break and continue lead.
type target struct {
	name      string // of the statement's own label
	end, top  *label // top is nil outside of loops
	breakable bool   // by a break without a label
}

// lowered is the translation into a switch.
type lowered struct {
	*function
	nodes    []*node
	waiting  []*label // for the next node
	targets  []target
	done     *label
	added    []*variable
	dead     bool // nothing leads here
	counts   map[string]int
	slot     slot
	assigned map[ast.Node]bool // declarations that have become assignments
	counted  bool              // addresses of a round are counted by list
}

// label returns a label that the source does not have.
func (l *lowered) label(name string) *label {
	for {
		l.counts[name]++
		if full := fmt.Sprint(name, l.counts[name]); !l.names[full] {
			return &label{name: full}
		}
	}
}

// place puts a label before the next node.
func (l *lowered) place(x *label) {
	if x.used {
		l.dead = false
	}
	l.waiting = append(l.waiting, x)
}

// add appends a node, unless nothing leads to it.
func (l *lowered) add(n *node) {
	if l.dead {
		return
	}
	n.labels, l.waiting = l.waiting, nil
	for _, x := range n.labels {
		x.at = len(l.nodes)
	}
	for _, j := range n.jumps {
		j.used = true
	}
	l.nodes = append(l.nodes, n)
	l.dead = n.ends
}

// line appends a node of one line of text.
func (l *lowered) line(f flow, text func() string) {
	l.add(&node{flow: f, text: text})
}

func (l *lowered) jump(to *label) {
	l.add(&node{flow: newFlow(), jumps: []*label{to}, ends: true,
		text: func() string { return "goto " + to.name + "\n" }})
}

// comment keeps comments that stand between two positions.
func (l *lowered) comment(from, to token.Pos) {
	if text := strings.Trim(l.source(from, to), " \t\n;"); text != "" {
		l.line(newFlow(), func() string { return text + "\n" })
	}
}

// block lowers what stands between braces.
func (l *lowered) block(list []ast.Stmt, from, to token.Pos) {
	parts := l.parts(list, from, to)
	var run *node
	end := func() {
		if run != nil {
			run.flow = l.follow(run.stmts)
			l.add(run)
			run = nil
		}
	}
	for i := 0; i < len(list); i++ {
		s, p := list[i], parts[i]
		switch {
		case l.isMark(s):
			end()
			i = l.marksOf(list, parts, i)
		case l.marked[s]:
			end()
			l.comment(p.from, s.Pos())
			l.statement(s, "")
			l.comment(s.End(), p.to)
		default:
			jumps := l.outward(s)
			if len(jumps) > 0 {
				end()
			}
			if run == nil {
				run = &node{}
			}
			run.parts = append(run.parts, p)
			run.stmts = append(run.stmts, s)
			run.ends = l.terminates(s, "")
			if run.jumps = jumps; len(jumps) > 0 {
				end()
			}
		}
	}
	end()
}

// marksOf lowers the marks that stand together from i on, and returns the number of the last.
func (l *lowered) marksOf(list []ast.Stmt, parts []part, i int) int {
	first := i
	for i+1 < len(list) && l.isMark(list[i+1]) {
		i++
	}
	p := l.newPoint(list[first : i+1])
	p.after = l.label("after").name
	var above string
	for j := first; j <= i; j++ {
		text := l.source(parts[j].from, list[j].Pos()) + l.source(list[j].End(), parts[j].to)
		above += strings.Trim(text, " \t\n;") + "\n"
	}
	n := &node{point: p}
	for _, m := range p.marks {
		n.stmts = append(n.stmts, m.arg)
	}
	n.flow = l.follow(n.stmts)
	n.text = func() string { return strings.TrimLeft(above, "\n") }
	l.add(n)
	return i
}

// statement lowers a statement with a mark in it.
func (l *lowered) statement(s ast.Stmt, name string) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		if name == "" {
			l.block(s.List, s.Lbrace+1, s.Rbrace)
			return
		}
		end := l.label("end")
		l.within(target{name: name, end: end}, func() { l.block(s.List, s.Lbrace+1, s.Rbrace) })
	case *ast.LabeledStmt:
		l.statement(s.Stmt, s.Label.Name)
	case *ast.IfStmt:
		l.ifStmt(s, name)
	case *ast.ForStmt:
		l.forStmt(s, name)
	case *ast.RangeStmt:
		l.rangeStmt(s, name)
	case *ast.SwitchStmt:
		l.switchStmt(s, name)
	default:
		l.refuse(s.Pos(), "a mark in a statement of a kind that can't be divided")
	}
}

// within lowers what break and continue can leave, and places its end.
func (l *lowered) within(t target, fn func()) {
	l.targets = append(l.targets, t)
	fn()
	l.targets = l.targets[:len(l.targets)-1]
	l.place(t.end)
}

// simple lowers a statement without marks that stands in the head of another.
func (l *lowered) simple(s ast.Stmt) {
	if s != nil {
		nodes := []ast.Node{s}
		l.add(&node{stmts: nodes, flow: l.follow(nodes), parts: []part{{s.Pos(), s.End()}}})
	}
}

// unless jumps if a condition does not hold.
func (l *lowered) unless(cond ast.Expr, to *label) {
	nodes := []ast.Node{cond}
	l.add(&node{stmts: nodes, flow: l.follow(nodes), jumps: []*label{to}, text: func() string {
		text := "!(" + l.of(cond) + ")"
		if b, ok := ast.Unparen(cond).(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			op := map[token.Token]string{token.EQL: " != ", token.NEQ: " == "}[b.Op]
			text = l.of(b.X) + op + l.of(b.Y)
			if composite(b) {
				text = "(" + text + ")"
			}
		}
		return "if " + text + " {\ngoto " + to.name + "\n}\n"
	}})
}

// composite reports whether an expression has braces that need parentheses behind if.
func composite(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		_, ok := n.(*ast.CompositeLit)
		found = found || ok
		return true
	})
	return found
}

func (l *lowered) ifStmt(s *ast.IfStmt, name string) {
	end, other := l.label("end"), l.label("else")
	if s.Else == nil {
		other = end
	}
	l.within(target{name: name, end: end}, func() {
		l.simple(s.Init)
		l.unless(s.Cond, other)
		l.block(s.Body.List, s.Body.Lbrace+1, s.Body.Rbrace)
		switch e := s.Else.(type) {
		case nil:
			return
		case *ast.BlockStmt:
			l.jump(end)
			l.place(other)
			l.block(e.List, e.Lbrace+1, e.Rbrace)
		default:
			l.jump(end)
			l.place(other)
			if l.marked[e] {
				l.statement(e, "")
			} else {
				l.block([]ast.Stmt{e}, e.Pos(), e.End())
			}
		}
	})
}

func (l *lowered) forStmt(s *ast.ForStmt, name string) {
	loop, next, end := l.label("loop"), l.label("next"), l.label("end")
	l.within(target{name, end, next, true}, func() {
		l.simple(s.Init)
		l.place(loop)
		if s.Cond != nil {
			l.unless(s.Cond, end)
		} else {
			l.line(newFlow(), func() string { return "" })
		}
		l.block(s.Body.List, s.Body.Lbrace+1, s.Body.Rbrace)
		l.place(next)
		l.simple(s.Post)
		l.jump(loop)
	})
}

func (l *lowered) switchStmt(s *ast.SwitchStmt, name string) {
	end := l.label("end")
	l.simple(s.Init)
	head := &node{}
	if s.Tag != nil {
		head.stmts = append(head.stmts, s.Tag)
	}
	var cases []*label
	other := end
	for _, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		for _, e := range c.List {
			head.stmts = append(head.stmts, e)
		}
		x := l.label("case")
		cases = append(cases, x)
		if c.List == nil {
			other = x
		}
		head.jumps = append(head.jumps, x)
	}
	head.flow, head.ends = l.follow(head.stmts), true
	if other == end {
		head.jumps = append(head.jumps, end)
	}
	head.text = func() string { return l.switchHead(s, cases, other) }
	l.within(target{name: name, end: end, breakable: true}, func() {
		l.add(head)
		for i, c := range s.Body.List {
			l.place(cases[i])
			l.caseBody(s, i, c.(*ast.CaseClause), cases)
			l.jump(end)
		}
	})
}

// caseBody lowers the statements of a case, the last of which may be a fallthrough.
func (l *lowered) caseBody(s *ast.SwitchStmt, i int, c *ast.CaseClause, cases []*label) {
	to := s.Body.Rbrace
	if i+1 < len(s.Body.List) {
		to = s.Body.List[i+1].Pos()
	}
	list := c.Body
	if n := len(list); n > 0 {
		if b, ok := list[n-1].(*ast.BranchStmt); ok && b.Tok == token.FALLTHROUGH {
			l.block(list[:n-1], c.Colon+1, b.Pos())
			l.jump(cases[i+1])
			return
		}
	}
	l.block(list, c.Colon+1, to)
}

func (l *lowered) switchHead(s *ast.SwitchStmt, cases []*label, other *label) string {
	var b strings.Builder
	b.WriteString("switch ")
	if s.Tag != nil {
		b.WriteString(l.of(s.Tag))
	}
	b.WriteString(" {\n")
	for i, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		if c.List == nil {
			continue
		}
		b.WriteString("case " + l.cut(c.List[0].Pos(), c.List[len(c.List)-1].End()) + ":\ngoto " +
			cases[i].name + "\n")
	}
	return b.String() + "default:\ngoto " + other.name + "\n}\n"
}

// outward replaces breaks, continues and returns by jumps, and returns the labels that a statement
// without marks can jump to.
func (l *lowered) outward(s ast.Stmt) (jumps []*label) {
	inside := l.labelsIn(s)
	var walk func(n ast.Node, loop, breakable bool)
	walk = func(n ast.Node, loop, breakable bool) {
		ast.Inspect(n, func(m ast.Node) bool {
			switch x := m.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ForStmt, *ast.RangeStmt:
				if m != n {
					walk(m, true, true)
					return false
				}
			case *ast.SwitchStmt, *ast.TypeSwitchStmt:
				if m != n {
					walk(m, loop, true)
					return false
				}
			case *ast.ReturnStmt:
				l.edits = append(l.edits, edit{x.Pos(), x.End(), func() string {
					return l.result(x, l.slot.number()) + "goto " + l.done.name
				}})
			case *ast.BranchStmt:
				if to := l.branch(x, inside, loop, breakable); to != nil {
					jumps = append(jumps, to)
					l.edit(x.Pos(), x.End(), "goto "+to.name)
				}
			}
			return true
		})
	}
	loop, breakable := false, false
	x := s
	for {
		labeled, ok := x.(*ast.LabeledStmt)
		if !ok {
			break
		}
		x = labeled.Stmt
	}
	switch x.(type) {
	case *ast.ForStmt, *ast.RangeStmt:
		loop, breakable = true, true
	case *ast.SwitchStmt, *ast.TypeSwitchStmt:
		breakable = true
	}
	walk(x, loop, breakable)
	return jumps
}

// labelsIn returns the labels within a statement, and refuses a goto that leads out of it.
func (f *function) labelsIn(s ast.Node) map[types.Object]bool {
	inside := map[types.Object]bool{}
	ast.Inspect(s, func(n ast.Node) bool {
		if x, ok := n.(*ast.LabeledStmt); ok {
			inside[f.info.Defs[x.Label]] = true
		}
		return true
	})
	ast.Inspect(s, func(n ast.Node) bool {
		if x, ok := n.(*ast.BranchStmt); ok && x.Tok == token.GOTO && !inside[f.info.Uses[x.Label]] {
			f.refuse(x.Pos(), "goto %s leads out of a statement without marks", x.Label.Name)
		}
		return true
	})
	return inside
}

// branch returns where a break or a continue leads outside of its statement; nil if it stays.
func (l *lowered) branch(
	x *ast.BranchStmt, inside map[types.Object]bool, loop, breakable bool,
) *label {
	if x.Tok == token.FALLTHROUGH || x.Tok == token.GOTO ||
		x.Label != nil && inside[l.info.Uses[x.Label]] {
		return nil
	}
	if x.Label == nil && (x.Tok == token.CONTINUE && loop || x.Tok == token.BREAK && breakable) {
		return nil
	}
	for _, t := range slices.Backward(l.targets) {
		switch {
		case x.Label != nil && t.name != x.Label.Name:
		case x.Tok == token.CONTINUE && t.top != nil:
			return t.top
		case x.Tok == token.BREAK && (x.Label != nil || t.breakable):
			return t.end
		}
	}
	return nil
}
