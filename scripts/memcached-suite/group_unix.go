//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// group gives a program a group of processes, which the returned function ends.
func group(cmd *exec.Cmd) (end func() error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
