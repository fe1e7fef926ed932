//go:build !linux

package udptest

import "syscall"

// dieWithParent has nothing to set here: children end when their input ends.
func dieWithParent() *syscall.SysProcAttr { return nil }

func residentBytes() int64 { return 0 }
