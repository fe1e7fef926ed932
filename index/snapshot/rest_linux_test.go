package snapshot_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/userspace-rpc/erpc/index/snapshot"
)

// TestRest: a snapshot removes what processes left that were killed while they wrote one, but no
// file that a living one writes, and none of others.
func TestRest(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "index")
	if err := os.Mkdir(name+".5.new", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{".1.new", ".234567.new", ".7.new", ".x.new", "..new", ".1.new.1",
		"x.1.new"} {
		if err := os.WriteFile(name+s, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := os.Open(name + ".7.new")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(alive.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	there := func(want int, gone ...string) {
		t.Helper()
		if _, err := snapshot.Save(name, filled(10), at); err != nil {
			t.Fatal(err)
		}
		for _, s := range gone {
			if _, err := os.Lstat(name + s); !os.IsNotExist(err) {
				t.Errorf("%s is there: %v", s, err)
			}
		}
		if files, err := os.ReadDir(dir); len(files) != want || err != nil {
			t.Errorf("%d files, want %d: %v, %v", len(files), want, files, err)
		}
	}
	there(7, ".1.new", ".234567.new")
	if err := alive.Close(); err != nil {
		t.Fatal(err)
	}
	there(6, ".7.new")
}
