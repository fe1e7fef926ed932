//go:build unix

package ownfile

import (
	"errors"
	"fmt"
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
