//go:build unix

package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// strange is a user who is neither this one nor root.
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

// scene is a folder like /tmp beside one that is this user's alone.
type scene struct {
	t            *testing.T
	shared, safe string
	victim       string // a file in safe, which has "victim"
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, shared: t.TempDir(), safe: t.TempDir()}
	s.victim = filepath.Join(s.safe, "victim")
	s.must(os.Chmod(s.safe, 0o755), os.Chmod(s.shared, 0o777|fs.ModeSticky),
		os.WriteFile(s.victim, []byte("victim"), 0o600))
	return s
}

func (s *scene) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

// at is a name in the shared folder.
func (s *scene) at(name string) string { return filepath.Join(s.shared, name) }

// file makes a file that has "old".
func (s *scene) file(name string, mode fs.FileMode, owner int) string {
	s.t.Helper()
	s.must(os.WriteFile(name, []byte("old"), mode), os.Chmod(name, mode),
		os.Chown(name, owner, -1))
	return name
}

// link makes a link.
func (s *scene) link(to, name string, owner int) string {
	s.t.Helper()
	s.must(os.Symlink(to, name), os.Lchown(name, owner, -1))
	return name
}

// has says that a file has a text.
func (s *scene) has(name, want string) {
	s.t.Helper()
	if b, err := os.ReadFile(name); err != nil || string(b) != want {
		s.t.Errorf("%s has %q, %v; want %q", name, b, err, want)
	}
}

// refused says that Write leaves a file alone, and which file its error names, and whose that is.
func (s *scene) refused(name string, perm fs.FileMode, file, owner string) {
	s.t.Helper()
	err := Write(name, []byte("new"), perm)
	var others *OthersError
	if !errors.Is(err, ErrOthers) || !errors.As(err, &others) || others.File != file ||
		!strings.Contains(err.Error(), owner) {
		s.t.Errorf("%s: %v, want %s of %s", name, err, file, owner)
	}
	s.has(s.victim, "victim")
}

// taken says that Write takes a file, under another name, too.
func (s *scene) taken(name string, perm fs.FileMode, file string) {
	s.t.Helper()
	if err := Write(name, []byte("new"), perm); err != nil {
		s.t.Error(err)
		return
	}
	s.has(file, "new")
}

// TestOthers: in a folder where others may write their files, links and second names are left as
// they are, and so is what they lead to. One's own are taken.
func TestOthers(t *testing.T) {
	root(t)
	s := newScene(t)
	const theirs = "user 65533"
	s.taken(s.at("new"), 0o600, s.at("new"))
	s.taken(s.file(s.at("own"), 0o644, 0), 0o600, s.at("own"))
	s.taken(s.link(s.at("own"), s.at("own-link"), 0), 0o600, s.at("own"))
	s.taken(s.link("made", s.at("own-dangling"), 0), 0o600, s.at("made"))
	foreign := s.file(s.at("foreign"), 0o666, strange)
	for _, perm := range []fs.FileMode{0o600, 0o644} {
		s.refused(foreign, perm, foreign, theirs)
	}
	s.has(foreign, "old")
	to := s.link(s.victim, s.at("link"), strange)
	s.refused(to, 0o600, to, theirs)
	s.refused(s.link("link", s.at("own-to-link"), 0), 0o600, to, theirs)
	none := filepath.Join(s.safe, "none")
	to = s.link(none, s.at("dangling"), strange)
	s.refused(to, 0o644, to, theirs)
	if _, err := os.Lstat(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made through another user's link: %v", err)
	}
	s.must(os.Link(s.victim, s.at("hard")))
	s.refused(s.at("hard"), 0o600, s.at("hard"), "has 2 names")
	s.must(syscall.Mkfifo(s.at("pipe"), 0o666), os.Chown(s.at("pipe"), strange, -1))
	s.refused(s.at("pipe"), 0o600, s.at("pipe"), theirs) // it does not wait for a reader
}

// TestOthersFolder: another user's folder is entered, but nothing of his is trusted there; what is
// for all to read may go into his file.
func TestOthersFolder(t *testing.T) {
	root(t)
	s := newScene(t)
	his := s.at("his")
	s.must(os.Mkdir(his, 0o755), os.Chown(his, strange, -1))
	s.taken(his+"/new", 0o600, his+"/new")
	s.file(his+"/file", 0o644, strange)
	s.refused(his+"/file", 0o600, his+"/file", "user 65533")
	s.taken(his+"/file", 0o644, his+"/file")
	s.link(s.victim, his+"/link", strange)
	s.refused(his+"/link", 0o644, his+"/link", "user 65533")
	s.must(os.Chmod(s.shared, 0o775)) // of a group
	foreign := s.file(s.at("foreign"), 0o644, strange)
	s.refused(foreign, 0o600, foreign, "user 65533")
}

// TestOthersLinkOnTheWay: a link of another user to a folder is not followed either.
func TestOthersLinkOnTheWay(t *testing.T) {
	root(t)
	if runtime.GOOS != "linux" {
		t.Skip("only the last name is looked at here")
	}
	s := newScene(t)
	folder := s.link(s.safe, s.at("folder"), strange)
	s.refused(folder+"/victim", 0o600, folder, "user 65533")
	s.link("folder", s.at("own-folder"), 0)
	s.refused(s.at("own-folder")+"/victim", 0o600, folder, "user 65533")
	if _, err := Create(folder+"/made", 0o644); !errors.Is(err, ErrOthers) {
		t.Errorf("a file behind another user's link: %v", err)
	}
}

// TestSafeFolder: in a folder where nobody else may write all is taken as it is.
func TestSafeFolder(t *testing.T) {
	root(t)
	s := newScene(t)
	at := func(name string) string { return filepath.Join(s.safe, name) }
	s.taken(s.file(at("foreign"), 0o644, strange), 0o600, at("foreign"))
	s.taken(s.link("foreign", at("link"), strange), 0o600, at("foreign"))
	s.must(os.Link(at("foreign"), at("hard")))
	s.taken(at("hard"), 0o600, at("foreign"))
}

// TestSwapped: what others swap while a file is opened is not written.
func TestSwapped(t *testing.T) {
	root(t)
	s := newScene(t)
	his := s.file(filepath.Join(s.safe, "his"), 0o666, strange)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
			}
			temp := s.at("temp")
			switch i % 4 {
			case 0:
				_ = os.WriteFile(temp, nil, 0o600) // root's, as if he had taken it back
			case 1:
				_ = os.Symlink(s.victim, temp)
				_ = os.Lchown(temp, strange, -1)
			case 2:
				_ = os.Link(his, temp)
			case 3:
				_ = os.Remove(s.at("name"))
			}
			_ = os.Rename(temp, s.at("name"))
		}
	}()
	refused := 0
	for range 2000 {
		switch err := Write(s.at("name"), []byte("new"), 0o600); {
		case errors.Is(err, ErrOthers):
			refused++
		case err != nil:
			t.Error(err)
		}
	}
	close(end)
	<-ended
	s.has(s.victim, "victim")
	s.has(his, "old")
	if refused == 0 {
		t.Error("it never met a link")
	}
}

// TestAsTheSystem: names, links and errors are as those of os.Create, but for other users'.
func TestAsTheSystem(t *testing.T) {
	s := newScene(t)
	t.Chdir(s.shared)
	s.must(os.MkdirAll("a/b", 0o700), os.Symlink("a/b", "to-b"), os.Symlink("../..", "a/b/up"),
		os.Symlink(s.at("a"), "absolute"), os.Symlink("loop", "loop"), os.Symlink("/", "slash"),
		os.WriteFile("file", nil, 0o600))
	for _, name := range []string{"x", "./x", "a/../x", "a/b/x", "to-b/x", "to-b/../x",
		"a/b/up/x", "absolute/b/x", "/" + s.at("x"), "//" + s.at("a") + "//x"} {
		s.taken(name, 0o640, name)
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o640 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	for _, name := range []string{"", ".", "..", "a", "a/", "x/", "none/x", "none/", "file/x", "loop",
		"loop/x", "slash", "to-b/", "/"} {
		_, want := os.Create(name)
		_, err := Create(name, 0o666)
		var path *fs.PathError
		if err == nil || !errors.As(err, &path) || err.Error() != want.Error() {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	for _, want := range []string{"1", "11", "111"} {
		f, err := Open("log", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		s.must(err)
		_, err = f.WriteString("1")
		s.must(err, f.Close())
		s.has("log", want)
	}
	if _, err := Open("none", os.O_RDWR, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none, and it is not to be made: %v", err)
	}
}

// TestNoFiles: pipes, devices and the links of /dev to what the process has are written as they
// are.
func TestNoFiles(t *testing.T) {
	s := newScene(t)
	s.must(syscall.Mkfifo(s.at("pipe"), 0o600))
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(s.at("pipe"))
		if err != nil {
			t.Error(err)
		}
		read <- string(b)
	}()
	s.must(Write(s.at("pipe"), []byte("new"), 0o600))
	if got := <-read; got != "new" {
		t.Errorf("the pipe has %q", got)
	}
	s.must(Write("/dev/null", []byte("new"), 0o600))
	if runtime.GOOS != "linux" {
		return
	}
	r, w, err := os.Pipe()
	s.must(err)
	s.must(os.Symlink(fmt.Sprint("/proc/self/fd/", w.Fd()), s.at("stdout")))
	s.must(Write(s.at("stdout"), []byte("new"), 0o600), w.Close())
	if b, err := io.ReadAll(r); err != nil || string(b) != "new" {
		t.Errorf("the process's pipe has %q, %v", b, err)
	}
	s.must(r.Close())
	t.Chdir(s.shared)
	s.taken("/proc/self/cwd/by-proc", 0o600, s.at("by-proc"))
}
