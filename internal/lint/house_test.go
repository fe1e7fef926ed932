package lint

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// root returns the repository's root: the first folder upwards that has this package.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "internal", "lint", "table_test.go")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", os.ErrNotExist
		}
		dir = up
	}
}

// project is the tree of this repository, parsed once for all tests.
var project = sync.OnceValues(func() (*tree, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	return load(os.DirFS(dir))
})

// rules are all the house rules.
var rules = []struct {
	name  string
	check func(*tree) []string
}{
	{"Table", func(*tree) []string { return checkTable(table) }},
	{"Imports", func(t *tree) []string { return checkImports(t, table) }},
	{"FileLength", checkFileLength},
	{"Columns", checkColumns},
	{"Docs", checkDocs},
	{"Innards", func(t *tree) []string { return checkInnards(t, mayInnards) }},
	{"Versions", checkVersions},
	{"Clock", func(t *tree) []string { return checkClock(t, table) }},
	{"Outputs", func(t *tree) []string { return checkOutputs(t, table) }},
	{"FuncLength", checkFuncLength},
	{"Notes", checkNotes},
	{"Bodies", checkBodies},
	{"Architecture", func(t *tree) []string { return checkArchitecture(t, table) }},
}

// TestHouse holds this repository to the rules.
func TestHouse(t *testing.T) {
	tree, err := project()
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.dirs["wire"]) == 0 || len(tree.dirs["internal/lint"]) == 0 {
		t.Fatal("the walk did not find the project")
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) {
			for _, complaint := range rule.check(tree) {
				t.Error(complaint)
			}
		})
	}
}
