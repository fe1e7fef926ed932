package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrOthers is matched by the errors of files that other users could have put there, change or
// read.
var ErrOthers = errors.New("other users have a hand in it")

// Rule says what others may do.
type Rule int

// Rules. The owner is this user, or root where that is said.
const (
	// Any: it may be anybody's.
	Any Rule = iota
	// Private: the owner is this user, and nobody else has any right.
	Private
	// Unwritten: the owner is this user, and nobody else may write.
	Unwritten
	// Secret: the owner is this user, who alone may read, or root, whose group may read too.
	Secret
	// Trusted: the owner is this user or root, and nobody else may write.
	Trusted
)

// Check says whether a file that was opened, or a link itself, keeps a rule. The error matches
// ErrOthers.
func Check(path string, info fs.FileInfo, rule Rule) error {
	me := os.Geteuid()
	owner, ok := Owner(info)
	if !ok || rule == Any {
		return nil
	}
	roots := rule == Secret || rule == Trusted // may be root's
	if owner != me && (!roots || owner != 0) {
		return fmt.Errorf("%s belongs to user %d, not to %d: %w", path, owner, me, ErrOthers)
	}
	denied, cure := fs.FileMode(0o077), "go="
	switch {
	case rule == Unwritten || rule == Trusted:
		denied, cure = 0o022, "go-w"
	case rule == Secret && owner == 0 && me != 0:
		denied, cure = 0o037, "g-w,o="
	}
	if mode := info.Mode().Perm(); mode&denied != 0 {
		return fmt.Errorf("%s has mode %#o: %w; chmod %s mends it", path, mode, ErrOthers, cure)
	}
	return nil
}

// Mine reports whether this user owns what has a name; a link itself counts.
func Mine(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	owner, ok := Owner(info)
	return !ok || owner == os.Geteuid()
}

// OpenDir opens a folder, but follows no link in its last place, and checks it. The caller closes
// it. Errors: those of the system and of Check.
func OpenDir(path string, rule Rule) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openDir, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = Check(path, info, rule)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Read reads a file that must be a regular one of at most so many bytes, and keep a rule. Links to
// it are followed: what they lead to counts. Errors: those of the system and of Check, and others.
func Read(path string, rule Rule, most int64) ([]byte, error) {
	// A pipe without a writer would hold up an open that waits.
	f, err := os.OpenFile(path, os.O_RDONLY|openNow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if err := Check(path, info, rule); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}

// OpenOwn opens a file to read and write it, and makes it, of mode 0600, if there is none. One
// that is there keeps its contents, and must be a regular file that is Private and has no other
// name; links are not followed. Errors: those of the system, and others, which match ErrOthers.
func OpenOwn(path string) (*os.File, error) {
	for {
		info, err := os.Lstat(path) // says more than an open that is denied
		if errors.Is(err, fs.ErrNotExist) {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				continue // somebody was faster
			}
			return f, err
		}
		if err == nil {
			err = own(path, info)
		}
		if err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_RDWR|openOwn, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info, err = f.Stat(); err == nil {
			err = own(path, info) // what has the name by now
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// own says whether a file is one that OpenOwn takes.
func own(path string, info fs.FileInfo) error {
	links := Links(info)
	switch {
	case info.Mode().Type() != 0:
		return fmt.Errorf("%s is no regular file: %w", path, ErrOthers)
	case links > 1: // 0: it was removed meanwhile
		return fmt.Errorf("%s has %d names: %w", path, links, ErrOthers)
	}
	return Check(path, info, Private)
}

// Runtime returns this user's folder of a name for what processes share while they run. That is
// NAME in $XDG_RUNTIME_DIR, if that is a folder of this user where nobody else may write (the XDG
// Base Directory Specification ignores others), or else NAME-UID in the folder for temporary files.
// Another user may have taken that name there; then it is the first NAME-UID-RANDOM of this user,
// which nobody could foresee. With create it makes the folder if there is none. It checks no more.
func Runtime(name string, create bool) (string, error) {
	path := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), name)
	if filepath.IsAbs(path) && isDir(filepath.Dir(path), Unwritten) {
		if create {
			return path, ensure(path)
		}
		return path, nil
	}
	tmp := os.TempDir()
	name += "-" + strconv.Itoa(os.Geteuid())
	path = filepath.Join(tmp, name)
	if Mine(path) {
		return path, nil
	}
	list, _ := os.ReadDir(tmp) // in order
	for _, e := range list {
		random := filepath.Join(tmp, e.Name())
		if strings.HasPrefix(e.Name(), name+"-") && isDir(random, Private) {
			return random, nil
		}
	}
	if !create {
		return path, nil
	}
	if err := ensure(path); err != nil || Mine(path) {
		return path, err
	}
	return os.MkdirTemp(tmp, name+"-") // of mode 0700
}

// isDir reports whether there is a folder that keeps a rule.
func isDir(path string, rule Rule) bool {
	f, err := OpenDir(path, rule)
	return err == nil && f.Close() == nil
}

// ensure makes a folder of mode 0700 if there is nothing of the name.
func ensure(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
