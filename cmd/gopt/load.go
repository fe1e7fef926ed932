package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/userspace-rpc/erpc/gopt/translate"
)

// loaded is a package, and an importer of what it imports.
type loaded struct {
	types.Importer
	path  string
	files []translate.File // with the folder as it was given
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath string
	Export     string // file with what it exports
	GoFiles    []string
	CgoFiles   []string
	DepOnly    bool
}

// load reads the package of a folder. What it imports is built by the go command; the package may
// lack functions that are not generated yet.
func load(dir string) (*loaded, error) {
	cmd := exec.Command("go", "list", "-e", "-export", "-deps",
		"-json=ImportPath,Export,GoFiles,CgoFiles,DepOnly", ".")
	cmd.Dir = dir
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: go list: %w: %s", dir, err, strings.TrimSpace(errOut.String()))
	}
	exports := map[string]string{}
	var own *listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: go list: %w", dir, err)
		}
		if p.DepOnly {
			exports[p.ImportPath] = p.Export
		} else {
			own = &p
		}
	}
	switch {
	case own == nil || len(own.GoFiles)+len(own.CgoFiles) == 0:
		return nil, fmt.Errorf("%s: no Go files", dir)
	case len(own.CgoFiles) > 0:
		return nil, fmt.Errorf("%s: a package with cgo, whose types only the go command knows", dir)
	}
	p := &loaded{path: own.ImportPath}
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s can't be built: %s", path, strings.TrimSpace(errOut.String()))
		}
		return os.Open(exports[path])
	}
	p.Importer = importer.ForCompiler(token.NewFileSet(), "gc", open)
	for _, name := range own.GoFiles {
		name = filepath.Join(dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, translate.File{Name: name, Text: text})
	}
	return p, nil
}
