package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// ErrHeld is matched by the errors of a file that somebody else has locked.
var ErrHeld = errors.New("another process has the lock")

// HeldError says who holds a lock. It matches ErrHeld.
type HeldError struct {
	File   string
	Holder string // `process 4711 on "host"`, or "another process" if it is not known
}

func (e *HeldError) Error() string { return fmt.Sprintf("%s holds %s", e.Holder, e.File) }

// Is makes errors.Is find ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// Lock is a lock that this process holds.
type Lock struct{ f *os.File }

// Take takes the lock that a file stands for, which it makes if there is none. Errors: a
// *HeldError, and those of the system.
func Take(name string) (*Lock, error) {
	// Not for reading only: over NFS an exclusive lock needs a file that can be written.
	f, err := outfile.Open(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := File(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	// What a holder before it wrote is longer, or not.
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d %s\n", os.Getpid(), host)
	}
	l := &Lock{f}
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// File locks an open file until it is closed. Errors: a *HeldError, and those of the system.
func File(f *os.File) error {
	err := lock(f)
	if errors.Is(err, ErrHeld) {
		return &HeldError{f.Name(), holder(f)}
	}
	if err != nil {
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

// holder reads who has a lock.
func holder(f *os.File) string {
	b, _ := io.ReadAll(io.NewSectionReader(f, 0, 300))
	var pid uint32
	var host string
	if _, err := fmt.Sscanf(string(b), "%d %s\n", &pid, &host); err != nil {
		return "another process" // it is about to write it, or the file is another kind's
	}
	return fmt.Sprintf("process %d on %.64q", pid, host)
}

// Release gives the lock back. Without unlock a child that is being started would hold it for a
// moment longer.
func (l *Lock) Release() error { return errors.Join(unlock(l.f), l.f.Close()) }
