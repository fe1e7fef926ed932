//go:build unix

package secure

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/userspace-rpc/erpc/security/sectest"
)

// TestKeyFiles: keys are not taken from files that others can read or write, nor from what has no
// end. It says in one line what is wrong, and a later change to such a file changes nothing.
func TestKeyFiles(t *testing.T) {
	ca := sectest.NewCA("ours")
	cert, key := ca.IssuePEM("127.0.0.1")
	psk := strings.Repeat("5", 64)
	for flag, good := range map[string]map[string]string{
		"psk": {"psk": psk}, "key": {"cert": cert, "key": key, "ca": ca.PEM()},
	} {
		p := newProcess(t, good)
		name := p.files[flag]
		taken := p.taken
		bad := func(what, want string) {
			t.Helper()
			fresh := Flags{TLSCert: p.files["cert"], TLSKey: p.files["key"], TLSCA: p.files["ca"],
				PSKFile: p.files["psk"]}
			if err := fresh.Load(); err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), name) {
				t.Errorf("%s, %s: %v, want %q", flag, what, err, want)
			}
			p.look(true)
			p.says("the keys stay as they are")
			p.inUse(taken)
		}
		for _, mode := range []fs.FileMode{0o644, 0o666, 0o604, 0o640, 0o660, 0o602, 0o620} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
			bad(mode.String(), "other users have a hand in it; chmod go= mends it")
		}
		for _, other := range []string{"cert", "ca"} {
			if file := p.files[other]; file != "" {
				if err := os.Chmod(file, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.write(map[string]string{flag: good[flag] + strings.Repeat("\n", most)})
		bad("long", "has more than 1048576 bytes")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Fatal(err)
		}
		bad("a pipe", "no regular file")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/zero", name); err != nil {
			t.Fatal(err)
		}
		bad("/dev/zero", "no regular file")
		// A link to a good file is one, as in volumes of secrets.
		aside := filepath.Join(t.TempDir(), "aside")
		if err := os.WriteFile(aside, []byte(good[flag]), 0o400); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(aside, name); err != nil {
			t.Fatal(err)
		}
		p.look(true)
		p.says("have not changed")
	}
}

// TestKeyFileOfOther: a key of another user is none.
func TestKeyFileOfOther(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can give files away, and CI=true")
		}
		t.Skip("only root can give files away")
	}
	p := newProcess(t, map[string]string{"psk": strings.Repeat("5", 64)})
	if err := os.Chown(p.files["psk"], 65533, 65533); err != nil {
		t.Fatal(err)
	}
	fresh := Flags{PSKFile: p.files["psk"]}
	if err := fresh.Load(); err == nil || !strings.Contains(err.Error(), "belongs to user 65533") {
		t.Errorf("%v", err)
	}
}
