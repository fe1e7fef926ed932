package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeModule makes a module m: p, whose tests are wanted, imports q; r does not matter.
func writeModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module m\n\ngo 1.26\n",
		"p/p.go":           "package p\n\nimport _ \"m/q\"\n",
		"p/p_test.go":      "package p\n",
		"p/testdata/a/b":   "golden",
		"p/sub/sub.go":     "package sub\n",
		"p/mutants.txt":    "# none\n",
		"q/q.go":           "package q\n\nimport _ \"embed\"\n\n//go:embed files/x\nvar X string\n",
		"q/q_test.go":      "package q\n",
		"q/files/x":        "embedded",
		"q/testdata/large": "not needed",
		"r/r.go":           "package r\n",
	} {
		write(t, root, name, text)
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	to := filepath.Join(root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// files returns the names of all files below a folder.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestScratch: the scratch module has what the package needs and no test but its own.
func TestScratch(t *testing.T) {
	dst := t.TempDir()
	if err := fillScratch(t.Context(), "go", writeModule(t), dst, []string{"p"}); err != nil {
		t.Fatal(err)
	}
	got := files(t, dst)
	want := []string{"go.mod", "p/mutants.txt", "p/p.go", "p/p_test.go", "p/testdata/a/b",
		"q/files/x", "q/q.go"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := fillScratch(t.Context(), "go", writeModule(t), dst, []string{"none"}); err == nil {
		t.Error("a package that does not exist is no error")
	}
}

// TestScratchNested: a package of a nested module finds what it imports from the module around it,
// also in a copy of its own module elsewhere.
func TestScratchNested(t *testing.T) {
	root, dst := writeModule(t), t.TempDir()
	for name, text := range map[string]string{
		"go.work":       "go 1.26\n\nuse (\n\t.\n\t./n\n)\n\nreplace m v0.1.0 => ./\n",
		"n/go.mod":      "module m/n\n\ngo 1.26\n\nrequire m v0.1.0\n",
		"n/n.go":        "package n\n\nimport _ \"m/q\"\n",
		"n/s/s.go":      "package s\n\nimport _ \"m/n\"\n",
		"n/s/s_test.go": "package s\n",
		"out/x/go.mod":  "module x\n",
	} {
		write(t, root, name, text)
	}
	if err := fillScratch(t.Context(), "go", root, dst, []string{"n/s"}); err != nil {
		t.Fatal(err)
	}
	want := []string{"go.mod", "n/go.mod", "n/n.go", "n/s/s.go", "n/s/s_test.go", "q/files/x",
		"q/q.go"}
	if got := files(t, dst); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	alone := t.TempDir()
	if err := os.CopyFS(alone, os.DirFS(filepath.Join(dst, "n"))); err != nil {
		t.Fatal(err)
	}
	list, err := goList(t.Context(), "go", alone, "-deps", relative(moduleOf(dst, "n/s"), "n/s"))
	if !slices.ContainsFunc(list, func(p listed) bool { return p.Dir == filepath.Join(dst, "q") }) {
		t.Errorf("got %v, %v", list, err)
	}
}

// TestDrawnLinesAreTheDiff: git reports the drawn lines as new ones, under the name relative
// to the package, also where neighbours are equal.
func TestDrawnLinesAreTheDiff(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	root := t.TempDir()
	lines := []string{"same", "same", "same", "same", "same", "same", "same", "last"}
	text := []byte(strings.Join(lines, "\n") + "\n")
	if err := os.Mkdir(filepath.Join(root, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.go", "b.go"} {
		if err := os.WriteFile(filepath.Join(root, "p", name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn := map[string][]int{"b.go": {2, 3, 5, 8}}
	if err := commitAndMark(t.Context(), root, "p", drawn); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "diff", "--merge-base", "HEAD") // as gremlins calls it
	cmd.Dir, cmd.Env = filepath.Join(root, "p"), gitEnv(os.Environ())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "+++ ") {
			got = append(got, strings.TrimSpace(line))
		} else if f := strings.Fields(line); len(f) > 2 && f[0] == "@@" {
			got = append(got, f[2])
		}
	}
	if want := []string{"+++ b/b.go", "+2,2", "+5", "+8"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q in:\n%s", got, want, out)
	}
}

// TestAddCoverage: the lines are appended to the profile that the flag names, if any.
func TestAddCoverage(t *testing.T) {
	dir := t.TempDir()
	profile, more := filepath.Join(dir, "profile"), filepath.Join(dir, "more")
	t.Setenv(moreCoverage, more)
	if err := os.WriteFile(profile, []byte("mode: set\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"test", "-cover", "-coverprofile", profile, "./p"}
	if err := addCoverage(args); err == nil {
		t.Error("missing lines are no error")
	}
	if err := os.Mkdir(filepath.Join(dir, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	source := []byte("package p\n\nconst a = 1\n")
	if err := os.WriteFile(filepath.Join(dir, "p", "p.go"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeUncounted(more, "m/p", filepath.Join(dir, "p"), []string{"p.go"}); err != nil {
		t.Fatal(err)
	}
	if err := addCoverage([]string{"test", "./p"}); err != nil {
		t.Errorf("without a profile: %v", err)
	}
	if err := addCoverage(args); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(profile)
	if want := "mode: set\nm/p/p.go:3.1,3.12 1 1\n"; err != nil || string(b) != want {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
}
