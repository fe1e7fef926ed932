package debug

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Dir returns the folder of this user's debug sockets: erpc-debug in $XDG_RUNTIME_DIR, or else
// erpc-debug-UID in the folder for temporary files.
func Dir() string {
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "erpc-debug")
	}
	return filepath.Join(os.TempDir(), "erpc-debug-"+strconv.Itoa(os.Geteuid()))
}

// ownDir makes Dir, and refuses one that others may enter.
func ownDir() (string, error) {
	dir := Dir()
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("debug: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("debug: %w", err)
	}
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || ownerOf(info) != os.Geteuid() {
		return "", fmt.Errorf("debug: %s is not a folder that only this user may enter", dir)
	}
	return dir, nil
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

// Find returns the debug sockets of this user's running programs in Dir.
func Find() (paths []string) {
	names, _ := filepath.Glob(filepath.Join(Dir(), "*.sock"))
	for _, n := range names {
		if c, err := net.Dial("unix", n); err == nil {
			_ = c.Close()
			paths = append(paths, n)
		}
	}
	return paths
}
