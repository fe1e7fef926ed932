package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// moreCoverage names, in the environment, a file with lines for the coverage profile.
const moreCoverage = "MUTANTS_COVERAGE"

// uncounted returns lines of a coverage profile for the code that the go command does not count
// but that runs all the same: declarations outside of functions, and the conditions of
// cases. Without these lines gremlins would take its mutants for not covered.
func uncounted(importPath, file string, source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	add := func(from, to token.Pos) {
		a, b := fset.Position(from), fset.Position(to)
		fmt.Fprintf(&out, "%s:%d.%d,%d.%d 1 1\n", path.Join(importPath, file),
			a.Line, a.Column, b.Line, b.Column)
	}
	for _, d := range parsed.Decls {
		if d, ok := d.(*ast.GenDecl); ok && (d.Tok == token.CONST || d.Tok == token.VAR) {
			add(d.Pos(), d.End())
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CaseClause:
			add(n.Case, n.Colon)
		case *ast.CommClause:
			add(n.Case, n.Colon)
		}
		return true
	})
	return out.Bytes(), nil
}

// writeUncounted writes these lines for some files of a folder to a file.
func writeUncounted(to, importPath, dir string, files []string) error {
	var all []byte
	for _, name := range files {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		lines, err := uncounted(importPath, name, b)
		if err != nil {
			return err
		}
		all = append(all, lines...)
	}
	return os.WriteFile(to, all, 0o644)
}

// addCoverage appends these lines to the profile that a call of the go command wrote.
func addCoverage(args []string) error {
	i := slices.Index(args, "-coverprofile")
	if i < 0 || i+1 >= len(args) {
		return nil
	}
	lines, err := os.ReadFile(os.Getenv(moreCoverage))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(args[i+1], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(lines)
	return err
}
