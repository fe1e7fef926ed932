package debug

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/userspace-rpc/erpc/internal/ownfile"
)

// Dir returns the folder of this user's debug sockets: erpc-debug in $XDG_RUNTIME_DIR, if that is
// this user's, or else erpc-debug-UID in the folder for temporary files, or one that begins with
// erpc-debug-UID- if another user has taken that.
func Dir() string {
	dir, _ := ownfile.Runtime("erpc-debug", false) // it makes nothing, so nothing fails
	return dir
}

// ownDir makes Dir, and refuses one that others may enter.
func ownDir() (string, error) {
	dir, err := ownfile.Runtime("erpc-debug", true)
	if err == nil {
		err = checkDir(dir)
	}
	if err != nil {
		return "", fmt.Errorf("debug: %w", err)
	}
	return dir, nil
}

// checkDir says what is wrong with a folder, if others may enter it.
func checkDir(dir string) error {
	f, err := ownfile.OpenDir(dir, ownfile.Private)
	if err != nil {
		return err
	}
	return f.Close()
}

// removeStale removes the socket of a process that has ended. Anything else at path stays.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("debug: %w", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("debug: %s is in the way: it is no socket", path)
	}
	if !ownfile.Mine(path) {
		return fmt.Errorf("debug: %s is in the way: it belongs to another user", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("debug: %s is in use", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("debug: %w", err)
	}
	return os.Remove(path)
}

// Find returns the debug sockets of this user's running programs in Dir. Nothing in a folder that
// others may enter is one.
func Find() (paths []string) {
	dir := Dir()
	if checkDir(dir) != nil {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, n := range names {
		if c, err := net.Dial("unix", n); err == nil {
			_ = c.Close()
			paths = append(paths, n)
		}
	}
	return paths
}
