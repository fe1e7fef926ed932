package main

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestOperatorsKeepTheirNames: another form of the code, other names and another place change no
// operator. One more in the function changes how many there are.
func TestOperatorsKeepTheirNames(t *testing.T) {
	names := func(text string) (list []string) {
		s, err := parseSource("p.go", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range s.operators {
			list = append(list, entryKey("p.go", "A", o))
		}
		slices.Sort(list)
		return list
	}
	before := names(sourceText)
	moved := strings.ReplaceAll(strings.ReplaceAll(sourceText, "n < 1 ||", "count <\n1 ||"),
		"func Free", "// Free is\n// longer.\nfunc Free")
	if after := names(moved); !slices.Equal(before, after) {
		t.Errorf("before %q\nafter  %q", before, after)
	}
	after := names(strings.Replace(sourceText, "n < 1 ||", "n < 0 || n < 1 ||", 1))
	if !slices.Contains(after, "p.go: T.Grow: A < #3 of 5") || slices.Contains(after, before[2]) {
		t.Errorf("one more: %q", after)
	}
}

// TestLists: each entry of each list in the repository names an operator that is there, once.
func TestLists(t *testing.T) {
	root := os.DirFS("../..")
	lists := 0
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != "." && (d.Name()[0] == '.' || file == "out") {
			return fs.SkipDir
		}
		if d.Name() == "mutants.txt" {
			lists++
			checkList(t, root, file)
		}
		return nil
	})
	if err != nil || lists < 10 {
		t.Errorf("%d lists, %v", lists, err)
	}
}

func checkList(t *testing.T, root fs.FS, file string) {
	t.Helper()
	b, err := fs.ReadFile(root, file)
	if err != nil {
		t.Fatal(err)
	}
	list, err := parseEquivalents(file, string(b))
	if err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, e := range list {
		b, err := fs.ReadFile(root, path.Join(path.Dir(file), e.file))
		if err != nil {
			t.Errorf("%s:%d: %v", file, e.line, err)
			continue
		}
		s, err := parseSource(e.file, b)
		if err != nil {
			t.Fatal(err)
		}
		if seen[e.String()] || !s.has(e.operator) {
			t.Errorf("%s:%d: a second time, or no such operator: %v", file, e.line, e)
		}
		seen[e.String()] = true
	}
}
