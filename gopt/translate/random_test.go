package translate_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/gopt/translate"
)

var (
	randomSeed = flag.Uint64("seed", 1, "of the random functions")
	randomFor  = flag.Duration("for", 0, "go on with further seeds for so long")
	randomN    = flag.Int("functions", 40, "random functions that are compiled together")
)

// TestRandom writes random functions of the subset, translates them, compiles all at once, and
// compares the answers. A failure prints the seed and keeps the text.
func TestRandom(t *testing.T) {
	m := newImports(t)
	end := time.Now().Add(*randomFor)
	for seed := *randomSeed; ; seed++ {
		randomProgram(t, m, seed, *randomN)
		if t.Failed() || !time.Now().Before(end) {
			return
		}
	}
}

// randomProgram runs the functions of one seed. The go command sees them in a folder that is not
// there.
func randomProgram(t *testing.T, m *imports, seed uint64, n int) {
	t.Helper()
	dir := t.TempDir()
	text := randomText(seed, n)
	out, err := translate.Package("random", []translate.File{{Name: "random.go", Text: text}}, m)
	if err != nil {
		keep(t, seed, text, nil)
		t.Fatalf("seed %d: %v", seed, err)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	here, err := filepath.Abs("testdata/random")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"random.go": text, out[0].Name: out[0].Text} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[filepath.Join(here, name)] = filepath.Join(dir, name)
	}
	list, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), list, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program,
		"./testdata/random")
	if said, err := build.CombinedOutput(); err != nil {
		keep(t, seed, text, out[0].Text)
		t.Fatalf("seed %d: %v: %s", seed, err, said)
	}
	if said, err := exec.CommandContext(t.Context(), program).CombinedOutput(); err != nil {
		keep(t, seed, text, out[0].Text)
		t.Fatalf("seed %d: %v: %s", seed, err, said)
	}
}

// keep writes what failed to a folder and says where.
func keep(t *testing.T, seed uint64, texts ...[]byte) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gopt-random")
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		name := filepath.Join(dir, fmt.Sprint(seed, "-", i, ".go"))
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("the text is in %s", dir)
}

// writer writes a random function.
type writer struct {
	*rand.Rand
	strings.Builder
	scopes   [][]string // variables
	depth    int
	straight bool // marks stand in the outermost block alone
	loops    []loop
	labels   int
}

// loop is one that break and continue may name.
type loop struct {
	label string
	loop  bool
}

const randomHead = `package main

import (
	"fmt"
	"os"

	"github.com/userspace-rpc/erpc/gopt"
)

type entry struct {
	a, b uint32
	next *entry
}

type table struct {
	words   []uint32
	entries []entry
}

func number(x uint32) uint32 { return x }

func mix(x uint32) uint32 { return (x ^ x>>7) * 0x9E3779B1 }
`

const randomMain = `
func main() {
	t := &table{words: make([]uint32, 64), entries: make([]entry, 32)}
	for i := range t.words {
		t.words[i] = mix(uint32(i)) >> (i %% 30)
	}
	for i := range t.entries {
		t.entries[i] = entry{t.words[i], t.words[i+7], &t.entries[t.words[i]%%32]}
	}
	for _, f := range []struct {
		name  string
		plain func(x, y uint32) (uint32, uint32)
		batch func(xs, ys, a, b []uint32)
	}{
%s	} {
		for n := range 41 {
			xs, ys := make([]uint32, n), make([]uint32, n)
			a, b := make([]uint32, n+1), make([]uint32, n+1)
			for i := range xs {
				xs[i] = mix(uint32(n*50+i)) >> (i * 5 %% 32)
				ys[i] = mix(xs[i]+1) >> (i * 3 %% 32)
			}
			f.batch(xs, ys, a, b)
			for i := range xs {
				if r, s := f.plain(xs[i], ys[i]); r != a[i] || s != b[i] {
					fmt.Printf("%%s, lookup %%d of %%d, %%d and %%d: %%d and %%d, want %%d and %%d\n",
						f.name, i, n, xs[i], ys[i], a[i], b[i], r, s)
					os.Exit(1)
				}
			}
			if a[n]+b[n] != 0 {
				fmt.Println(f.name, "writes behind the last lookup")
				os.Exit(1)
			}
		}
	}
}
`

// randomText returns a program of n random functions.
func randomText(seed uint64, n int) []byte {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, 7))}
	w.WriteString(randomHead)
	var list strings.Builder
	for i := range n {
		w.function(i)
		fmt.Fprintf(&list, "\t\t{\"f%d\", t.f%d, t.f%dBatch},\n", i, i, i)
	}
	fmt.Fprintf(w, randomMain, list.String())
	return []byte(w.String())
}

func (w *writer) function(i int) {
	w.straight = w.IntN(3) == 0
	results := []string{"(uint32, uint32)", "(r, s uint32)"}[w.IntN(2)]
	how := []string{"", "", " backend=switch"}[w.IntN(3)]
	fmt.Fprintf(w, "\n//gopt:batch B=%d%s\nfunc (t *table) f%d(x, y uint32) %s {\n", 1+w.IntN(40), how,
		i, results)
	w.scopes, w.loops, w.depth = [][]string{{"x", "y"}}, nil, 0
	if results[1] == 'r' {
		w.scopes[0] = append(w.scopes[0], "r", "s")
	}
	w.WriteString("fuel := 40\n_ = fuel\n")
	w.block(6)
	w.mark()
	w.block(4)
	if results[1] == 'r' && w.IntN(2) == 0 {
		w.WriteString("return\n}\n")
		return
	}
	w.WriteString("return " + w.value(2) + ", " + w.value(2) + "\n}\n")
}

// variable returns a variable that is in scope.
func (w *writer) variable() string {
	var all []string
	for _, s := range w.scopes {
		all = append(all, s...)
	}
	return all[w.IntN(len(all))]
}

// value returns an expression without effects.
func (w *writer) value(depth int) string {
	if depth == 0 {
		if w.IntN(3) == 0 {
			return fmt.Sprintf("number(%d)", w.IntN(20))
		}
		return w.variable()
	}
	a, b := w.value(depth-1), w.value(depth-1)
	switch w.IntN(6) {
	case 0:
		return "t.words[" + a + "&63]"
	case 1:
		return "t.entries[" + a + "&31].next." + []string{"a", "b"}[w.IntN(2)]
	case 2:
		return "mix(" + a + ")"
	default:
		return "(" + a + " " + []string{"+", "^", "-", "&", "*"}[w.IntN(5)] + " " + b + ")"
	}
}

func (w *writer) condition() string {
	return w.value(1) + "&7 " + []string{"<", "==", "!=", ">="}[w.IntN(4)] + " " + w.value(1) + "&7"
}

// mark writes one or two marks, if it may here, and a read.
func (w *writer) mark() {
	if w.straight && w.depth > 0 {
		return
	}
	v, a := w.variable(), w.value(1)
	fmt.Fprintf(w, "gopt.Expensive(&t.words[%s&63])\n", a)
	if w.IntN(3) == 0 {
		fmt.Fprintf(w, "gopt.ExpensiveLines(&t.entries[%s&31], 2)\n", w.value(1))
	}
	fmt.Fprintf(w, "%s += t.words[%s&63] // read\n", v, a)
}

// block writes some statements in a scope of its own, without its braces.
func (w *writer) block(n int) {
	if w.depth > 0 { // the outermost block is that of the parameters
		w.scopes = append(w.scopes, nil)
		defer func() { w.scopes = w.scopes[:len(w.scopes)-1] }()
	}
	for range 1 + w.IntN(n) {
		w.statement()
	}
}

// inner writes a block with braces.
func (w *writer) inner(n int) {
	w.depth++
	w.WriteString("{\n")
	w.block(n)
	w.WriteString("}")
	w.depth--
}

// declare makes a variable known, whose name another one may have.
func (w *writer) declare() string {
	name := []string{"x", "a", "b", "c", "mix_", "at"}[w.IntN(6)]
	last := w.scopes[len(w.scopes)-1]
	for n := 2; slices.Contains(last, name); n++ {
		name = fmt.Sprint(strings.TrimRight(name, "0123456789"), n)
	}
	return name
}

func (w *writer) known(name string) {
	last := len(w.scopes) - 1
	w.scopes[last] = append(w.scopes[last], name)
}

func (w *writer) statement() {
	deep := w.depth > 3
	switch k := w.IntN(16); {
	case k < 2:
		value, name := w.value(2), w.declare()
		fmt.Fprintf(w, "%s := %s\n_ = %s\n", name, value, name)
		w.known(name)
	case k == 2:
		a := w.declare()
		fmt.Fprintf(w, "var (\n%s uint32 // zero\n%sz, %sy = %s, uint32(1)\n)\n_, _, _ = %s, %sz, %sy\n",
			a, a, a, w.value(1), a, a, a)
		w.known(a)
		w.known(a + "z")
	case k < 6:
		v := w.variable()
		fmt.Fprintf(w, "%s %s %s\n", v, []string{"=", "+=", "^="}[w.IntN(3)], w.value(2))
	case k < 9:
		w.mark()
	case k == 9 && w.IntN(3) == 0:
		fmt.Fprintf(w, "if %s {\nreturn %s, %s\n}\n", w.condition(), w.value(1), w.value(1))
	case k == 10 && len(w.loops) > 0:
		w.leave()
	case k < 12 && !deep:
		w.branch()
	case k < 14 && !deep:
		w.loop()
	case k == 14 && !deep:
		w.cases()
	case !deep:
		w.inner(3)
		w.WriteString("\n")
	}
}

// leave writes a break or a continue.
func (w *writer) leave() {
	l := w.loops[w.IntN(len(w.loops))]
	word := "break "
	if l.loop && w.IntN(2) == 0 {
		word = "continue "
	}
	if last := w.loops[len(w.loops)-1]; l == last && w.IntN(2) == 0 {
		l.label = ""
	}
	fmt.Fprintf(w, "if %s {\n%s%s\n}\n", w.condition(), word, l.label)
}

func (w *writer) branch() {
	w.scopes = append(w.scopes, nil)
	if w.IntN(2) == 0 {
		value, name := w.value(1), w.declare()
		fmt.Fprintf(w, "if %s := %s; ", name, value)
		w.known(name)
		fmt.Fprintf(w, "%s != %s ", name, w.value(1))
	} else {
		fmt.Fprintf(w, "if %s ", w.condition())
	}
	w.inner(3)
	if w.IntN(2) == 0 {
		w.WriteString(" else ")
		if w.IntN(2) == 0 {
			fmt.Fprintf(w, "if %s ", w.condition())
		}
		w.inner(3)
	}
	w.scopes = w.scopes[:len(w.scopes)-1]
	w.WriteString("\n")
}

// label begins a statement that can be left, and uses its label.
func (w *writer) label(isLoop bool) {
	w.labels++
	l := loop{fmt.Sprint("label", w.labels), isLoop}
	w.loops = append(w.loops, l)
	w.WriteString(l.label + ":\n")
}

func (w *writer) loop() {
	head := w.IntN(4)
	words := "t.words[" + w.value(1) + "&31:][:3]"
	cond, number := w.condition(), w.value(1)
	w.label(true)
	label := w.loops[len(w.loops)-1].label
	w.scopes = append(w.scopes, nil)
	name := w.declare()
	switch head {
	case 0:
		fmt.Fprintf(w, "for %s := uint32(0); %s < 3; %s++ ", name, name, name)
		w.known(name)
	case 1:
		fmt.Fprintf(w, "for %s = range %s ", "_, "+w.variable(), words)
	case 2:
		fmt.Fprintf(w, "for %s := range %s&3 ", name, number)
		w.known(name)
	default:
		fmt.Fprintf(w, "for %s ", cond)
	}
	w.depth++
	fmt.Fprintf(w, "{\nif fuel--; fuel < 0 {\nbreak %s\n}\n", label)
	if head == 0 || head == 2 {
		fmt.Fprintf(w, "_ = %s\n", name)
	}
	w.block(4)
	w.WriteString("}\n")
	w.depth--
	w.scopes = w.scopes[:len(w.scopes)-1]
	w.loops = w.loops[:len(w.loops)-1]
}

func (w *writer) cases() {
	tag := w.value(1)
	w.label(false)
	fmt.Fprintf(w, "switch %s & 3 {\n", tag)
	w.depth++
	for i := range 3 {
		fmt.Fprintf(w, "case %d:\n", i)
		w.block(3)
		if i < 2 && w.IntN(3) == 0 {
			w.WriteString("fallthrough\n")
		}
	}
	fmt.Fprintf(w, "default:\nif fuel < 0 {\nbreak %s\n}\n", w.loops[len(w.loops)-1].label)
	w.block(2)
	w.WriteString("}\n")
	w.depth--
	w.loops = w.loops[:len(w.loops)-1]
}
