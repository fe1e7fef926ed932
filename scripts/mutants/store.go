package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// outcome is the record of one file.
type outcome struct {
	Hash    string   `json:"hash"`
	Mutants []mutant `json:"mutants"`
}

// loadOutcome returns the kept outcome of a file, if it has that hash.
func loadOutcome(dir, file, hash string) ([]mutant, bool) {
	b, err := os.ReadFile(outcomePath(dir, file))
	if err != nil {
		return nil, false
	}
	var o outcome
	if json.Unmarshal(b, &o) != nil || o.Hash != hash {
		return nil, false
	}
	for i := range o.Mutants {
		o.Mutants[i].File = file
	}
	return o.Mutants, true
}

// saveOutcome keeps the outcome of a file. A run that is cut short leaves none or all of it.
func saveOutcome(dir, file, hash string, list []mutant) error {
	b, err := json.MarshalIndent(outcome{hash, list}, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	part := outcomePath(dir, file) + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(part, outcomePath(dir, file))
}

func outcomePath(dir, file string) string { return filepath.Join(dir, file+".json") }

// hasher makes the hashes of a package's files.
type hasher struct {
	root  fs.FS
	rest  []byte // all that the outcome of each file depends on beside the file itself
	drawn map[string][]int
}

// newHasher takes the tests in the folders below root, their testdata, and settings.
func newHasher(
	root fs.FS, tests []string, settings string, drawn map[string][]int,
) (*hasher, error) {
	h := &hasher{root: root, drawn: drawn}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", settings)
	for _, dir := range tests {
		names, err := testFiles(root, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			b, err := fs.ReadFile(root, name)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(sum, "%q %x\n", name, sha256.Sum256(b))
		}
	}
	h.rest = sum.Sum(nil)
	return h, nil
}

// of returns the hash for one file.
func (h *hasher) of(name string) (string, error) {
	b, err := fs.ReadFile(h.root, name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%x %x %v\n", h.rest, sha256.Sum256(b), h.drawn[path.Base(name)])
	return hex.EncodeToString(sum.Sum(nil))[:32], nil
}

// testFiles returns the names of the tests of a folder and of all below its testdata.
func testFiles(root fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		switch {
		case e.IsDir() && e.Name() == "testdata":
			err := fs.WalkDir(root, name, func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					names = append(names, name)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		case !e.IsDir() && strings.HasSuffix(e.Name(), "_test.go"):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
