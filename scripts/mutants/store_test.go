package main

import (
	"os"
	"reflect"
	"testing"
	"testing/fstest"
)

func TestOutcomeIsKept(t *testing.T) {
	dir := t.TempDir() + "/new/folder"
	list := []mutant{{File: "a.go", Line: 3, Column: 4, Type: "A", Status: killed,
		operator: operator{"F", "<", 1, 1}, Code: "a < b"}}
	if _, ok := loadOutcome(dir, "a.go", "h"); ok {
		t.Error("an outcome before there was one")
	}
	if err := saveOutcome(dir, "a.go", "h", list); err != nil {
		t.Fatal(err)
	}
	got, ok := loadOutcome(dir, "a.go", "h")
	if !ok || !reflect.DeepEqual(got, list) {
		t.Errorf("got %v, %v", got, ok)
	}
	if _, ok := loadOutcome(dir, "a.go", "other"); ok {
		t.Error("an outcome for another hash")
	}
	if err := os.WriteFile(outcomePath(dir, "a.go"), []byte(`{"hash": "h", "mut`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := loadOutcome(dir, "a.go", "h"); ok {
		t.Error("an outcome from half a file")
	}
}

// TestHash: a file runs again when it, a test or the settings change, and not when
// another file does.
func TestHash(t *testing.T) {
	files := func() fstest.MapFS {
		f := fstest.MapFS{}
		for _, name := range []string{"p/a.go", "p/b.go", "p/a_test.go", "p/testdata/x/y",
			"p/sub/c_test.go", "q/d_test.go"} {
			f[name] = &fstest.MapFile{Data: []byte(name)}
		}
		return f
	}
	hash := func(f fstest.MapFS, settings string, drawn map[string][]int) string {
		t.Helper()
		h, err := newHasher(f, []string{"p", "q"}, settings, drawn)
		if err != nil {
			t.Fatal(err)
		}
		s, err := h.of("p/a.go")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := hash(files(), "v1", nil)
	for name, again := range map[string]bool{"p/a.go": true, "p/a_test.go": true,
		"p/testdata/x/y": true, "q/d_test.go": true, "p/b.go": false, "p/sub/c_test.go": false} {
		f := files()
		f[name].Data = []byte("changed")
		if got := hash(f, "v1", nil) != first; got != again {
			t.Errorf("%s changed: runs again: %v, want %v", name, got, again)
		}
	}
	f := files()
	f["p/new_test.go"] = &fstest.MapFile{}
	if hash(f, "v1", nil) == first {
		t.Error("a new test changes nothing")
	}
	if hash(files(), "v2", nil) == first {
		t.Error("settings change nothing")
	}
	if hash(files(), "v1", map[string][]int{"a.go": {1}}) == first {
		t.Error("the sample changes nothing")
	}
	if hash(files(), "v1", map[string][]int{"b.go": {1}}) != first {
		t.Error("the sample of another file changes something")
	}
	h, err := newHasher(files(), []string{"p"}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.of("p/none.go"); err == nil {
		t.Error("a missing file has a hash")
	}
	if _, err := newHasher(files(), []string{"none"}, "", nil); err == nil {
		t.Error("a missing folder has tests")
	}
}
