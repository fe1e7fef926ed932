package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/clitest"
)

// generated are the packages of this module that have generated functions.
var generated = []string{"../../gopt/bptree", "../../gopt/chase", "../../gopt/cuckoo",
	"../../gopt/lpm", "../../kv/mica", "../../gopt/translate/testdata/samples"}

// try runs a command line.
func try(t *testing.T, args ...string) (status int, errOut string) {
	t.Helper()
	status, _, errOut = clitest.Command(run).Try(t, args...)
	return status, errOut
}

// TestUpToDate: go generate would change nothing.
func TestUpToDate(t *testing.T) {
	if status, errOut := try(t, append([]string{"--check"}, generated...)...); status != cli.Done {
		t.Error(errOut)
	}
}

// write makes a file of a module that takes package gopt from here.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const reader = `package reader

import "github.com/userspace-rpc/erpc/gopt"

var data [256]uint32

//gopt:batch
func get(k uint8) uint32 {
	gopt.Expensive(&data[k])
	return data[k]
}

func use(ks []uint8, out []uint32) { getBatch(ks, out) }
`

// TestFolder: a file is written, kept as it is, checked, and removed when nothing asks for it; one
// that was not generated, and all of a package with a refusal, stay as they are.
func TestFolder(t *testing.T) {
	dir, err := os.MkdirTemp(".", "reader") // of this module
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write(t, dir, "reader.go", reader)
	out := filepath.Join(dir, "gopt_reader.go")
	steps := []struct {
		what, text string // of reader.go
		args       []string
		status     int
		said       string
		there      bool
	}{
		{"not generated yet", reader, []string{"--check", dir}, cli.Failed, "run go generate", false},
		{"generated", reader, []string{dir}, cli.Done, "", true},
		{"again", reader, []string{"--check", dir}, cli.Done, "", true},
		{"changed", strings.ReplaceAll(reader, "uint8", "byte"), []string{"--check", dir}, cli.Failed,
			"not what it would be", true},
		{"refused", strings.Replace(reader, "return", "data[k] = 1; return", 1), []string{dir},
			cli.Failed, "reader.go:10:2: a write to shared data: data[k]\n", true},
		{"no Go", reader + "}", []string{dir}, cli.Failed, "expected declaration", true},
		{"no directive", "package reader\n", []string{"--check", dir}, cli.Failed,
			"nothing asks for it", true},
		{"no directive", "package reader\n", []string{dir}, cli.Done, "", false},
	}
	for _, s := range steps {
		write(t, dir, "reader.go", s.text)
		status, errOut := try(t, s.args...)
		_, err := os.Stat(out)
		if status != s.status || !strings.Contains(errOut, s.said) || (err == nil) != s.there {
			t.Errorf("%s: status %d, %q, the file is there: %v", s.what, status, errOut, err == nil)
		}
	}
	write(t, dir, "reader.go", reader)
	write(t, dir, "gopt_reader.go", "package reader\n\nvar mine int\n")
	if status, errOut := try(t, dir); status != cli.Failed ||
		!strings.Contains(errOut, "was not generated") {
		t.Errorf("a file of somebody else: status %d, %q", status, errOut)
	}
	if status, errOut := try(t, "testdata"); status != cli.Failed || errOut == "" {
		t.Errorf("a folder that is not there: status %d", status)
	}
}

var block = regexp.MustCompile("(?s)(<!-- (\\w+) -->\n)?```(\\w*)\n(.*?)```")

// TestPage: the code of docs/batch-lookups.md is translated as the page says, with and without its
// second mark; its test passes, and its refusal reads so.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/batch-lookups.md")
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	parts := map[string]string{}
	for _, b := range block.FindAllStringSubmatch(string(page), -1) {
		if b[3] == "go" {
			code = append(code, b[4])
		}
		parts[b[2]] = b[4]
	}
	command := regexp.MustCompile(`go run (\S+) `).FindStringSubmatch(code[0])
	if len(command) < 2 || !strings.Contains(string(page), "$ go get -tool "+command[1]+"\n") {
		t.Errorf("go.mod lacks what %q needs", command)
	}
	dir, err := os.MkdirTemp(".", "page") // of this module
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write(t, dir, "names_test.go", code[1])
	compare := "\t\t\tif e.name == name {\n"
	second := strings.Replace(code[0], compare, parts["second"], 1)
	if second == code[0] || !strings.HasSuffix(parts["second"], compare) {
		t.Fatal("the second mark is in another place")
	}
	for _, text := range []string{code[0], second} {
		write(t, dir, "names.go", text)
		if status, errOut := try(t, dir); status != cli.Done {
			t.Fatal(errOut)
		}
		out, err := os.ReadFile(filepath.Join(dir, "gopt_names.go"))
		if head := strings.TrimSpace(parts["generated"]); err != nil ||
			!strings.Contains(string(out), "\n"+head+" {\n") {
			t.Errorf("%v: no %s in %s", err, head, out)
		}
		if said, err := exec.Command("go", "test", "./"+dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}
	bad := strings.Replace(code[0], "Table struct{ buckets", "Table struct{ hits int; buckets", 1)
	bad = strings.Replace(bad, "\t\tgopt.Exp", "\t\tt.hits++\n\t\tgopt.Exp", 1)
	write(t, dir, "names.go", bad)
	refusal := strings.TrimSpace(parts["refusal"])
	if status, errOut := try(t, dir); status != cli.Failed || !strings.Contains(errOut, refusal) {
		t.Errorf("status %d: %q is not in %q", status, refusal, errOut)
	}
}
