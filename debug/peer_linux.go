package debug

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// supported says that peers can be asked for.
const supported = true

// peerOf returns the user of the process that connected (unix(7), SO_PEERCRED).
func peerOf(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var serr error
	if err := raw.Control(func(fd uintptr) {
		cred, serr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if serr != nil {
		return 0, os.NewSyscallError("getsockopt", serr)
	}
	return int(cred.Uid), nil
}

// ownerOf returns the user who owns a file.
func ownerOf(i os.FileInfo) int {
	if st, ok := i.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
