package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// place is a byte far behind all contents: others cannot read bytes that are locked.
func place() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 0x7fffffff} }

func lock(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, place())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrHeld
	}
	return err
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, place())
}
