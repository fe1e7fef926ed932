package translate

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// slot has the names of what the generated text adds.
type slot struct {
	typ, all, one, of, at string // the struct, the array of them, one of them, its own fields
	next, busy, turn      string // next lookup, slots in use, one of them
}

// number returns the number of the lookup that a slot has.
func (s slot) number() string { return s.one + "." + s.of }

// switched returns the text of the batched function.
func (f *function) switched() string {
	l := &lowered{function: f, counts: map[string]int{}, assigned: map[ast.Node]bool{},
		done: &label{name: f.fresh("begin")}}
	l.slot = slot{typ: f.fresh("lookup"), all: f.fresh("lookups"), one: f.fresh("s"),
		of: f.fresh("of"), at: f.fresh("at"), next: f.fresh("next"), busy: f.fresh("busy"),
		turn: f.fresh("j")}
	l.line(newFlow(), func() string { return "" })
	l.block(f.decl.Body.List, f.decl.Body.Lbrace+1, f.decl.Body.Rbrace)
	l.done.at = len(l.nodes)
	for _, x := range l.waiting {
		x.at = len(l.nodes)
	}
	l.unmovable(l.nodeOf)
	h := l.hoist()
	if l.failed() {
		return ""
	}
	l.rename()
	l.sortEdits()
	return l.write(h)
}

// nodeOf returns the number of the node in which something stands.
func (l *lowered) nodeOf(id *ast.Ident) int {
	for i, n := range l.nodes {
		for _, s := range n.stmts {
			if s.Pos() <= id.Pos() && id.Pos() < s.End() {
				return i
			}
		}
	}
	return -1
}

// hoist finds the variables that belong to more than one node, which are declared before all of
// them, and makes assignments of their declarations.
func (l *lowered) hoist() []*variable {
	out := set{}
	seen := set{}
	for _, n := range l.nodes {
		for v := range n.flow.named {
			if seen[v] || v.slice != "" || v.obj == nil {
				out[v] = true
			}
			seen[v] = true
		}
	}
	for before := -1; before < len(out); {
		before = len(out)
		l.eachDeclared(func(group []*variable, _ ast.Node) {
			if slices.ContainsFunc(group, func(v *variable) bool { return out[v] }) {
				for _, v := range group {
					out[v] = true
				}
			}
		})
	}
	l.eachDeclared(func(group []*variable, n ast.Node) {
		if len(group) > 0 && out[group[0]] {
			l.assign(n)
		}
	})
	list := l.sorted(out)
	for _, v := range list {
		if v.obj != nil {
			l.pinned(v)
			l.nameTypes(l.typed(v).typ)
		}
	}
	for i, v := range list {
		if v.obj != nil && l.ambiguous(v, list[:i]) {
			v.name = l.fresh(v.name)
		}
	}
	return list
}

// eachDeclared calls fn for all statements of nodes that declare variables, and these.
func (l *lowered) eachDeclared(fn func(group []*variable, n ast.Node)) {
	for _, n := range l.nodes {
		if n.parts == nil {
			continue
		}
		for _, s := range n.stmts {
			var ids []ast.Expr
			switch s := s.(type) {
			case *ast.AssignStmt:
				if s.Tok == token.DEFINE {
					ids = s.Lhs
				}
			case *ast.DeclStmt:
				for _, spec := range s.Decl.(*ast.GenDecl).Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						for _, id := range v.Names {
							ids = append(ids, id)
						}
					}
				}
			}
			var group []*variable
			for _, e := range ids {
				if v := l.variableOf(e.(*ast.Ident)); v != nil {
					group = append(group, v)
				}
			}
			fn(group, s)
		}
	}
}

// assign makes assignments of a declaration.
func (l *lowered) assign(n ast.Node) {
	l.assigned[n] = true
	if s, ok := n.(*ast.AssignStmt); ok {
		l.edit(s.TokPos, s.TokPos+2, "=")
		return
	}
	decl := n.(*ast.DeclStmt).Decl.(*ast.GenDecl)
	l.edit(decl.Pos(), decl.Specs[0].Pos(), "")
	if decl.Rparen.IsValid() {
		l.edit(decl.Rparen, decl.Rparen+1, "")
	}
	for _, spec := range decl.Specs {
		v := spec.(*ast.ValueSpec)
		to := v.End()
		if len(v.Values) > 0 {
			to = v.Values[0].Pos()
		}
		l.edits = append(l.edits, edit{v.Pos(), to, func() string {
			var names, zeros []string
			for _, id := range v.Names {
				name := "_"
				if x := l.variableOf(id); x != nil {
					name = x.name
				}
				names = append(names, name)
				if t := l.info.TypeOf(id); t != nil {
					zeros = append(zeros, zero(t, l.typeText(t, id.Pos())))
				}
			}
			text := strings.Join(names, ", ") + " = "
			if len(v.Values) == 0 {
				text += strings.Join(zeros, ", ")
			}
			return text
		}})
	}
}

// ambiguous reports whether the name of a variable means something else elsewhere.
func (l *lowered) ambiguous(v *variable, before []*variable) bool {
	for _, w := range before {
		if w.name == v.name {
			return true
		}
	}
	if reserved[v.name] {
		return true
	}
	if v.slice != "" {
		return l.typeNames[v.name]
	}
	found := slices.ContainsFunc(l.added, func(w *variable) bool { return w.name == v.name })
	ast.Inspect(l.decl, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || id.Name != v.name {
			return true
		}
		o := l.object(id)
		if w, ok := o.(*types.Var); ok && w.IsField() {
			return true
		}
		found = found || o != nil && o != v.obj && !l.ofLookup(o)
		return true
	})
	return found || l.typeNames[v.name]
}

// ofLookup reports whether an object is a variable of the function that a lookup has for itself.
func (l *lowered) ofLookup(o types.Object) bool {
	v, ok := o.(*types.Var)
	return ok && l.local(v) && !l.shared[v]
}

// next returns the numbers of the nodes that may follow one.
func (l *lowered) next(i int) []int {
	var out []int
	if !l.nodes[i].ends && i+1 < len(l.nodes) {
		out = append(out, i+1)
	}
	for _, j := range l.nodes[i].jumps {
		if j.at < len(l.nodes) {
			out = append(out, j.at)
		}
	}
	return out
}

// live returns the variables that are read behind the beginning of each node. With stored it
// returns those of them that are read before the lookup's next turn: a mark reads what it stores,
// and ends the rest.
func (l *lowered) live(stored func(i int) set) []set {
	in := make([]set, len(l.nodes))
	for i := range in {
		in[i] = set{}
	}
	for changed := true; changed; {
		changed = false
		add := func(i int, v *variable) {
			changed = changed || !in[i][v]
			in[i][v] = true
		}
		for i, n := range slices.Backward(l.nodes) {
			for v := range n.flow.reads {
				add(i, v)
			}
			behind := l.behind(in, i)
			if stored != nil && n.point != nil {
				behind = stored(i)
			}
			for v := range behind {
				if !n.flow.kills[v] {
					add(i, v)
				}
			}
		}
	}
	return in
}

// behind returns the variables that are read behind the end of node i.
func (l *lowered) behind(in []set, i int) set {
	out := set{}
	for _, j := range l.next(i) {
		for v := range in[j] {
			out[v] = true
		}
	}
	return out
}

// stale returns the variables that are not in the slot as they are, before each node.
func (l *lowered) stale(all []*variable) []set {
	out := make([]set, len(l.nodes))
	for i := range out {
		out[i] = set{}
	}
	for _, v := range all {
		out[0][v] = true
	}
	for changed := true; changed; {
		changed = false
		for i, n := range l.nodes {
			for _, v := range all {
				// What is read behind a mark has been stored there, and the rest must be written first.
				after := n.point == nil && (out[i][v] || n.flow.writes[v])
				for _, j := range l.next(i) {
					changed = changed || after && !out[j][v]
					out[j][v] = out[j][v] || after
				}
			}
		}
	}
	return out
}
