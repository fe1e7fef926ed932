package lint

import (
	"strings"
	"testing"
	"testing/fstest"
)

// fakeRows is a small table for the fake trees.
var fakeRows = []row{
	{path: "low", traits: pure},
	{path: "mid", may: []string{"low", "internal/..."}, third: []string{"golang.org/x/sys"}},
	{path: "net/contract"},
	{path: "net/impl", may: []string{"net/contract"}},
	{path: "suite", traits: suite},
	{path: "internal/clock", traits: mayClock | mayUnsafe},
	{path: "internal/verbs", traits: mayUnsafe | mayCgo},
	{path: "cmd/...", may: []string{"..."}, traits: mayClock},
}

// fake builds a tree from files; "m" is the module. A file that holds no package
// clause gets one.
func fake(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module m.test/m\n\ngo 1.26\n")}}
	for name, src := range files {
		if strings.HasSuffix(name, ".go") && !strings.Contains(src, "package ") {
			src = "package p\n" + src
		}
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	tree, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// expect runs check on a tree of the given files and wants exactly one complaint that
// holds want, or none if want is empty.
func expect(t *testing.T, files map[string]string, want string, check func(*tree) []string) {
	t.Helper()
	got := check(fake(t, files))
	switch {
	case want == "" && len(got) != 0:
		t.Errorf("complaints about good code: %q", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %q, want one complaint with %q", got, want)
	}
}

func TestCheckImports(t *testing.T) {
	imp := func(p string) string { return "import _ \"" + p + "\"\n" }
	tests := []struct{ name, file, src, want string }{
		{"stdlib", "low/a.go", imp("encoding/binary"), ""},
		{"allowed", "mid/a.go", imp("m.test/m/low"), ""},
		{"upwards", "low/a.go", imp("m.test/m/mid"), "low/a.go:2: low may not import mid"},
		{"upwards in a test", "low/a_test.go", imp("m.test/m/mid"), ""},
		{"under another build tag", "low/a_plan9.go", "//go:build plan9\n\npackage p\n" +
			imp("m.test/m/mid"), "low may not import mid"},
		{"sibling", "net/contract/a.go", imp("m.test/m/net/impl"), "may not import net/impl"},
		{"an implementation", "mid/a.go", imp("m.test/m/net/impl"), "mid may not import net/impl"},
		{"an implementation from a command", "cmd/x/a.go", imp("m.test/m/net/impl"), ""},
		{"folder of folders", "mid/a.go", imp("m.test/m/internal/clock"), ""},
		{"cgo package by wildcard", "mid/a.go", imp("m.test/m/internal/verbs"),
			"mid may not import internal/verbs"},
		{"no row", "new/a.go", "", "new: this package is in no row"},
		{"no row, below one", "low/new/a.go", "", "low/new: this package is in no row"},
		{"no row, only a test", "new/a_test.go", "", "new: this package is in no row"},
		{"the root", "a.go", "", ".: this package is in no row"},
		{"third party", "mid/a.go", imp("golang.org/x/sys/unix"), ""},
		{"third party not listed", "mid/a.go", imp("golang.org/x/system"), "golang.org/x/system"},
		{"test helper in a test", "low/a_test.go", imp("go.uber.org/goleak"), ""},
		{"test helper outside tests", "low/a.go", imp("go.uber.org/goleak"), "go.uber.org/goleak"},
		{"third party in a test", "low/a_test.go", imp("golang.org/x/sys/unix"), "golang.org/x/sys/unix"},
		{"unsafe", "low/a.go", imp("unsafe"), "low may not import unsafe"},
		{"unsafe in a test", "low/a_test.go", imp("unsafe"), ""},
		{"unsafe where listed", "internal/clock/a.go", imp("unsafe"), ""},
		{"cgo", "mid/a.go", imp("C"), "cgo is for internal/verbs only"},
		{"cgo where listed", "internal/verbs/a.go", imp("C"), ""},
		{"testing", "mid/a.go", imp("testing"), "package testing"},
		{"testing below", "mid/a.go", imp("testing/fstest"), "package testing"},
		{"testing in a test", "mid/a_test.go", imp("testing"), ""},
		{"testing in a suite", "suite/a.go", imp("testing"), ""},
		{"I/O in a pure package", "low/a.go", imp("net"), "it may not import net"},
		{"I/O elsewhere", "mid/a.go", imp("net"), ""},
		{"address types in a pure package", "low/a.go", imp("net/netip"), ""},
		{"skipped folder", "low/testdata/a.go", imp("m.test/m/mid"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, map[string]string{tt.file: tt.src}, tt.want,
				func(tree *tree) []string { return checkImports(tree, fakeRows) })
		})
	}
}

// TestNestedModule: imports between modules of one repository are resolved to folders.
func TestNestedModule(t *testing.T) {
	check := func(tree *tree) []string { return checkImports(tree, fakeRows) }
	nested := "module other.test/impl\n"
	expect(t, map[string]string{"net/impl/go.mod": nested, "mid/a.go": `import _ "other.test/impl"`},
		"mid may not import net/impl", check)
	expect(t, map[string]string{"net/impl/go.mod": nested,
		"net/impl/a.go": `import _ "m.test/m/net/contract"`}, "", check)
}

// TestInnards: what is internal to one module is not for another, by whatever file.
func TestInnards(t *testing.T) {
	nested, inner := "module m.test/m/net/impl\n", `import _ "m.test/m/internal/clock"`
	own := `import _ "m.test/m/net/impl/internal/x"`
	may := []innards{{"net/impl/sub", "internal/clock"}}
	for _, tt := range []struct {
		name, file, src, want string
		may                   []innards
	}{
		{"the root's own", "mid/a.go", inner, "", nil},
		{"of the root", "net/impl/sub/a.go", inner, "sub/a.go:2: internal/clock is internal", nil},
		{"in a test", "net/impl/a_test.go", inner, "internal/clock is internal", nil},
		{"of the module itself", "net/impl/a.go", own, "", nil},
		{"of a module, in the root", "mid/a.go", own, "net/impl/internal/x is internal", nil},
		{"allowed", "net/impl/sub/a.go", inner, "", may},
		{"allowed in vain", "net/impl/sub/a.go", "", "take it from mayInnards", may},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, map[string]string{"net/impl/go.mod": nested, tt.file: tt.src}, tt.want,
				func(tree *tree) []string { return checkInnards(tree, tt.may) })
		})
	}
}

// TestVersions: what would keep others from fetching a module is found.
func TestVersions(t *testing.T) {
	const work = "go 1.26\n\nuse (\n\t.\n\t./n\n\t./o\n)\n\nreplace m.test/m v0.1.0 => ./\n"
	const n, o = "module m.test/m/n\n\nrequire m.test/m v0.1.0\n", "module m.test/m/o\n"
	for _, tt := range []struct{ name, work, n, o, want string }{
		{"good", work, n, o, ""},
		{"not used", strings.Replace(work, "\t./o\n", "", 1), n, o, "go.work does not use ./o"},
		{"another version", work, n, o + "require (\n\tm.test/m v0.2.0\n)\n",
			"o/go.mod: m.test/m at v0.2.0, others require v0.1.0"},
		{"replaced", work, n, o + "replace m.test/m => ../\n", "o/go.mod: go install refuses"},
		{"no folder", work, n, o + "require m.test/m/n v0.1.0\n",
			"go.work lacks: m.test/m/n v0.1.0 => ./n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, map[string]string{"go.work": tt.work, "n/go.mod": tt.n, "o/go.mod": tt.o},
				tt.want, checkVersions)
		})
	}
}

func TestCheckTable(t *testing.T) {
	tests := []struct {
		rows []row
		want string
	}{
		{fakeRows, ""},
		{[]row{{path: "a"}, {path: "a"}}, "a: two rows"},
		{[]row{{path: "a", may: []string{"b"}}}, "may import b, which has no row"},
		{[]row{{path: "a/"}}, "not a clean path"},
	}
	for _, tt := range tests {
		expect(t, nil, tt.want, func(*tree) []string { return checkTable(tt.rows) })
	}
}

func TestCheckFileLength(t *testing.T) {
	lines := func(n int) string { return "package p\n" + strings.Repeat("\n", n-1) }
	expect(t, map[string]string{"low/a.go": lines(maxFileLines)}, "", checkFileLength)
	expect(t, map[string]string{"low/a.go": lines(maxFileLines + 1)}, "low/a.go: 1201 lines",
		checkFileLength)
	expect(t, map[string]string{"low/a_test.go": lines(maxFileLines) + "//"}, "1201 lines",
		checkFileLength)
	expect(t, map[string]string{"low/a.go": "// Code generated by x. DO NOT EDIT.\n" +
		lines(maxFileLines)}, "", checkFileLength)
}

func TestCheckDocs(t *testing.T) {
	tests := []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"low/doc.go": "// Package low is.\npackage low"}, ""},
		{map[string]string{"low/a.go": "// Package low is.\npackage low"}, "low: no doc.go"},
		{map[string]string{"low/mydoc.go": "// Package low is.\npackage low"}, "low: no doc.go"},
		{map[string]string{"low/doc.go": "package low"}, "must begin with"},
		{map[string]string{"low/doc.go": "// Package\npackage low"}, "must begin with"},
		{map[string]string{"low/doc.go": "// About this.\n\npackage low"}, "must begin with"},
		{map[string]string{"cmd/x/doc.go": "// Command x does.\npackage main"}, ""},
		{map[string]string{"cmd/x/doc.go": "package main"}, "must begin with"},
		{map[string]string{"low/a_test.go": "package low"}, ""},
	}
	for _, tt := range tests {
		expect(t, tt.files, tt.want, checkDocs)
	}
}

func TestCheckClock(t *testing.T) {
	const use = "import \"time\"\nvar x = time."
	tests := []struct{ file, src, want string }{
		{"mid/a.go", use + "Second", ""},
		{"mid/a.go", use + "Now()", "mid/a.go:3: time.Now"},
		{"mid/a.go", use + "Now", "time.Now"},
		{"mid/a.go", use + "Since(y)", "time.Since"},
		{"mid/a.go", use + "Until(y)", "time.Until"},
		{"mid/a.go", "import clock \"time\"\nvar x = clock.Now()", "time.Now"},
		{"mid/a.go", "import . \"time\"\nvar x = Now()", "with a dot"},
		{"mid/a.go", "import time \"m.test/m/low\"\nvar x = time.Now()", ""},
		{"mid/a_test.go", use + "Now()", ""},
		{"suite/a.go", use + "Now()", ""},
		{"internal/clock/a.go", use + "Now()", ""},
		{"cmd/x/a.go", use + "Now()", ""},
		{"mid/a_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "mid/a_test.go:3: time.Sleep"},
		{"suite/a.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"internal/clock/a_test.go", "import \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep"},
		{"low/a.go", use + "NewTimer(1)", "time.NewTimer"},
		{"mid/a.go", use + "NewTimer(1)", ""},
	}
	for _, tt := range tests {
		expect(t, map[string]string{tt.file: tt.src}, tt.want,
			func(tree *tree) []string { return checkClock(tree, fakeRows) })
	}
}

func TestCheckFuncLength(t *testing.T) {
	body := func(n int) string { return strings.Repeat("x++\n", n) }
	long := "func f() {\n" + body(maxFuncLines-1) + "}\n"
	table := func(inner string) string {
		return "func f() {\n_ = []any{\n" + inner + "}\n" + body(maxFuncLines-5) + "}\n"
	}
	expect(t, map[string]string{"low/a.go": "func f() {\n" + body(maxFuncLines-2) + "}\n"}, "",
		checkFuncLength)
	expect(t, map[string]string{"low/a.go": long}, "low/a.go:2: f has 71 lines", checkFuncLength)
	expect(t, map[string]string{"low/a.go": strings.Replace(long, "f()", "(t T) f()", 1)},
		"f has 71 lines", checkFuncLength)
	expect(t, map[string]string{"low/a_test.go": long}, "", checkFuncLength)
	expect(t, map[string]string{"low/a.go": table(strings.Repeat("1,\n", 100))}, "", checkFuncLength)
	expect(t, map[string]string{"low/a.go": table("func() {\n" + body(20) + "},\n")}, "f has",
		checkFuncLength)
}

func TestCheckNotes(t *testing.T) {
	for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"} {
		expect(t, map[string]string{"low/a.go": "// " + word + ": later"}, "low/a.go:2: "+word,
			checkNotes)
		expect(t, map[string]string{"low/a_test.go": "var s = \"" + word + "\""}, word, checkNotes)
		expect(t, map[string]string{"low/a.go": "// " + word + "S"}, "", checkNotes)
	}
}

func TestCheckArchitecture(t *testing.T) {
	const names = "wire/ low/ mid/\n"
	const graph = "```\nmid -> golang.org/x/sys internal/... low\nlow -> stdlib\n```\n"
	tests := []struct{ name, arch, want string }{
		{"good", names + graph, ""},
		{"order and space are free",
			names + "```text\n\nlow  ->\nmid  ->  low internal/... golang.org/x/sys\n```\n", ""},
		{"behind another block", names + "```\nmake\na -> b\n```\n" + graph, ""},
		{"a folder is missing", strings.Replace(names, "low/", "", 1) + graph, "does not mention low/"},
		{"no block", names, "no fenced block"},
		{"block without end", names + strings.TrimSuffix(graph, "```\n"), "no fenced block"},
		{"no fence", names + "low -> stdlib\n", "no fenced block"},
		{"an arrow is missing", names + strings.Replace(graph, " low\n", "\n", 1), "differs"},
		{"an arrow too much", names + strings.Replace(graph, "stdlib", "mid", 1), "differs"},
		{"a line is missing", names + strings.Replace(graph, "low -> stdlib\n", "", 1), "differs"},
		{"a line too much", names + strings.Replace(graph, "low ->", "cmd/... -> ...\nlow ->", 1),
			"differs"},
	}
	check := func(tree *tree) []string { return checkArchitecture(tree, fakeRows) }
	files := map[string]string{"low/a.go": "", "mid/a.go": ""}
	expect(t, files, "", check) // no ARCHITECTURE.md yet
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files["ARCHITECTURE.md"] = tt.arch
			expect(t, files, tt.want, check)
		})
	}
}

// TestLoad: what cannot be read is an error, not an empty tree.
func TestLoad(t *testing.T) {
	for name, fsys := range map[string]fstest.MapFS{
		"no module":      {"a.go": {Data: []byte("package a")}},
		"no module line": {"go.mod": {Data: []byte("go 1.26")}},
		"broken Go":      {"go.mod": {Data: []byte("module m")}, "a.go": {Data: []byte("package")}},
	} {
		if _, err := load(fsys); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
