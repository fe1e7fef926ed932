package snapshot

import (
	"os"
	"syscall"
)

// locks says that others see which files are in use.
const locks = true

// lock locks a file for as long as this process has it open; wait says whether it waits for others.
// The kernel ends a lock with its process.
func lock(f *os.File, wait bool) error {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err := syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
