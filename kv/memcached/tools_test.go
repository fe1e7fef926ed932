package memcached

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// tool runs a program of libmemcached-tools against a server, and returns what it printed.
func tool(t *testing.T, name string, args ...string) (out string, err error) {
	t.Helper()
	exe, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" && os.Getuid() == 0 {
			t.Fatalf("%s is not installed: apt-get install libmemcached-tools", name)
		}
		t.Skipf("%s of libmemcached-tools is not installed", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := exec.CommandContext(ctx, exe, args...).CombinedOutput()
	return string(b), err
}

// TestTools: the commands of libmemcached do with the server what they are for.
func TestTools(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	s.cfg.Version = defaultVersion
	servers := "--servers=" + listen(t, s)().RemoteAddr().String()
	file := filepath.Join(t.TempDir(), "colour")
	if err := os.WriteFile(file, []byte("blue"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails := func(name string, args ...string) {
		t.Helper()
		if out, err := tool(t, name, append([]string{servers}, args...)...); err == nil {
			t.Errorf("%s %v found something: %q", name, args, out)
		}
	}
	works := func(want, name string, args ...string) {
		t.Helper()
		out, err := tool(t, name, append([]string{servers}, args...)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s %v: %v, %q, want %q", name, args, err, out, want)
		}
	}
	works("", "memcping")
	fails("memccat", "colour")
	works("", "memccp", file)
	works("blue", "memccat", "colour")
	works("", "memcexist", "colour")
	works("", "memctouch", "--expire=1000", "colour")
	works("curr_items: 1", "memcstat")
	works("", "memcrm", "colour")
	fails("memcexist", "colour")
	works("", "memccp", file)
	works("", "memcflush")
	fails("memccat", "colour")
	for _, test := range []string{"get", "set", "mget"} {
		works("200 keys", "memcslap", "--concurrency=2", "--execute-number=100",
			"--initial-load=100", "--test="+test)
	}
}

// TestCapable: libmemcached's test of a server's protocol finds nothing wrong.
func TestCapable(t *testing.T) {
	s, _ := newServer(t, 2, mica.Config{})
	s.cfg.Version = defaultVersion
	host, port, _ := strings.Cut(listen(t, s)().RemoteAddr().String(), ":")
	out, err := tool(t, "memccapable", "-h", host, "-p", port, "-a")
	if err != nil || strings.Contains(out, "FAIL") {
		t.Errorf("%v:\n%s", err, out)
	}
	if n := strings.Count(out, "[pass]"); n < 20 {
		t.Errorf("%d tests passed:\n%s", n, out)
	}
}
