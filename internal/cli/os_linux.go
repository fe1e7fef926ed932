package cli

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// PinThread pins the calling thread to a core.
func PinThread(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}

// AllowedCores returns the cores that the calling thread may use; nil if that is not known.
func AllowedCores() (cores []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cores = append(cores, c)
		}
	}
	return cores
}

// OwnGroup keeps a terminal's Ctrl-C from the child: the parent ends it.
func OwnGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
