package node

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetCached asks the system to read the file from the disk the next time. Written bytes that are
// not on the disk yet stay in memory.
func forgetCached(f *os.File, size int64) {
	_ = unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_DONTNEED) // only a request
}
