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

// ownMode makes the file of a socket, which bind(2) creates later, one of this user alone: there is
// no time in which others could connect, nor a name that could lead elsewhere by then.
func ownMode(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return os.NewSyscallError("fchmod", err)
}
