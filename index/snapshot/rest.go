package snapshot

import (
	"os"
	"path/filepath"
	"strings"
)

// ending is added to the name of a snapshot that is not complete, behind a dot and a number.
const ending = ".new"

// create makes a file for a snapshot that is to have that name. It is locked, so that others know
// that somebody writes it.
func create(name string) (*os.File, error) {
	for {
		f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*"+ending)
		if err != nil {
			return nil, err
		}
		if err := lock(f, true); err != nil || is(f, f.Name()) {
			return f, nil // without locks nobody removes it
		}
		_ = f.Close() // another process has found it before it was locked, and removed it
	}
}

// is reports whether a name is that of an open file.
func is(f *os.File, name string) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(name)
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// removeRest removes what processes have left that ended while they wrote a snapshot of that name:
// files that nobody has locked. What cannot be removed stays until the next time.
func removeRest(name string) {
	list, _ := os.ReadDir(filepath.Dir(name))
	for _, e := range list {
		s, ours := strings.CutPrefix(e.Name(), filepath.Base(name)+".")
		s, ours2 := strings.CutSuffix(s, ending)
		number := s != "" && strings.Trim(s, "0123456789") == ""
		if !ours || !ours2 || !number || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(filepath.Dir(name), e.Name())
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if lock(f, false) == nil && is(f, path) {
			_ = os.Remove(path)
		}
		_ = f.Close()
	}
}
