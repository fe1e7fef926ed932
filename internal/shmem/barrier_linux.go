package shmem

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Commands of membarrier(2).
const (
	barrierQuery    = 0
	barrierGlobal   = 1 << 1 // a barrier in the running threads of all registered processes
	barrierRegister = 1 << 2
)

// CanBarrier reports whether this process can make others pass a barrier, and passes
// theirs (Linux 4.16, unless a sandbox forbids it).
var CanBarrier = sync.OnceValue(func() bool {
	can, _, err := unix.Syscall(unix.SYS_MEMBARRIER, barrierQuery, 0, 0)
	if err != 0 || can&barrierGlobal == 0 || can&barrierRegister == 0 {
		return false
	}
	_, _, err = unix.Syscall(unix.SYS_MEMBARRIER, barrierRegister, 0, 0)
	return err == 0
})

// barrier returns when the threads of all processes for which CanBarrier was called have
// passed a memory barrier since it began.
func barrier() {
	if CanBarrier() {
		_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, barrierGlobal, 0, 0)
	}
}
