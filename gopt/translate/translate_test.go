package translate_test

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/gopt/translate"
)

// marks stands in for package gopt, as far as generated code needs it.
const marks = `package gopt
func Expensive[T any](p *T) {}
func ExpensiveLines[T any](p *T, lines int) {}
func Prefetch[T any](ps []*T, lines int) {}`

// imports are package gopt and the standard library.
type imports struct {
	std  types.Importer
	gopt *types.Package
}

func (m *imports) Import(path string) (*types.Package, error) {
	if path == "github.com/userspace-rpc/erpc/gopt" {
		return m.gopt, nil
	}
	return m.std.Import(path)
}

func newImports(t testing.TB) *imports {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "gopt.go", marks, 0)
	if err != nil {
		t.Fatal(err)
	}
	m := &imports{std: importer.ForCompiler(fset, "source", nil)}
	m.gopt, err = new(types.Config).Check("github.com/userspace-rpc/erpc/gopt", fset,
		[]*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read returns the Go files of a folder.
func read(t *testing.T, dir string) (files []translate.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, translate.File{Name: name, Text: text})
	}
	return files
}

// TestGolden: the samples are translated to what stands beside them, whatever the order of files,
// and whether the translation is there or not. Go generate writes it anew.
func TestGolden(t *testing.T) {
	files := read(t, "testdata/samples")
	m := newImports(t)
	for range 2 {
		out, err := translate.Package("samples", files, m)
		if err != nil || len(out) != 3 {
			t.Fatalf("%d files, %v", len(out), err)
		}
		for _, f := range out {
			want, err := os.ReadFile(f.Name)
			if err != nil || !bytes.Equal(f.Text, want) {
				t.Errorf("%s is not what it would be: %v", f.Name, err)
			}
		}
		slices.Reverse(files)
		files = slices.DeleteFunc(files, func(f translate.File) bool {
			return translate.Generated(f.Text)
		})
	}
}

// TestSamples: go vet finds nothing in translated functions, and they answer as those that they are
// made of.
func TestSamples(t *testing.T) {
	for _, what := range []string{"vet", "run"} {
		out, err := exec.Command("go", what, "./testdata/samples").CombinedOutput()
		if err != nil {
			t.Errorf("go %s: %v: %s", what, err, out)
		}
	}
}

// clash is a package whose names are those that generated text has beside its own.
const clash = `package p

import (
	. "math"
	"path"

	"github.com/userspace-rpc/erpc/gopt"
)

var _ = path.Join(string(rune(MaxInt8)))

type (
	lookup struct{ a uint64 }
	keys   []lookup
	key    uint64
	place  *lookup
)

func min(a, b uint64) uint64 { return a }

func find(k uint64) *lookup { return nil }

func all() keys { return nil }

// The types of variables are called as slots and slices would be, one as an import.
//
//gopt:batch
func stages(key uint64) (uint64, bool) {
	l, path, list := find(key), find(key), all()
	gopt.Expensive(l)
	return min(l.a, path.a), len(list) > 0
}

//gopt:batch
func turns(key uint64) uint64 {
	l, path, list := find(key), find(key), all()
	for l != nil {
		gopt.Expensive(l)
		l = find(l.a)
	}
	return min(path.a, uint64(len(list)))
}

// Variables are called as types.
//
//gopt:batch
func named(key key, other key) (lookup *lookup, next key, uint8 int) {
	lookup, next = find(uint64(key)), other
	if key == 3 {
		return
	}
	gopt.Expensive(lookup)
	return lookup, next, uint8
}

//gopt:batch
func namedTurns(key key, other key) (lookup *lookup, next key, uint8 int) {
	for key > other {
		gopt.Expensive(lookup)
		key--
	}
	return lookup, key, uint8
}

// The type of the pointer has a name.
//
//gopt:batch
func pointers(k uint64) uint64 {
	p := place(find(k))
	gopt.Expensive(p)
	return p.a
}

//gopt:batch backend=switch
func pointerTurns(k uint64) uint64 {
	p := place(find(k))
	gopt.Expensive(p)
	return p.a
}

//gopt:batch
func labels(k uint64) uint64 {
	l, stage2 := find(k), k
ofStage1:
	for i := range k {
		for {
			if i > 3 {
				continue ofStage1
			}
			return 2
		}
	}
	gopt.Expensive(l)
	return l.a + stage2
}

//gopt:batch
func many(k uint64) uint64 {
	l := find(k)
	for l != nil {
		MARKS
	}
	return 0
}
`

// TestClashes: names that meet names of generated text, and more marks than a byte counts.
func TestClashes(t *testing.T) {
	mark := "gopt.Expensive(l)\nl = find(l.a)\n"
	text := strings.Replace(clash, "MARKS", strings.Repeat(mark, 300), 1)
	files := []translate.File{{Name: "p.go", Text: []byte(text)}}
	if _, err := translate.Package("p", files, newImports(t)); err != nil {
		t.Error(err)
	}
}

// TestComments: all comments of a function come along.
func TestComments(t *testing.T) {
	text, err := os.ReadFile("testdata/samples/gopt_tables.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{"// Where the entry is.\n", "// of this key, or of another\n",
		"// the entry\n", "// The value lies elsewhere.\n", "// the value\n", "// not found\n",
		"// From the first entry on\n", "// to the last one\n", "// wait here\n",
		"// this one does not count\n", "// the end\n"} {
		if n := strings.Count(string(text), comment); n != 1 {
			t.Errorf("%q stands there %d times", comment, n)
		}
	}
}

// TestRefusals: each comment "want" in testdata/refused is refused in its line, with its reason,
// and nothing else is.
func TestRefusals(t *testing.T) {
	m := newImports(t)
	for _, f := range read(t, "testdata/refused") {
		out, err := translate.Package("refused", []translate.File{f}, m)
		if err == nil {
			t.Errorf("%s: translated to %d files", f.Name, len(out))
			continue
		}
		var want []string
		for i, line := range strings.Split(string(f.Text), "\n") {
			for _, reason := range strings.Split(line, " // want: ")[1:] {
				want = append(want, f.Name+":"+strconv.Itoa(i+1)+":"+reason)
			}
		}
		var got []string
		for _, line := range strings.Split(err.Error(), "\n") {
			place, reason, _ := strings.Cut(line, ": ")
			place = place[:strings.LastIndexByte(place, ':')]
			got = append(got, place+":"+reason)
		}
		for _, w := range want {
			if !slices.ContainsFunc(got, func(g string) bool { return strings.HasPrefix(g, w) }) {
				t.Errorf("not refused: %s", w)
			}
		}
		for _, g := range got {
			if !slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(g, w) }) {
				t.Errorf("refused: %s", g)
			}
		}
	}
}
