package benchrows

import (
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Pin puts this process on a core, if there is more than one.
func Pin(core int) { PinProcess(os.Getpid(), core) }

// PinProcess puts all threads of a process on a core; those that they start follow.
func PinProcess(pid, core int) {
	if runtime.NumCPU() < 2 {
		return
	}
	var set unix.CPUSet
	set.Set(core)
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.SchedSetaffinity(id, &set) // without it the figures are worse, not wrong
		}
	}
}
