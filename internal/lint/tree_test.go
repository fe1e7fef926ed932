package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// tree is the source of the project, parsed.
type tree struct {
	fset    *token.FileSet
	files   []*goFile
	dirs    map[string][]*goFile // by folder
	modules map[string]string    // module path to its folder, "" for the root
	docs    map[string]string    // Markdown, by file name
	mods    map[string]string    // each go.mod and go.work, by file name
}

// goFile is one Go file.
type goFile struct {
	name      string // path below the root, with slashes
	dir       string
	src       []byte
	ast       *ast.File
	isTest    bool
	generated bool
}

// imported is one import of a file.
type imported struct {
	path   string // as written
	folder string // folder in the project, if inside
	inside bool
	pos    token.Pos
}

// skipped says which folders hold no packages of the project.
func skipped(name string) bool {
	switch name {
	case "testdata", "vendor", "bin", "out", "node_modules":
		return true
	}
	return name != "." && (name[0] == '.' || name[0] == '_')
}

// load reads the tree. Nothing is built.
func load(root fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), dirs: map[string][]*goFile{}, docs: map[string]string{},
		modules: map[string]string{}, mods: map[string]string{}}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name()):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case d.Name() == "go.mod":
			return t.addModule(root, name)
		case name == "go.work":
			text, err := fs.ReadFile(root, name)
			t.mods[name] = string(text)
			return err
		case path.Ext(name) == ".go":
			return t.addFile(root, name)
		case path.Ext(name) == ".md":
			text, err := fs.ReadFile(root, name)
			t.docs[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(t.modules) == 0 {
		return nil, fmt.Errorf("no go.mod in the tree")
	}
	return t, nil
}

func (t *tree) addModule(root fs.FS, name string) error {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	t.mods[name] = string(b)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "module" {
			t.modules[f[1]] = strings.TrimPrefix(path.Dir(name), ".")
			return nil
		}
	}
	return fmt.Errorf("%s: no module line", name)
}

func (t *tree) addFile(root fs.FS, name string) error {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, name, src,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f := &goFile{name: name, dir: path.Dir(name), src: src, ast: parsed,
		isTest: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(parsed)}
	t.files = append(t.files, f)
	t.dirs[f.dir] = append(t.dirs[f.dir], f)
	return nil
}

// imports returns the imports of f, with those of the project resolved to folders.
func (t *tree) imports(f *goFile) []imported {
	var list []imported
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused the file by now
		}
		imp := imported{path: p, pos: spec.Pos()}
		best := ""
		for module, dir := range t.modules {
			if (p == module || strings.HasPrefix(p, module+"/")) && len(module) > len(best) {
				best = module
				imp.inside = true
				imp.folder = path.Join(dir, strings.TrimPrefix(strings.TrimPrefix(p, module), "/"))
			}
		}
		list = append(list, imp)
	}
	return list
}

// lines returns the number of lines of the file.
func (f *goFile) lines() int {
	n := bytes.Count(f.src, []byte("\n"))
	if len(f.src) > 0 && f.src[len(f.src)-1] != '\n' {
		n++
	}
	return n
}

// complaint puts a place before a message, in the form that editors understand.
func (t *tree) complaint(pos token.Pos, format string, args ...any) string {
	p := t.fset.Position(pos)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}

// rowOf returns the row for a folder: the row of that name, else the longest "/..." row.
func rowOf(rows []row, folder string) (row, bool) {
	best, found := row{}, false
	for _, r := range rows {
		if r.path == folder {
			return r, true
		}
		if matches(r.path, folder) && len(r.path) > len(best.path) {
			best, found = r, true
		}
	}
	return best, found
}

// matches says whether folder is meant by pattern.
func matches(pattern, folder string) bool {
	if pattern == "..." || pattern == folder {
		return true
	}
	base, ok := strings.CutSuffix(pattern, "/...")
	return ok && (folder == base || strings.HasPrefix(folder, base+"/"))
}
