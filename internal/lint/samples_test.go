package lint

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The samples of docs/from-grpc.md use what follows, as one file with them. The packages of gRPC
// are stand-ins: the samples are about this library.
const (
	sampleHead = `package main

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/lint/sample/codes"
	"github.com/userspace-rpc/erpc/internal/lint/sample/pb"
	"github.com/userspace-rpc/erpc/internal/lint/sample/proto"
	"github.com/userspace-rpc/erpc/internal/lint/sample/status"
)

const greet = 1

type greeter struct{}

func main() {}
`
	sampleFunc = `
func _(ctx context.Context, server *erpc.Server, client *erpc.Client, request []byte) {
%s
%s}
`
)

var samplePackages = map[string]string{
	"codes": "package codes\n\nconst InvalidArgument = 3\n",
	"pb":    "package pb\n\ntype Name struct{ Text string }\n\ntype Greeting struct{ Text string }\n",
	"proto": "package proto\n\nfunc Marshal(any) ([]byte, error) { return nil, nil }\n\n" +
		"func Unmarshal([]byte, any) error { return nil }\n",
	"status": "package status\n\nfunc Error(int, string) error { return nil }\n",
}

var goBlock = regexp.MustCompile("(?s)```go\n(.*?)```")

// TestSamples: the Go code of docs/from-grpc.md compiles.
func TestSamples(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "from-grpc.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := goBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 || len(blocks) != strings.Count(string(page), "```go") {
		t.Fatalf("%d samples", len(blocks))
	}
	if out, err := compile(t, sampleFile(t, blocks)); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	blocks = append(blocks, []string{"", "err := client.Call(ctx, greet)\n"})
	if out, err := compile(t, sampleFile(t, blocks)); err == nil ||
		!strings.Contains(out, "not enough arguments") {
		t.Errorf("a wrong sample: %v\n%s", err, out)
	}
}

// sampleFile puts samples into one file: functions as they are, statements into functions.
func sampleFile(t *testing.T, blocks [][]string) string {
	t.Helper()
	text := sampleHead
	for _, b := range blocks {
		if strings.HasPrefix(b[1], "func ") {
			text += "\n" + b[1]
			continue
		}
		text += fmt.Sprintf(sampleFunc, b[1], uses(t, b[1]))
	}
	return text
}

// uses returns statements that use what the statements of a sample declare.
func uses(t *testing.T, body string) (text string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+body+"}", 0)
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	for _, s := range f.Decls[0].(*ast.FuncDecl).Body.List {
		a, ok := s.(*ast.AssignStmt)
		if !ok || a.Tok != token.DEFINE {
			continue
		}
		for _, name := range a.Lhs {
			text += "\t_ = " + name.(*ast.Ident).Name + "\n"
		}
	}
	return text
}

// compile builds a file, as one of a folder of this module that is not there.
func compile(t *testing.T, text string) (out string, err error) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	put := func(name, text string) {
		real := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(real, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, "internal", "lint", "sample", filepath.FromSlash(name))] = real
	}
	put("main.go", text)
	for name, text := range samplePackages {
		put(name+"/"+name+".go", text)
	}
	overlay := filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("go", "build", "-o", os.DevNull, "-overlay", overlay, "./internal/lint/sample")
	c.Dir = root
	said, err := c.CombinedOutput()
	return string(said), err
}
