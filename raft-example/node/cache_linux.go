package node

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetCached asks the system to read the file from the disk the next time. What was written
// and is not on the disk yet stays in memory.
func forgetCached(f *os.File, size int64) {
	_ = unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED) // only a request
}
