package lint

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// checkFileLength keeps files to one concept each: a longer one has more.
func checkFileLength(t *tree) (bad []string) {
	for _, f := range t.files {
		if n := f.lines(); n > maxFileLines && !f.generated {
			bad = append(bad, fmt.Sprintf("%s: %d lines, at most %d", f.name, n, maxFileLines))
		}
	}
	return bad
}

// checkDocs wants a doc.go with a package comment in each package. A folder with only
// tests is no package.
func checkDocs(t *tree) (bad []string) {
	for _, dir := range sortedDirs(t) {
		files := slices.DeleteFunc(slices.Clone(t.dirs[dir]), func(f *goFile) bool { return f.isTest })
		if len(files) == 0 {
			continue
		}
		i := slices.IndexFunc(files,
			func(f *goFile) bool { return strings.HasSuffix("/"+f.name, "/doc.go") })
		if i < 0 {
			bad = append(bad, dir+": no doc.go")
			continue
		}
		name, text := files[i].ast.Name.Name, files[i].ast.Doc.Text()
		if text == "" || name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
			bad = append(bad, fmt.Sprintf("%s: the package comment must begin with %q", files[i].name,
				"Package "+name))
		}
	}
	return bad
}

var (
	clockReaders = []string{"Now", "Since", "Until"}
	timers       = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Sleep", "Tick"}
)

// checkClock keeps reading of the clock in one place, sleep out of tests and timers
// out of pure packages.
func checkClock(t *tree, rows []row) (bad []string) {
	for _, f := range t.files {
		r, _ := rowOf(rows, f.dir)
		eachTimeFunc(t, f, func(pos token.Pos, name string) {
			testCode := f.isTest || r.traits&suite != 0
			switch {
			case name == ".":
				bad = append(bad, t.complaint(pos, "package time must not be imported with a dot"))
			case name == "Sleep" && testCode:
				bad = append(bad, t.complaint(pos, "time.Sleep in a test: wait for an event instead"))
			case slices.Contains(clockReaders, name) && !testCode && r.traits&mayClock == 0:
				bad = append(bad, t.complaint(pos, "time.%s: only internal/monotime reads the clock", name))
			case slices.Contains(timers, name) && !testCode && r.traits&pure != 0:
				bad = append(bad, t.complaint(pos, "time.%s: this package gets the time as an argument", name))
			}
		})
	}
	return bad
}

// eachTimeFunc calls visit for each name of package time that f uses, and with "."
// for a dot import.
func eachTimeFunc(t *tree, f *goFile, visit func(token.Pos, string)) {
	local := ""
	for _, spec := range f.ast.Imports {
		if p, _ := strconv.Unquote(spec.Path.Value); p != "time" {
			continue
		}
		local = "time"
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." {
			visit(spec.Pos(), ".")
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				visit(sel.Pos(), sel.Sel.Name)
			}
		}
		return true
	})
}

// checkFuncLength keeps functions on one screen. Lines inside composite literals,
// that is tables, do not count; neither do tests.
func checkFuncLength(t *tree) (bad []string) {
	for _, f := range t.files {
		if f.isTest || f.generated {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if n := t.span(fn) - t.tableLines(fn); n > maxFuncLines {
				bad = append(bad, t.complaint(fn.Pos(), "%s has %d lines, at most %d", fn.Name.Name, n,
					maxFuncLines))
			}
		}
	}
	return bad
}

// span returns the number of lines that n touches.
func (t *tree) span(n ast.Node) int {
	return t.fset.Position(n.End()).Line - t.fset.Position(n.Pos()).Line + 1
}

// tableLines returns the lines inside the outermost composite literals of fn. A
// literal with a function in it is code, not a table.
func (t *tree) tableLines(fn *ast.FuncDecl) (lines int) {
	ast.Inspect(fn, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || hasFunc(lit) {
			return true
		}
		lines += t.span(lit) - 1
		return false
	})
	return lines
}

func hasFunc(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		_, is := n.(*ast.FuncLit)
		found = found || is
		return !found
	})
	return found
}

// notes are words that say "not done"; cut in two so that this file may hold them.
var notes = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

// checkNotes finds work left undone. An open point belongs in an issue.
func checkNotes(t *tree) (bad []string) {
	for _, f := range t.files {
		line := 0
		for text := range strings.Lines(string(f.src)) {
			line++
			if word := notes.FindString(text); word != "" && !f.generated {
				bad = append(bad, fmt.Sprintf("%s:%d: %s", f.name, line, word))
			}
		}
	}
	return bad
}
