package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		args   string
		code   int
		output string
		want   int
	}{
		{"test m/p", 1, "FAIL\tm/p [build failed]\nFAIL\n", 2},
		{"test m/p", 1, "--- FAIL: TestX\nFAIL\tm/p\n", 1},
		{"test m/p", 2, "flag provided but not defined", 2},
		{"build m/p", 1, "[build failed]", 1},
		{"", 1, "[build failed]", 1},
		{"test m/p", 0, "", 0},
	} {
		if got := status(strings.Fields(c.args), c.code, []byte(c.output)); got != c.want {
			t.Errorf("go %s: %d, %q: got %d, want %d", c.args, c.code, c.output, got, c.want)
		}
	}
}

func TestCoverageTime(t *testing.T) {
	got, err := coverageTime([]byte("Starting...\nGathering coverage... done in 1m2.5s\n"))
	if err != nil || got != 62500*time.Millisecond {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := coverageTime([]byte("Starting...\n")); err == nil {
		t.Error("no time is no error")
	}
}

func TestExcluded(t *testing.T) {
	dir := fstest.MapFS{"a.go": {}, "b.go": {}, "c_linux.go": {}, "a_test.go": {}, "x.txt": {},
		"sub/d.go": {}}
	got, err := excluded(dir, []string{"b.go"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/", `^a\.go$`, `^c_linux\.go$`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestUncounted: what the go command does not count is covered: cases and declarations.
func TestUncounted(t *testing.T) {
	const text = `package p

import "fmt"

const (
	a = 1
	b = a - 1
)

type T struct{}

func F(n int, c chan int) {
	switch {
	case n < 1, n > 2:
		fmt.Println(n)
	default:
	}
	select {
	case c <- n - 1:
	}
}

var x = a + b
`
	got, err := uncounted("m/p", "p.go", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := `m/p/p.go:5.1,8.2 1 1
m/p/p.go:23.1,23.14 1 1
m/p/p.go:14.2,14.19 1 1
m/p/p.go:16.2,16.9 1 1
m/p/p.go:19.2,19.17 1 1
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := uncounted("m/p", "p.go", []byte("func")); err == nil {
		t.Error("what does not parse is no error")
	}
}

// TestGitEnv: nothing of the user's settings reaches git.
func TestGitEnv(t *testing.T) {
	env := gitEnv([]string{"HOME=/home", "GIT_DIR=/elsewhere", "GIT_CONFIG_COUNT=7"})
	has := func(s string) bool { return slices.Contains(env, s) }
	if !has("HOME=/home") || has("GIT_DIR=/elsewhere") || has("GIT_CONFIG_COUNT=7") {
		t.Errorf("got %q", env)
	}
	if !has("GIT_CONFIG_COUNT=5") || !has("GIT_CONFIG_KEY_0=diff.relative") ||
		!has("GIT_CONFIG_VALUE_0=true") {
		t.Errorf("got %q", env)
	}
}

// TestCPULimit: a multiple of what the coverage run took, and no limit to speak of for that
// run and where the time is not known.
func TestCPULimit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cpu")
	t.Setenv(cpuFile, file)
	cover, test := []string{"test", "-coverprofile", "x", "./p"}, []string{"test", "m/p"}
	if got := cpuLimit(test); got != coverageCPU {
		t.Errorf("time not known: %d s", got)
	}
	for seconds, want := range map[string]int{"0": 10, "2": 10, "3": 15, "40": 200, "": coverageCPU} {
		if err := os.WriteFile(file, []byte(seconds), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := cpuLimit(test); got != want {
			t.Errorf("%q s: limit %d, want %d", seconds, got, want)
		}
		if got := cpuLimit(cover); got != coverageCPU {
			t.Errorf("coverage run: limit %d", got)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "version")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := keepCPU(test, cmd.ProcessState); err != nil || cpuLimit(test) != coverageCPU {
		t.Errorf("kept the time of a mutant: %v, %d s", err, cpuLimit(test))
	}
	if err := keepCPU(cover, cmd.ProcessState); err != nil || cpuLimit(test) != minCPU {
		t.Errorf("did not keep the time of the coverage run: %v, %d s", err, cpuLimit(test))
	}
}

// TestOwnFirst: only a run of all tests on a mutant starts with those of its own package.
func TestOwnFirst(t *testing.T) {
	for args, want := range map[string]string{
		"test -timeout 5s -failfast ./...":     "test -timeout 5s -failfast m/p",
		"test -timeout 5s -failfast m/q":       "",
		"test -cover -coverprofile file ./...": "",
		"build ./...":                          "",
		"test":                                 "",
		"./...":                                "",
		"":                                     "",
	} {
		got := ownFirst(strings.Fields(args), "m/p")
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
	if got := ownFirst([]string{"test", "./..."}, ""); got != nil {
		t.Errorf("without other packages: %q", got)
	}
}
