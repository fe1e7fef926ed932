package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawRecv is recvfrom without a place for the address.
func rawRecv(fd int, p []byte) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), 0, 0, 0)
	return e
}
