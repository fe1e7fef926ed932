package lint

import (
	"go/ast"
	"slices"
	"testing"
)

// bodies are the bodies of management packets in package wire, and the functions of package erpc
// that read each: there the operation is known, and nobody can change the memory.
var bodies = map[string][]string{
	"Connect":   {"onConnect", "onOpen"},
	"Challenge": {"onDialAnswer"},
	"Accept":    {"onDialAnswer"},
	"Refuse":    {"onDialAnswer"},
	"Crypto":    {"onCrypto", "onTicket"},
	"NoKeys":    {"onNoKeys"},
	"Alive":     {"onAlive", "onAssociation", "onElsewhere", "onStranger", "answeredBy", "isPing"},
}

// senders are the functions of package erpc that look where a packet came from. Of those that take
// sealed packets only open is one: who opens a packet says who sent it, and no address does.
var senders = []string{
	"open", // and the rest takes packets in the clear, or hands packets on
	"inTheClear", "onPacket", "onMgmt", "residentOf", "onConnect", "onOtherVersion", "onSecured",
	"onCrypto", "onNoKeys", "cookie", "put", "recordRx",
}

// checkBodies keeps package erpc from reading the body of a management packet before its operation
// is known, and from believing addresses.
func checkBodies(t *tree) (bad []string) {
	for _, f := range t.dirs["erpc"] {
		if f.isTest {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			kinds := bodyVars(fn)
			ast.Inspect(fn, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				name := fn.Name.Name
				id, ok := sel.X.(*ast.Ident)
				if ok && sel.Sel.Name == "Parse" && kinds[id.Name] != "" &&
					!slices.Contains(bodies[kinds[id.Name]], name) {
					bad = append(bad, t.complaint(n.Pos(), "%s reads a wire.%s: only %v may, which know "+
						"the operation", name, kinds[id.Name], bodies[kinds[id.Name]]))
				}
				if sel.Sel.Name == "From" && !slices.Contains(senders, name) {
					bad = append(bad, t.complaint(n.Pos(), "%s looks where a packet came from: the "+
						"association that opened it says who sent it", name))
				}
				return true
			})
		}
	}
	return bad
}

// bodyVars returns the variables of a function that are such bodies, with the body's name.
func bodyVars(fn *ast.FuncDecl) map[string]string {
	kinds := map[string]string{}
	ast.Inspect(fn, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := v.Type.(*ast.SelectorExpr); ok && bodies[typ.Sel.Name] != nil {
			for _, name := range v.Names {
				kinds[name.Name] = typ.Sel.Name
			}
		}
		return true
	})
	return kinds
}

func TestCheckBodies(t *testing.T) {
	const head = "package erpc\nfunc "
	for _, tt := range []struct{ src, want string }{
		{"onOpen() { var c wire.Connect; c.Parse(b) }", ""},
		{"onMgmt() { var c wire.Connect; c.Parse(b) }", "erpc/a.go:2: onMgmt reads a wire.Connect"},
		{"onOpen() { var c, a wire.Alive; a.Parse(b) }", "onOpen reads a wire.Alive"},
		{"onMgmt() { var h wire.Header; h.Parse(b) }", ""},
		{"open() { return p.From }", ""},
		{"(e *engine) seal() { return b.pkt.From }", "seal looks where a packet came from"},
	} {
		expect(t, map[string]string{"erpc/a.go": head + tt.src}, tt.want, checkBodies)
	}
	expect(t, map[string]string{"erpc/a_test.go": head + "f() { p.From() }"}, "", checkBodies)
}
