package translate

import (
	"go/ast"
	"go/token"
	"go/types"
	"strconv"
	"strings"
)

const directiveWord = "//gopt:batch"

// directive has the settings in the comment above a function.
type directive struct {
	batch   int
	name    string
	shared  []string
	values  []string
	with    map[string]string
	backend string // stages, switch, or empty
}

func isDirective(c *ast.Comment) bool {
	return c.Text == directiveWord || strings.HasPrefix(c.Text, directiveWord+" ")
}

// directiveOf returns the directive of a function, or nil.
func directiveOf(decl *ast.FuncDecl) *ast.Comment {
	if decl.Doc == nil {
		return nil
	}
	for _, c := range decl.Doc.List {
		if isDirective(c) {
			return c
		}
	}
	return nil
}

// readDirective returns what a comment asks for; unknown words are refused.
func readDirective(u *unit, decl *ast.FuncDecl, c *ast.Comment) directive {
	d := directive{batch: 32, name: decl.Name.Name + "Batch", with: map[string]string{}}
	seen := map[string]bool{}
	text, _, _ := strings.Cut(strings.TrimPrefix(c.Text, directiveWord), " //")
	for _, word := range strings.Fields(text) {
		key, value, ok := strings.Cut(word, "=")
		bad := !ok || value == "" || seen[key]
		seen[key] = true
		switch key {
		case "B":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > 256 {
				u.refuse(c.Pos(), "B=%s: a batch has 1 to 256 lookups", value)
			}
			d.batch = n
		case "name":
			d.name = value
			bad = bad || !token.IsIdentifier(value)
		case "shared":
			d.shared = strings.Split(value, ",")
		case "values":
			d.values = strings.Split(value, ",")
		case "backend":
			d.backend = value
			bad = bad || value != "stages" && value != "switch"
		case "with":
			for _, pair := range strings.Split(value, ",") {
				from, to, ok := strings.Cut(pair, ":")
				d.with[from] = to
				bad = bad || !ok || !token.IsIdentifier(to)
			}
		default:
			bad = true
		}
		if bad {
			u.refuse(c.Pos(), "%s: want B=, name=, shared=, values=, with=F:G, backend=stages or "+
				"switch, each once", word)
		}
	}
	for from := range d.with {
		if from != "" && !calls(u, decl, from) {
			u.refuse(c.Pos(), "with=%s: the function does not call it", from)
		}
	}
	return d
}

// calls reports whether a function names another one.
func calls(u *unit, decl *ast.FuncDecl, name string) (found bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			_, fn := u.info.Uses[id].(*types.Func)
			found = found || fn
		}
		return true
	})
	return found
}
