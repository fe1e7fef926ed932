package sys

import "golang.org/x/sys/unix"

// Yield lets another thread of the machine have the processor, if one waits for it. The caller's
// goroutine stays on its thread and the Go scheduler hears nothing of it, which makes Yield much
// cheaper than runtime.Gosched while no other goroutine is to run.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
