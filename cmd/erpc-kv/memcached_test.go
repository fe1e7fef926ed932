package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
