package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read returns a document.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// source parses the files of a package, without tests.
func source(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// rows returns the first cells of a document's tables that are code, by the heading above them.
func rows(text string) map[string]bool {
	have, heading := map[string]bool{}, ""
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(line, "## "); ok {
			heading = strings.TrimSpace(h)
		}
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			have[heading+"."+name], have[name] = true, true
		}
	}
	return have
}

// TestErrors: docs/errors.md has each exported error of package erpc, and no other.
func TestErrors(t *testing.T) {
	have, known := rows(read(t, "docs/errors.md")), map[string]bool{}
	for _, f := range source(t, "erpc") {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				for _, id := range s.(*ast.ValueSpec).Names {
					if strings.HasPrefix(id.Name, "Err") {
						known[id.Name] = true
						if !have[id.Name] {
							t.Errorf("docs/errors.md has no row for %s", id.Name)
						}
					}
				}
			}
		}
	}
	for name := range have {
		if strings.HasPrefix(name, "Err") && !known[name] {
			t.Errorf("docs/errors.md has %s, which package erpc does not", name)
		}
	}
	if len(known) < 20 {
		t.Errorf("only %d errors found", len(known))
	}
}

// TestSettings: docs/settings.md has each field of the structs that it describes, and no other.
func TestSettings(t *testing.T) {
	text := read(t, "docs/settings.md")
	have, known := rows(text), map[string]bool{}
	sections := map[string]string{"Config": "Config", "Timing": "Timing",
		"Congestion": "Congestion", "Shares": "Shares", "PoolConfig": "Pool"}
	for _, f := range source(t, "erpc") {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || sections[spec.Name.Name] == "" {
				return true
			}
			for _, field := range spec.Type.(*ast.StructType).Fields.List {
				for _, id := range field.Names {
					name := sections[spec.Name.Name] + "." + id.Name
					known[name] = true
					if id.IsExported() && !have[name] {
						t.Errorf("docs/settings.md has no row for %s", name)
					}
				}
			}
			return true
		})
	}
	for name := range have {
		if strings.Contains(name, ".") && !known[name] {
			t.Errorf("docs/settings.md has %s, which the code does not", name)
		}
	}
}

// TestMaps: the packages of the core, the transports and the commands say what they own, who calls
// them, and what may never happen.
func TestMaps(t *testing.T) {
	var names []string
	for _, pattern := range []string{"erpc/doc.go", "erpc/simhost/doc.go", "session/doc.go",
		"wire/doc.go", "transport/doc.go", "transport/*/doc.go", "transport/*/*/doc.go",
		"cmd/*/doc.go", "cmd/erpc/*/doc.go"} {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		text := read(t, strings.TrimPrefix(name, top+"/"))
		for _, part := range []string{"\n// # Map\n", "\n//\towns ", "\n//\tcalled by ", "\n//\tnever "} {
			if !strings.Contains(text, part) {
				t.Errorf("%s has no %q", name, strings.TrimSpace(part))
			}
		}
	}
}
