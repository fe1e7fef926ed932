package translate

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// stage has the statements between two marks.
type stage struct {
	parts []part
	stmts []ast.Node
	point *point // its end, or nil
	after string // comments behind the marks
	flow  flow
	leave bool // a lookup may return in it, although there are stages behind it
	outer bool // a return in a loop of the stage's own
}

// linear reports why the function does not fall into stages, or that it does.
func (f *function) linear() (at token.Pos, why string) {
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if f.marked[n] && why == "" {
				at, why = n.Pos(), "a mark in a loop"
			}
		case *ast.IfStmt, *ast.SwitchStmt, *ast.BlockStmt, *ast.LabeledStmt:
			if n != f.decl.Body && f.marked[n] && why == "" {
				at, why = n.Pos(), "a mark in a branch"
			}
		}
		return true
	})
	return at, why
}

// staged is the translation into stages.
type staged struct {
	*function
	list   []*stage
	arrays map[*variable]string // of what lives from stage to stage
	i, n   string               // number of a lookup, how many
	live   string               // list of lookups that are left
	left   string
	was    string
	labels string // what labels of stages begin with
}

// stages returns the text of the batched function.
func (f *function) stages() string {
	g := &staged{function: f, arrays: map[*variable]string{}}
	g.split()
	g.unmovable(g.stageOf)
	g.across()
	if f.failed() {
		return ""
	}
	g.i, g.n, g.labels = f.fresh("i"), f.fresh("n"), "stage"
	for slices.ContainsFunc(g.list, func(s *stage) bool { return f.names[g.label(s)] }) {
		g.labels = "of" + strings.ToUpper(g.labels[:1]) + g.labels[1:]
	}
	g.renamed()
	for k, s := range g.list {
		g.returns(s, k+1 == len(g.list))
		if s.leave && g.live == "" {
			g.live, g.left, g.was = f.fresh("live"), f.fresh("left"), f.fresh("was")
		}
	}
	f.rename()
	f.sortEdits()
	return g.write()
}

// failed reports whether anything has been refused.
func (f *function) failed() bool { return len(f.pkg.list) > 0 }

// split divides the body at its marks.
func (g *staged) split() {
	body := g.decl.Body
	parts := g.parts(body.List, body.Lbrace+1, body.Rbrace)
	s := &stage{}
	for i := 0; i < len(body.List); i++ {
		if !g.isMark(body.List[i]) {
			s.parts = append(s.parts, parts[i])
			s.stmts = append(s.stmts, body.List[i])
			g.labelsIn(body.List[i])
			continue
		}
		var marks []ast.Stmt
		for ; i < len(body.List) && g.isMark(body.List[i]); i++ {
			marks = append(marks, body.List[i])
			// Comments above a mark stay above, those behind it go with what follows.
			s.parts = append(s.parts, part{parts[i].from, body.List[i].Pos()})
			s.after += g.source(body.List[i].End(), parts[i].to)
		}
		i--
		s.point = g.newPoint(marks)
		g.list = append(g.list, s)
		s = &stage{}
	}
	g.list = append(g.list, s)
	for _, s := range g.list {
		nodes := s.stmts
		if s.point != nil {
			for _, m := range s.point.marks {
				nodes = append(nodes, m.arg)
			}
		}
		s.flow = g.follow(nodes)
	}
}

// stageOf returns the number of the stage in which something stands.
func (g *staged) stageOf(id *ast.Ident) int {
	for i, s := range g.list {
		if s.point == nil || id.Pos() < s.point.pos {
			return i
		}
	}
	return len(g.list)
}

// across finds the variables that live from one stage to another. A parameter that is never
// assigned is read from its slice instead.
func (g *staged) across() {
	for k, s := range g.list {
		for _, v := range g.sorted(s.flow.named) {
			if g.arrays[v] != "" || !g.later(k, v) {
				continue
			}
			g.pinned(v)
			if v.slice != "" && !g.written(v) && v.obj != nil && !g.isResult(v) {
				continue
			}
			g.typed(v)
			g.arrays[v] = g.fresh(plural(v.name))
		}
	}
}

func (g *staged) isResult(v *variable) bool {
	for _, r := range g.results {
		if r == v {
			return true
		}
	}
	return false
}

func (g *staged) later(k int, v *variable) bool {
	for _, s := range g.list[k+1:] {
		if s.flow.named[v] {
			return true
		}
	}
	return false
}

func (g *staged) before(k int, v *variable) bool {
	for _, s := range g.list[:k] {
		if s.flow.named[v] {
			return true
		}
	}
	return false
}

func (g *staged) written(v *variable) bool {
	for _, s := range g.list {
		if s.flow.writes[v] {
			return true
		}
	}
	return false
}

// returns replaces the returns of a stage by assignments.
func (g *staged) returns(s *stage, last bool) {
	for k, n := range s.stmts {
		top, _ := n.(*ast.ReturnStmt)
		g.eachReturn(n, false, func(r *ast.ReturnStmt, loop bool) {
			s.leave = s.leave || !last
			s.outer = s.outer || loop
			goOn := "continue"
			if loop {
				goOn += " " + g.label(s)
			}
			if r == top && last && k+1 == len(s.stmts) {
				goOn = ""
			}
			g.edits = append(g.edits, edit{r.Pos(), r.End(), func() string {
				return g.result(r, g.i) + goOn
			}})
		})
	}
}

func (g *staged) label(s *stage) string {
	for k := range g.list {
		if g.list[k] == s {
			return fmt.Sprintf("%s%d", g.labels, k+1)
		}
	}
	return ""
}

// eachReturn calls fn for the returns in a statement, and whether they stand in a loop of it.
func (f *function) eachReturn(n ast.Node, loop bool, fn func(r *ast.ReturnStmt, loop bool)) {
	ast.Inspect(n, func(m ast.Node) bool {
		switch s := m.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			fn(s, loop)
		case *ast.ForStmt, *ast.RangeStmt:
			if m != n || !loop {
				f.eachReturn(m, true, fn)
				return false
			}
		}
		return true
	})
}

// result returns the assignment of what a lookup returns, a line of its own.
func (f *function) result(r *ast.ReturnStmt, i string) string {
	if len(f.results) == 0 {
		return ""
	}
	var to, from []string
	for _, v := range f.results {
		to = append(to, v.slice+"["+i+"]")
		if v.name == "_" {
			from = append(from, v.zero)
		} else {
			from = append(from, v.name)
		}
	}
	text := strings.Join(from, ", ")
	if n := len(r.Results); n > 0 {
		text = f.cut(r.Results[0].Pos(), r.Results[n-1].End())
	}
	return strings.Join(to, ", ") + " = " + text + "\n"
}

// index returns an element of an array of B.
func (f *function) index(array, i string) string {
	if b := f.dir.batch; b&(b-1) == 0 {
		return fmt.Sprintf("%s[%s&%d]", array, i, b-1)
	}
	return array + "[" + i + "]"
}

func (g *staged) write() string {
	var body, list strings.Builder
	b := g.dir.batch
	first := g.own[0].slice
	for k, s := range g.list {
		body.WriteString(g.stage(k, s))
		for i := 0; s.point != nil && i < len(s.point.marks); i++ {
			if m := s.point.marks[i]; !m.kept {
				fmt.Fprintf(&list, "%s [%d]%s\n", m.list, b, m.typ)
			}
		}
	}
	var out strings.Builder
	out.WriteString(g.head(fmt.Sprintf("Up to %d lookups go through each stage together.", b)))
	out.WriteString("var (\n")
	for _, v := range g.sorted(nil) {
		if a := g.arrays[v]; a != "" {
			fmt.Fprintf(&out, "%s [%d]%s\n", a, b, v.typ)
		}
	}
	out.WriteString(list.String())
	if g.live != "" {
		fmt.Fprintf(&out, "%s [%d]uint8 // lookups that have not returned\n%s int\n", g.live, b, g.left)
	}
	out.WriteString(")\n" + g.alike())
	fmt.Fprintf(&out, "for len(%s) > 0 {\n", first)
	if g.ownMin() {
		out.WriteString(g.atMost(g.n))
	} else {
		fmt.Fprintf(&out, "%s := min(len(%s), %d)\n", g.n, first, b)
	}
	out.WriteString(body.String())
	var to, from []string
	for _, v := range append(append([]*variable(nil), g.own...), g.results...) {
		to = append(to, v.slice)
		from = append(from, v.slice+"["+g.n+":]")
	}
	out.WriteString(strings.Join(to, ", ") + " = " + strings.Join(from, ", ") + "\n}\n}\n")
	return out.String()
}

// stage returns the loop of a stage and the call that asks for addresses.
func (g *staged) stage(k int, s *stage) string {
	var b strings.Builder
	divided, last := false, s.point == nil
	if last && len(s.stmts) == 0 && strings.TrimSpace(g.comments(s)) == "" {
		return ""
	}
	for _, e := range g.list[:k] {
		divided = divided || e.leave
	}
	if divided {
		fmt.Fprintf(&b, "%s := %s\n", g.was+fmt.Sprint(k), g.left)
	}
	if (divided || s.leave) && !last {
		fmt.Fprintf(&b, "%s = 0\n", g.left)
	}
	if s.outer {
		b.WriteString(g.label(s) + ":\n")
	}
	if divided {
		fmt.Fprintf(&b, "for _, %s := range %s[:%s%d] {\n", g.i, g.live, g.was, k)
	} else {
		fmt.Fprintf(&b, "for %s := range %s[:%s] {\n", g.i, g.own[0].slice, g.n)
	}
	b.WriteString(g.loads(k, s))
	var text strings.Builder
	for _, p := range s.parts {
		text.WriteString(g.cut(p.from, p.to))
	}
	b.WriteString(strings.TrimSpace(text.String()) + "\n" + g.stores(k, s))
	at, count := g.i, g.n
	if !last && (divided || s.leave) {
		at, count = g.left, g.left
		fmt.Fprintf(&b, "%s = uint8(%s)\n", g.index(g.live, g.left), g.i)
	}
	var asks string
	for j := 0; !last && j < len(s.point.marks); j++ {
		m := &s.point.marks[j]
		if m.list = g.array(m.arg); m.list != "" && at == g.i {
			m.kept = true // the variable's own array has the addresses
		} else {
			m.list = g.fresh("lines")
			fmt.Fprintf(&b, "%s = %s\n", g.index(m.list, at), g.of(m.arg))
		}
		asks += fmt.Sprintf("%sPrefetch(%s[:%s], %s)\n", g.unit.marks, m.list, count, m.lines)
	}
	if at != g.i {
		b.WriteString(g.left + "++\n")
	}
	b.WriteString("}\n")
	if after := strings.Trim(s.after, " \t\n;"); after != "" {
		b.WriteString(after + "\n")
	}
	b.WriteString(asks)
	return b.String()
}

// comments returns the source of a stage.
func (g *staged) comments(s *stage) string {
	var b strings.Builder
	for _, p := range s.parts {
		b.WriteString(g.source(p.from, p.to))
	}
	return b.String()
}

// array returns the array of a variable that lives across a mark; "" for anything else.
func (g *staged) array(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		v := g.variableOf(id)
		if _, ok := g.info.TypeOf(e).(*types.Pointer); ok && v != nil {
			return g.arrays[v]
		}
	}
	return ""
}

// renamed gives other names to variables whose names would hide what the text behind them needs.
func (g *staged) renamed() {
	for _, v := range g.results {
		g.nameTypes(v.typ)
	}
	for _, v := range g.sorted(nil) {
		if v.obj != nil && (reserved[v.name] || g.isResult(v) && g.typeNames[v.name]) {
			v.name = g.fresh(v.name)
		}
	}
}

// loads has the variables of a stage that come from before it.
func (g *staged) loads(k int, s *stage) string {
	var b strings.Builder
	list := g.sorted(s.flow.named)
	slices.SortStableFunc(list, func(v, w *variable) int { // names of types before those of variables
		return cmp.Compare(g.order(v), g.order(w))
	})
	for _, v := range list {
		begun := g.before(k, v)
		switch {
		case g.isResult(v) && !begun:
			fmt.Fprintf(&b, "var %s %s\n", v.name, v.typ)
		case v.slice != "" && !g.isResult(v) && (!begun || g.arrays[v] == ""):
			amp := ""
			if v.values {
				amp = "&"
			}
			fmt.Fprintf(&b, "%s := %s%s[%s]\n", v.name, amp, v.slice, g.i)
		case begun && g.arrays[v] != "":
			fmt.Fprintf(&b, "%s := %s\n", v.name, g.index(g.arrays[v], g.i))
		default:
			continue
		}
		if !s.flow.reads[v] && !(g.arrays[v] != "" && g.later(k, v)) {
			fmt.Fprintf(&b, "_ = %s\n", v.name)
		}
	}
	return b.String()
}

func (g *staged) order(v *variable) int {
	if g.isResult(v) {
		return 0
	}
	return 1
}

// stores has the variables of a stage that a later one needs.
func (g *staged) stores(k int, s *stage) string {
	var b strings.Builder
	for _, v := range g.sorted(s.flow.named) {
		if g.arrays[v] != "" && g.later(k, v) && (s.flow.writes[v] || !g.before(k, v)) {
			fmt.Fprintf(&b, "%s = %s\n", g.index(g.arrays[v], g.i), v.name)
		}
	}
	return b.String()
}
