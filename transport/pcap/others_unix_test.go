//go:build unix

package pcap

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// TestCreateOthers: in a folder like /tmp no capture goes through another user's link.
func TestCreateOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can give files away, and CI=true")
		}
		t.Skip("only root can give files away")
	}
	shared := t.TempDir()
	victim, name := filepath.Join(t.TempDir(), "victim"), filepath.Join(shared, "x.pcap")
	if err := errors.Join(os.Chmod(shared, 0o777|fs.ModeSticky),
		os.WriteFile(victim, []byte("victim"), 0o600), os.Symlink(victim, name),
		os.Lchown(name, 65533, 65533)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(name, Config{}); !errors.Is(err, outfile.ErrOthers) {
		t.Error(err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "victim" {
		t.Errorf("%q, %v", b, err)
	}
}
