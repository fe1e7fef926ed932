package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestMemcachedFlags: users, limits and a socket in place of a port.
func TestMemcachedFlags(t *testing.T) {
	dir, err := os.MkdirTemp("", "mc") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	users, socket := filepath.Join(dir, "users"), filepath.Join(dir, "s")
	if err := os.WriteFile(users, []byte("me:Sesame\nyou:two words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	left, err := net.Listen("unix", socket) // by a server that was killed
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	s := serveAll(t, "--memory=4", "--memcached="+socket, "--auth-file="+users, "--max-item-size=9",
		"--max-conns=3", "--idle-timeout=1h")
	ask := func(said string) string {
		c, err := net.Dial("unix", s.Memcached)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, said+"quit\r\n")
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if got := ask("get a\r\n"); got != "CLIENT_ERROR unauthenticated\r\n" {
		t.Errorf("%q", got)
	}
	got := ask("set a 0 0 13\r\nyou two words\r\nset a 0 0 10\r\n0123456789\r\nstats settings\r\n")
	for _, want := range []string{"STORED\r\nSERVER_ERROR object too large", "STAT maxconns 3\r\n",
		"STAT item_size_max 9\r\n", "STAT idle_timeout 3600\r\n", "STAT auth_enabled_ascii yes\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(users, []byte("nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"--memcached=" + socket:                            "a server has it",
		"--memcached=127.0.0.1:0 --auth-file=" + users:     "not USER:PASSWORD",
		"--memcached=127.0.0.1:0 --max-item-size=1048577":  "want 1 to 1048576",
		"--memcached=127.0.0.1:0 --max-conns=0":            "want 1 at least",
		"--memcached=127.0.0.1:0 --idle-timeout=-1s":       "--idle-timeout",
		"--memcached=127.0.0.1:0 --auth-file=" + dir + "/": "no regular file",
	} {
		status, _, errOut := try(t, append(strings.Fields("serve --memory=2 --addr=127.0.0.1:0"),
			strings.Fields(flags)...)...)
		if status == cli.Done || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d, %q, want %q", flags, status, errOut, want)
		}
	}
}

// TestAuthFiles: a file of users that has a mistake, or nobody, is refused by the line.
func TestAuthFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "has no user",
		"a:x\nb:y\na:z\n":               "line 3 has a user of a line before",
		"a:x\nb c:y\n":                  "line 2 has a user with a space",
		"a:x\n:y\n":                     "line 2 is not USER:PASSWORD",
		"a:x\nb:" + longWord + "\nc:\n": "line 2: bufio.Scanner: token too long",
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readUsers(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// longWord is longer than a line may be.
var longWord = strings.Repeat("x", 1<<16)

// TestFlagsWithoutMemcached: what would do nothing, or let everybody in, is refused by its name.
func TestFlagsWithoutMemcached(t *testing.T) {
	for _, flags := range [][]string{{"--auth-file="}, {"--auth-file=", "--memcached=127.0.0.1:0"},
		{"--auth-file=users"}, {"--max-conns=1024"}, {"--max-item-size=1"}, {"--idle-timeout=0"}} {
		var f memcachedFlags
		p, err := kong.New(&f, help)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse(flags); err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(flags[0], "=")
		if err := f.check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", flags, err)
		}
	}
}

// TestSocketOfOthers: what is in the place of the socket stays, unless it is one that refuses.
func TestSocketOfOthers(t *testing.T) {
	dir, err := os.MkdirTemp("", "mc") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := func(name string) string { return filepath.Join(dir, name) }
	c, err := net.ListenPacket("unixgram", path("socket")) // connections to it fail
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := errors.Join(os.WriteFile(path("file"), nil, 0o600), os.Mkdir(path("dir"), 0o700),
		os.Symlink(path("socket"), path("link"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"socket": "a server may have it", "file": "is no socket",
		"dir": "is no socket", "link": "is no socket"} {
		f := memcachedFlags{Memcached: path(name)}
		ln, err := f.listen()
		if err == nil {
			_ = ln.Close()
			t.Errorf("%s was replaced", name)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path(name)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		if _, err := os.Lstat(path(name)); err != nil {
			t.Error(err)
		}
	}
}
