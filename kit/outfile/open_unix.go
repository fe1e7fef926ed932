//go:build unix && !linux

package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	for {
		dir, err := os.Stat(filepath.Dir(name))
		if err != nil {
			return nil, err
		}
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0 {
			f, err := os.OpenFile(name, flag|os.O_EXCL, perm)
			if errors.Is(err, fs.ErrExist) {
				continue // somebody was faster
			}
			return f, err
		}
		if err == nil {
			err = check(name, dir, info, perm)
		}
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return os.OpenFile(name, flag, perm)
		}
		f, err := os.OpenFile(name, flag&^os.O_CREATE|syscall.O_NOFOLLOW, perm)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed
		}
		if err != nil {
			return nil, err
		}
		if info, err = f.Stat(); err == nil {
			err = check(name, dir, info, perm) // what has the name by now
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}
