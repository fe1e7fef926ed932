package lint

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// innards is an import of the root's internal packages that another module may have all the same.
type innards struct{ dir, folder string }

// mayInnards are these. Go lets every module below the root's path import them, but such a module
// breaks with each release of the root, and what is in kit/ serves others too.
var mayInnards = []innards{
	// It measures HERD and remote fetching on the adapter that verbs finds. Verbs stays internal:
	// a public package with cgo would promise its ways of building.
	{"labs/cmd/erpc-rfp", "internal/verbs"},
	// Its loops yield as those of the library do: another way would measure something else.
	{"labs/cmd/erpc-rfp", "internal/sys"},
}

// checkInnards finds imports of packages that are internal to another module, in tests too.
func checkInnards(t *tree, may []innards) (bad []string) {
	used := map[innards]bool{}
	for _, f := range t.files {
		for _, imp := range t.imports(f) {
			at := innards{f.dir, imp.folder}
			switch {
			case !imp.inside || t.moduleOf(f.dir) == t.moduleOf(imp.folder) ||
				!slices.Contains(strings.Split(imp.folder, "/"), "internal"):
			case slices.Contains(may, at):
				used[at] = true
			default:
				bad = append(bad, t.complaint(imp.pos,
					"%s is internal to another module: what modules share is in kit/", imp.folder))
			}
		}
	}
	for _, m := range may {
		if !used[m] {
			bad = append(bad, m.dir+" no longer imports "+m.folder+": take it from mayInnards")
		}
	}
	return bad
}

// moduleOf returns the folder of the module that a folder is in, "" for the root.
func (t *tree) moduleOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		for _, dir := range t.modules {
			if dir == folder {
				return dir
			}
		}
	}
	return ""
}

// checkVersions holds the modules to what lets others fetch them: no go.mod replaces anything, all
// require the same version of each other, and go.work uses every module and has the folder of each
// that is required in place of that version.
func checkVersions(t *tree) (bad []string) {
	work, ok := t.mods["go.work"]
	if !ok {
		return []string{"there is no go.work"}
	}
	version, use := "", strings.Fields(work)
	for _, module := range slices.Sorted(maps.Keys(t.modules)) {
		dir := "./" + t.modules[module]
		if dir != "./" && !slices.Contains(use, dir) || dir == "./" && !slices.Contains(use, ".") {
			bad = append(bad, "go.work does not use "+dir)
		}
		name := path.Join(t.modules[module], "go.mod")
		for line := range strings.Lines(t.mods[name]) {
			f := strings.Fields(strings.TrimPrefix(line, "require"))
			switch {
			case strings.HasPrefix(line, "replace"):
				bad = append(bad, name+": go install refuses a module with replace: go.work has them")
			case len(f) < 2 || f[0] == "module":
			case t.modules[f[0]] == "" && f[0] != t.root():
			case version == "" || version == f[1]:
				version = f[1]
				if to := fmt.Sprintf("%s %s => ./%s", f[0], f[1], t.modules[f[0]]); !strings.Contains(work,
					to+"\n") {
					bad = append(bad, "go.work lacks: "+to)
				}
			default:
				bad = append(bad, fmt.Sprintf("%s: %s at %s, others require %s", name, f[0], f[1], version))
			}
		}
	}
	slices.Sort(bad)
	return slices.Compact(bad)
}

// root returns the path of the module at the root.
func (t *tree) root() string {
	for module, dir := range t.modules {
		if dir == "" {
			return module
		}
	}
	return ""
}
