package lint

import (
	"path"
	"slices"
	"strings"
)

// impure are packages of the standard library that do I/O or start something: pure
// packages do without.
var impure = []string{"net", "net/http", "os", "os/exec", "os/signal", "syscall", "log", "log/slog",
	"io/fs", "bufio"}

// checkImports compares every import with the rows.
func checkImports(t *tree, rows []row) (bad []string) {
	for _, dir := range sortedDirs(t) {
		r, ok := rowOf(rows, dir)
		if !ok {
			bad = append(bad, dir+
				": this package is in no row of the table: add it to table_test.go in internal/lint")
			continue
		}
		for _, f := range t.dirs[dir] {
			for _, imp := range t.imports(f) {
				if why := forbidden(rows, r, f, imp); why != "" {
					bad = append(bad, t.complaint(imp.pos, "%s", why))
				}
			}
		}
	}
	return bad
}

// forbidden says why f, in the package of r, may not have this import, or nothing.
func forbidden(rows []row, r row, f *goFile, imp imported) string {
	testCode := f.isTest || r.traits&suite != 0
	third := func(prefix string) bool {
		return imp.path == prefix || strings.HasPrefix(imp.path, prefix+"/")
	}
	switch {
	case imp.path == "C":
		if r.traits&mayCgo == 0 {
			return "cgo is for internal/verbs only"
		}
	case imp.path == "unsafe":
		if r.traits&mayUnsafe == 0 && !f.isTest {
			return f.dir + " may not import unsafe"
		}
	case imp.path == "testing" || strings.HasPrefix(imp.path, "testing/"):
		if !testCode {
			return "package testing belongs in tests"
		}
	case imp.inside:
		if !f.isTest && imp.folder != f.dir && !allowed(rows, r, imp.folder) {
			return f.dir + " may not import " + imp.folder
		}
	case strings.Contains(firstElement(imp.path), "."):
		if !slices.ContainsFunc(r.third, third) && !(testCode && slices.ContainsFunc(testThird, third)) {
			return f.dir + " may not import " + imp.path + " of another project"
		}
	case r.traits&pure != 0 && !f.isTest && slices.Contains(impure, imp.path):
		return f.dir + " does no I/O: it may not import " + imp.path
	}
	return ""
}

// allowed says whether the package of r may import folder. A package with cgo must be
// named; only programs, which may import anything, get it by "...".
func allowed(rows []row, r row, folder string) bool {
	target, _ := rowOf(rows, folder)
	for _, pattern := range r.may {
		if !matches(pattern, folder) {
			continue
		}
		if pattern == folder || pattern == "..." || target.traits&mayCgo == 0 {
			return true
		}
	}
	return false
}

// checkTable finds rows that contradict themselves.
func checkTable(rows []row) (bad []string) {
	seen := map[string]bool{}
	for _, r := range rows {
		if seen[r.path] {
			bad = append(bad, r.path+": two rows")
		}
		seen[r.path] = true
		if r.path == "" || path.Clean(r.path) != r.path {
			bad = append(bad, r.path+": not a clean path")
		}
		for _, m := range r.may {
			known := func(other row) bool { return matches(m, strings.TrimSuffix(other.path, "/...")) }
			if !slices.ContainsFunc(rows, known) {
				bad = append(bad, r.path+": may import "+m+", which has no row")
			}
		}
	}
	return bad
}

func firstElement(p string) string {
	first, _, _ := strings.Cut(p, "/")
	return first
}

// sortedDirs returns the folders that hold Go files.
func sortedDirs(t *tree) []string {
	var dirs []string
	for dir := range t.dirs {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs
}
