package translate

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"math"
	"slices"
	"strings"
)

// lists gives each mark a list to put its address aside, one for the same type and number of lines.
// It returns the text of their declarations and of the calls at the end of a round. A list that
// each slot writes to in each round needs no count.
func (l *lowered) lists() (decls, counts, asks string) {
	known := map[string]*mark{}
	var order []*mark
	single := true
	for _, p := range l.points {
		single = single && len(p.marks) == 1
		for i := range p.marks {
			m := &p.marks[i]
			key := fmt.Sprint(m.typ, "|", m.lines, "|", i)
			if known[key] == nil {
				m.list = l.fresh("lines")
				known[key] = m
				order = append(order, m)
			}
			m.list = known[key].list
			m.same = known[key]
		}
	}
	l.counted = !single || len(order) > 1
	for _, m := range order {
		if l.counted {
			m.count = l.fresh("n")
		}
		decls += fmt.Sprintf("%s [%d]%s\n", m.list, l.dir.batch, m.typ)
		count := l.slot.busy
		if l.counted {
			count = m.count
			counts += count + " := 0\n"
		}
		asks += fmt.Sprintf("%sPrefetch(%s[:%s], %s)\n", l.unit.marks, m.list, count, m.lines)
	}
	return decls, counts, asks
}

// write returns the text of the function; all has its variables.
func (l *lowered) write(all []*variable) string {
	in := l.live(nil)
	stale := l.stale(all)
	stored := func(i int) set {
		out := l.behind(in, i)
		maps.DeleteFunc(out, func(v *variable, _ bool) bool { return !stale[i][v] })
		return out
	}
	now := l.live(stored)
	decls, counts, asks := l.lists()
	var body strings.Builder
	saved := set{}
	for i, n := range l.nodes {
		for _, x := range n.labels {
			if x.used {
				body.WriteString(x.name + ":\n")
			}
		}
		switch {
		case n.point != nil:
			body.WriteString(n.text() + l.turn(n.point, stored(i), l.behind(now, i), all))
			for v := range l.behind(in, i) {
				saved[v] = true
			}
		case n.text != nil:
			body.WriteString(n.text())
		default:
			body.WriteString(l.run(n))
		}
	}
	s, b := l.slot, l.dir.batch
	first := l.own[0].slice
	var out strings.Builder
	way := fmt.Sprintf("Up to %d lookups take turns, each from one mark to the next.", b)
	out.WriteString(l.head(way))
	at := "uint8"
	if len(l.points) > math.MaxUint8 {
		at = "int"
	}
	fmt.Fprintf(&out, "type %s struct {\n%s int // number of the lookup\n%s %s // mark behind "+
		"which it goes on\n%s}\n", s.typ, s.of, s.at, at, fields(l.sorted(saved)))
	fmt.Fprintf(&out, "var (\n%s [%d]%s\n%s)\n%s", s.all, b, s.typ, decls, l.alike())
	if l.ownMin() {
		fmt.Fprintf(&out, "%s := 0\n%sfor %s > 0 {\n%s", s.next, l.atMost(s.busy), s.busy, counts)
	} else {
		fmt.Fprintf(&out, "%s, %s := 0, min(len(%s), %d)\nfor %s > 0 {\n%s", s.next, s.busy, first, b,
			s.busy, counts)
	}
	fmt.Fprintf(&out, "for %s := 0; %s < %s; {\n%s := &%s\n", s.turn, s.turn, s.busy, s.one,
		l.index(s.all, s.turn))
	out.WriteString("var (\n" + fields(all) + ")\n" + l.unread(all) + "switch " + s.one + "." + s.at +
		" {\n")
	for _, n := range l.nodes {
		if n.point != nil {
			fmt.Fprintf(&out, "case %d:\ngoto %s\n", n.point.number, n.point.after)
		}
	}
	out.WriteString("}\n" + l.done.name + ":\n" + l.arrive(in[0]))
	out.WriteString(body.String())
	for _, x := range l.waiting {
		if x.used {
			out.WriteString(x.name + ":\n")
		}
	}
	if !l.dead {
		out.WriteString("goto " + l.done.name + "\n")
	}
	out.WriteString("}\n" + asks + "}\n}\n")
	return out.String()
}

// fields returns declarations of variables, one on each line.
func fields(list []*variable) string {
	var b strings.Builder
	for _, v := range list {
		b.WriteString(v.name + " " + v.typ + "\n")
	}
	return b.String()
}

// unread returns a use of each variable that the source assigns and does not read.
func (l *lowered) unread(all []*variable) string {
	var b strings.Builder
	for _, v := range all {
		if !slices.ContainsFunc(l.nodes, func(n *node) bool { return n.flow.reads[v] }) {
			fmt.Fprintf(&b, "_ = %s\n", v.name)
		}
	}
	return b.String()
}

// arrive returns the beginning of a lookup: live are the variables whose first values are read.
func (l *lowered) arrive(live set) string {
	var b strings.Builder
	s := l.slot
	fmt.Fprintf(&b, "if %s >= len(%s) {\n%s--\n%s = %s\ncontinue\n}\n", s.next, l.own[0].slice,
		s.busy, l.index(s.all, s.turn), l.index(s.all, s.busy))
	fmt.Fprintf(&b, "%s = %s\n%s++\n", s.number(), s.next, s.next)
	for _, v := range l.own {
		if live[v] {
			amp := ""
			if v.values {
				amp = "&"
			}
			fmt.Fprintf(&b, "%s = %s%s[%s]\n", v.name, amp, v.slice, s.number())
		}
	}
	for _, v := range l.results {
		if live[v] {
			fmt.Fprintf(&b, "%s = %s\n", v.name, v.zero)
		}
	}
	return b.String()
}

// turn returns the end of a lookup's turn, which stores variables, and the beginning of its next
// one, which loads some.
func (l *lowered) turn(p *point, stored, loaded set, all []*variable) string {
	var b strings.Builder
	s := l.slot
	for i := range p.marks {
		m := &p.marks[i]
		at := s.turn
		if l.counted {
			at = m.same.count
		}
		fmt.Fprintf(&b, "%s = %s\n", l.index(m.list, at), l.of(m.arg))
		if l.counted {
			b.WriteString(at + "++\n")
		}
	}
	for _, v := range all {
		if stored[v] {
			fmt.Fprintf(&b, "%s.%s = %s\n", s.one, v.name, v.name)
		}
	}
	fmt.Fprintf(&b, "%s.%s = %d\n%s++\ncontinue\n%s:\n", s.one, s.at, p.number, s.turn, p.after)
	for _, v := range all {
		if loaded[v] {
			fmt.Fprintf(&b, "%s = %s.%s\n", v.name, s.one, v.name)
		}
	}
	return b.String()
}

// run returns statements as they are, in braces if they declare something of their own.
func (l *lowered) run(n *node) string {
	var b strings.Builder
	for _, p := range n.parts {
		b.WriteString(l.cut(p.from, p.to))
	}
	text := strings.TrimSpace(b.String()) + "\n"
	declares := false
	for _, s := range n.stmts {
		switch s := s.(type) {
		case *ast.AssignStmt:
			declares = declares || s.Tok == token.DEFINE && !l.assigned[s]
		case *ast.DeclStmt:
			declares = declares || !l.assigned[s]
		}
	}
	if declares {
		return "{\n" + text + "}\n"
	}
	return text
}
