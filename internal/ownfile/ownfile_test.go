//go:build unix

package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// strange is a user who owns nothing.
const strange = 65533

// root skips a test that must give files away.
func root(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("only root can give files away, and CI=true")
	}
	t.Skip("only root can give files away")
}

// TestModes: what others may do decides, by each rule.
func TestModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, good := range map[fs.FileMode][]Rule{
		0o600: {Private, Unwritten, Secret, Trusted}, 0o400: {Private, Unwritten, Secret, Trusted},
		0o640: {Unwritten, Trusted}, 0o644: {Unwritten, Trusted}, 0o711: {Unwritten, Trusted},
		0o620: {}, 0o602: {}, 0o666: {},
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []Rule{Private, Unwritten, Secret, Trusted} {
			want := false
			for _, r := range good {
				want = want || r == rule
			}
			if err := Check(path, info, rule); errors.Is(err, ErrOthers) == want {
				t.Errorf("%#o, rule %d: %v", mode, rule, err)
			}
		}
	}
}

// TestOwners: another user's file is not one's own, nor is a link of another user.
func TestOwners(t *testing.T) {
	root(t)
	dir := t.TempDir()
	if _, err := OpenDir(dir, Unwritten); err != nil {
		t.Fatal(err)
	}
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Symlink(file, link),
		os.Lchown(link, strange, strange)); err != nil {
		t.Fatal(err)
	}
	if !Mine(file) || Mine(link) || Mine(file+".none") {
		t.Error("it takes files for those of others, or others' for its own")
	}
	if _, err := OpenDir(dir+"/link", Unwritten); err == nil {
		t.Error("it follows a link")
	}
	if err := errors.Join(os.Chown(file, strange, strange), os.Chown(dir, strange, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(file, Secret, 10); !errors.Is(err, ErrOthers) ||
		!strings.Contains(err.Error(), "belongs to user 65533") {
		t.Errorf("another user's secret: %v", err)
	}
	if _, err := OpenDir(dir, Unwritten); !errors.Is(err, ErrOthers) {
		t.Errorf("another user's folder: %v", err)
	}
}

// TestRead: only regular files are read, no more than is allowed, and at once.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("12345"), 0o600), syscall.Mkfifo(pipe, 0o600),
		os.Symlink(file, link)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		if text, err := Read(name, Secret, 5); err != nil || string(text) != "12345" {
			t.Errorf("%q, %v", text, err)
		}
	}
	for name, want := range map[string]string{file: "more than 4 bytes", pipe: "no regular file",
		dir: "no regular file", "/dev/zero": "no regular file", file + ".none": "no such file"} {
		if _, err := Read(name, Secret, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestOpenOwn: a file is made, or taken as it is; one that is another's, or no regular one, is not.
func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	for _, want := range []string{"", "x", "xx"} {
		f, err := OpenOwn(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err == nil {
			_, err = f.WriteString("x")
		}
		if info, err2 := f.Stat(); errors.Join(err, err2) != nil || string(b) != want ||
			info.Mode() != 0o600 {
			t.Errorf("%q, %v, %v, want %q", b, errors.Join(err, err2), info, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Symlink(file, at("link")), os.Symlink(at("none"), at("dangling")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700),
		os.WriteFile(at("one"), nil, 0o600), os.Link(at("one"), at("two")),
		os.WriteFile(at("open"), nil, 0o600), os.Chmod(at("open"), 0o604)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "no regular file", "dangling": "no regular file",
		"pipe": "no regular file", "dir": "no regular file", "two": "has 2 names",
		"open": "has mode 0604"} {
		f, err := OpenOwn(at(name))
		if !errors.Is(err, ErrOthers) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", name, f, err, want)
		}
	}
	if _, err := OpenOwn(at("none/file")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}

// TestOpenOwnSwapped: what counts is the file that was opened, whatever had the name before.
func TestOpenOwnSwapped(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "file"), filepath.Join(dir, "mine")
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.WriteFile(mine, nil, 0o600), os.WriteFile(file, nil, 0o600),
		os.Chmod(file, 0o666)); err != nil {
		t.Fatal(err)
	}
	end, swaps := make(chan struct{}), make(chan error)
	defer func() {
		close(end)
		if err := <-swaps; err != nil {
			t.Error(err)
		}
	}()
	go func() { // the two have the name in turn
		for {
			err := errors.Join(os.Rename(file, open), os.Rename(mine, file), os.Rename(file, mine),
				os.Rename(open, file))
			select {
			case <-end:
				swaps <- err
				return
			default:
			}
		}
	}()
	for range 5000 {
		f, err := OpenOwn(file)
		if errors.Is(err, ErrOthers) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
			t.Fatal(info, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenOwnOwner: another user's file is not taken, whatever its mode.
func TestOpenOwnOwner(t *testing.T) {
	root(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, strange, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenOwn(file); !errors.Is(err, ErrOthers) ||
		!strings.Contains(err.Error(), "belongs to user 65533") {
		t.Error(err)
	}
}

// TestRuntime: the folder is in this user's runtime directory, else among the temporary files.
func TestRuntime(t *testing.T) {
	xdg, tmp := t.TempDir(), t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", xdg)
	t.Setenv("TMPDIR", tmp)
	want := func(want string) {
		t.Helper()
		for _, create := range []bool{false, true, false, true} {
			if got, err := Runtime("x", create); err != nil || got != want {
				t.Errorf("%q, %v, want %q", got, err, want)
			}
		}
		if info, err := os.Stat(want); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%v, %v", info, err)
		}
	}
	want(filepath.Join(xdg, "x"))
	if err := os.Chmod(xdg, 0o777); err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(tmp, fmt.Sprintf("x-%d", os.Geteuid()))
	want(mine)
	t.Setenv("XDG_RUNTIME_DIR", "")
	want(mine)
	t.Setenv("TMPDIR", filepath.Join(tmp, "none"))
	if path, err := Runtime("x", true); err == nil {
		t.Errorf("%q in no folder", path)
	}
}

// TestTaken: another user who has taken the name is left alone, and so are others with such names.
func TestTaken(t *testing.T) {
	root(t)
	tmp := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", "")
	t.Setenv("TMPDIR", tmp)
	for _, name := range []string{"x-0", "x-0-0"} {
		path := filepath.Join(tmp, name)
		if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, strange, strange)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/", filepath.Join(tmp, "x-0-1")); err != nil {
		t.Fatal(err)
	}
	if got, err := Runtime("x", false); err != nil || got != filepath.Join(tmp, "x-0") {
		t.Errorf("%q, %v", got, err)
	}
	made, err := Runtime("x", true)
	if err != nil || !strings.HasPrefix(made, filepath.Join(tmp, "x-0-")) || !Mine(made) {
		t.Fatalf("%q, %v", made, err)
	}
	// From then on everybody finds it, also when the other one has gone.
	for range 2 {
		for _, create := range []bool{false, true} {
			if got, err := Runtime("x", create); err != nil || got != made {
				t.Errorf("%q, %v, want %q", got, err, made)
			}
		}
		if err := os.RemoveAll(filepath.Join(tmp, "x-0")); err != nil {
			t.Fatal(err)
		}
	}
}
