//go:build unix

package verbs

import "syscall"

func setNonblock(fd int) error { return syscall.SetNonblock(fd, true) }
