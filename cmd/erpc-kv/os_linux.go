package main

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// pinThread pins the calling thread to a core.
func pinThread(core int) error {
	var set unix.CPUSet
	set.Set(core)
	return unix.SchedSetaffinity(0, &set)
}

// ownGroup keeps a terminal's Ctrl-C from the child: the parent ends it.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
