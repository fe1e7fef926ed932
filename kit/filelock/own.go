package filelock

import (
	"errors"
	"os"

	"github.com/userspace-rpc/erpc/internal/ownfile"
)

// ErrOthers is matched by the errors of a file that other users could have put there, change or
// read.
var ErrOthers = ownfile.ErrOthers

// Own opens a file to read and write it, and locks it until it is closed. It makes the file, of
// mode 0600, if there is none; one that is there must be a regular file of this user, without
// another name, to which nobody else has a right. Its name is that of the locked file when Own
// returns. Errors: a *HeldError, those that match ErrOthers, and those of the system.
func Own(name string) (*os.File, error) {
	for {
		f, err := ownfile.OpenOwn(name)
		if err != nil {
			return nil, err
		}
		if err := File(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if Names(name, f) {
			return f, nil
		}
		_ = f.Close() // who had the lock has given the file another name, or removed it
	}
}

// Names reports whether a name is that of an open file.
func Names(name string, f *os.File) bool {
	a, err := f.Stat()
	b, err2 := os.Lstat(name)
	return err == nil && err2 == nil && os.SameFile(a, b)
}
