package udptest

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// dieWithParent makes the kernel kill a child whose parent dies, also a stopped one.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// residentBytes returns this process's resident memory, or 0 if that is unknown.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64) // 0 if it is no number
	return pages * int64(os.Getpagesize())
}
