//go:build unix

package wal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// TestOthersFiles: a folder where others may write serves, but what another user has put there in
// the place of a file is not written through.
func TestOthersFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can give files away, and CI=true")
		}
		t.Skip("only root can give files away")
	}
	for _, name := range []string{lockName, logName + newName, markName} {
		path, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
		put := func() error {
			link := filepath.Join(path, name)
			return errors.Join(os.Symlink(victim, link), os.Lchown(link, 65533, 65533))
		}
		if err := errors.Join(os.Chmod(path, 0o777|fs.ModeSticky),
			os.WriteFile(victim, []byte("victim"), 0o600), put()); err != nil {
			t.Fatal(err)
		}
		var others *outfile.OthersError
		_, _, err := Open(path, Identity{1, 1, 1, 0})
		if !errors.As(err, &others) || others.File != filepath.Join(path, name) || others.Owner != 65533 {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != "victim" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	path := t.TempDir()
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	d, _, err := Open(path, Identity{1, 1, 1, 0})
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		t.Errorf("a folder of mode 0777: %v", err)
	}
}
