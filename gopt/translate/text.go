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

// edit replaces a part of the source.
type edit struct {
	from, to token.Pos
	text     func() string
}

func (f *function) edit(from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{from, to, func() string { return text }})
}

// cut returns a part of the source with all edits in it. Of edits within each other the outer
// counts.
func (f *function) cut(from, to token.Pos) string {
	var b strings.Builder
	i, _ := slices.BinarySearchFunc(f.edits, from, func(e edit, at token.Pos) int {
		return cmp.Compare(e.from, at)
	})
	for ; i < len(f.edits) && f.edits[i].from < to; i++ {
		if e := f.edits[i]; e.from >= from && e.to <= to {
			b.WriteString(f.source(from, e.from))
			b.WriteString(e.text())
			from = e.to
		}
	}
	b.WriteString(f.source(from, to))
	return b.String()
}

// of returns the text of a node with all edits in it.
func (f *function) of(n ast.Node) string { return f.cut(n.Pos(), n.End()) }

// sortEdits prepares cut.
func (f *function) sortEdits() {
	slices.SortStableFunc(f.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), -cmp.Compare(a.to, b.to))
	})
}

// part is the text of statements with the comments before, between and behind them.
type part struct{ from, to token.Pos }

// parts returns where the text of each statement of a list ends, if the list lies between two
// positions: behind the comments of its last line. The last one has all that follows.
func (f *function) parts(list []ast.Stmt, from, to token.Pos) []part {
	var out []part
	for i, s := range list {
		end := s.End()
		for _, g := range f.file.Comments {
			for _, c := range g.List {
				if c.Pos() >= end && c.End() <= to &&
					f.fset.Position(c.Pos()).Line == f.fset.Position(end).Line &&
					(i+1 == len(list) || c.End() <= list[i+1].Pos()) {
					end = c.End()
				}
			}
		}
		if i+1 == len(list) {
			end = to
		} else if at := int(end) - f.start; f.text[at] == ';' {
			end++
		}
		out = append(out, part{from, end})
		from = end
	}
	return out
}

// rename has names of variables and of functions replaced in the whole function.
func (f *function) rename() {
	ast.Inspect(f.decl.Body, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		switch o := f.object(id).(type) {
		case *types.Var:
			if v := f.vars[o]; v != nil && v.name != id.Name {
				f.edit(id.Pos(), id.End(), v.name)
			}
		case *types.Func:
			if to := f.dir.with[id.Name]; to != "" {
				f.edit(id.Pos(), id.End(), to)
			}
		}
		return true
	})
}

func (f *function) object(id *ast.Ident) types.Object {
	if o := f.info.Defs[id]; o != nil {
		return o
	}
	return f.info.Uses[id]
}

// parameters returns the text between the parentheses of the batched function.
func (f *function) parameters() string {
	var list []string
	at := 0
	for _, field := range f.decl.Type.Params.List {
		for _, id := range field.Names {
			typ := f.source(field.Type.Pos(), field.Type.End())
			if o, ok := f.info.Defs[id].(*types.Var); ok && f.shared[o] {
				list = append(list, id.Name+" "+typ)
				continue
			}
			v := f.own[at]
			at++
			if v.values {
				typ = strings.TrimSpace(strings.TrimPrefix(typ, "*"))
			}
			list = append(list, v.slice+" []"+typ)
		}
	}
	for _, v := range f.results {
		list = append(list, v.slice+" []"+v.typ)
	}
	return strings.Join(list, ", ")
}

// head returns comment and signature of the batched function.
func (f *function) head(way string) string {
	var b strings.Builder
	name := f.decl.Name.Name
	b.WriteString("// " + f.dir.name + " is " + name + " for each of " + f.own[0].slice)
	if len(f.results) > 0 {
		b.WriteString(", whose results are at the same places of ")
		for i, v := range f.results {
			switch {
			case i > 0 && i == len(f.results)-1:
				b.WriteString(" and ")
			case i > 0:
				b.WriteString(", ")
			}
			b.WriteString(v.slice)
		}
	}
	b.WriteString(".\n// " + way + "\nfunc ")
	if f.decl.Recv != nil {
		b.WriteString(f.source(f.decl.Recv.Pos(), f.decl.Recv.End()) + " ")
	}
	b.WriteString(f.dir.name)
	if p := f.decl.Type.TypeParams; p != nil {
		b.WriteString(f.source(p.Pos(), p.End()))
	}
	b.WriteString("(" + f.parameters() + ") {\n")
	return b.String()
}

// ownMin reports whether the package has its own min.
func (f *function) ownMin() bool { return f.types.Scope().Lookup("min") != nil }

// atMost declares a variable that has the number of lookups, at most a batch, without Go's min.
func (f *function) atMost(name string) string {
	return fmt.Sprintf("%s := len(%s)\nif %s > %d {\n%s = %d\n}\n", name, f.own[0].slice, name,
		f.dir.batch, name, f.dir.batch)
}

// alike makes all slices as long as the first one.
func (f *function) alike() string {
	var b strings.Builder
	for _, v := range append(slices.Clone(f.own), f.results...)[1:] {
		b.WriteString(v.slice + " = " + v.slice + "[:len(" + f.own[0].slice + ")]\n")
	}
	return b.String()
}
