package lint

import (
	"go/ast"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outputs are the functions of package os by which a file is made or emptied whoever put it there.
var outputs = []string{"Create", "WriteFile"}

// mayOutput are the folders that may call them: tests, what writes in folders of its own, and
// tools that write in this repository.
var mayOutput = []string{"scripts/", "labs/paths", "labs/raft", "raft-example/simtest",
	"transport/rawudp/vethtest", // files of /proc
	"labs/peers/link_linux.go"}  // so are these

// checkOutputs keeps the writing of files under a user's names in one place: in a folder like /tmp
// another user may have taken the name. A file that is to be new, with os.O_EXCL, may be made
// anywhere.
func checkOutputs(t *tree, rows []row) (bad []string) {
	for _, f := range t.files {
		r, _ := rowOf(rows, f.dir)
		may := f.isTest || r.traits&suite != 0 || slices.ContainsFunc(mayOutput, func(p string) bool {
			return strings.HasPrefix(f.name, p)
		})
		if may || strings.HasPrefix(f.name, "kit/outfile/") {
			continue
		}
		if !slices.ContainsFunc(f.ast.Imports, func(s *ast.ImportSpec) bool {
			p, _ := strconv.Unquote(s.Path.Value)
			return p == "os"
		}) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, isOS := osName(call.Fun)
			flags := map[string]bool{}
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					if e, ok := n.(ast.Expr); ok {
						if flag, ok := osName(e); ok {
							flags[flag] = true
						}
					}
					return true
				})
			}
			made := name == "OpenFile" && (flags["O_CREATE"] || flags["O_TRUNC"]) && !flags["O_EXCL"]
			if isOS && (made || slices.Contains(outputs, name)) {
				bad = append(bad, t.complaint(call.Pos(),
					"os.%s: kit/outfile looks whose the file is first", name))
			}
			return true
		})
	}
	return bad
}

// osName returns the name that an expression has of package os.
func osName(e ast.Expr) (string, bool) {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	id, ok := sel.X.(*ast.Ident)
	return sel.Sel.Name, ok && id.Name == "os"
}

func TestCheckOutputs(t *testing.T) {
	const use = "import \"os\"\nvar f, _ = os."
	for _, tt := range []struct{ file, src, want string }{
		{"mid/a.go", use + `Open("x")`, ""},
		{"mid/a.go", use + `Create("x")`, "mid/a.go:3: os.Create"},
		{"mid/a.go", "import \"os\"\nvar e = os.WriteFile(\"x\", nil, 0)", "os.WriteFile"},
		{"mid/a.go", use + `OpenFile("x", os.O_RDWR, 0)`, ""},
		{"mid/a.go", use + `OpenFile("x", os.O_RDWR|os.O_CREATE, 0)`, "os.OpenFile"},
		{"mid/a.go", use + `OpenFile("x", os.O_RDWR|os.O_TRUNC, 0)`, "os.OpenFile"},
		{"mid/a.go", use + `OpenFile("x", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0)`, ""},
		{"mid/a_test.go", use + `Create("x")`, ""},
		{"suite/a.go", use + `Create("x")`, ""},
		{"scripts/x/a.go", use + `Create("x")`, ""},
	} {
		expect(t, map[string]string{tt.file: tt.src}, tt.want,
			func(tree *tree) []string { return checkOutputs(tree, fakeRows) })
	}
}
