package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestOwn: one at a time has the file that has the name, whether it is there, is moved away or
// removed meanwhile.
func TestOwn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 300 {
				f, err := Own(name)
				if errors.Is(err, ErrHeld) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if !Names(name, f) {
					t.Error("it has locked a file that has another name")
				}
				if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
					t.Error(info, err)
				}
				if err := errors.Join(os.Remove(name), f.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestOwnOfOthers: a file in which others have a hand is left alone.
func TestOwnOfOthers(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := errors.Join(os.WriteFile(name, []byte("x"), 0o600), os.Chmod(name, 0o666)); err != nil {
		t.Fatal(err)
	}
	if _, err := Own(name); !errors.Is(err, ErrOthers) {
		t.Error(err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "x" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Own(filepath.Join(name, "x")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in no folder: %v", err)
	}
}
