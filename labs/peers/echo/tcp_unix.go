//go:build unix

package echo

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const rawUnfit = ""

// sysFD is a rawFD of the kernel's. Closing it twice would close another file.
type sysFD int

// takeFD takes the socket out of a TCP connection, and so out of Go's poller. It closes
// the connection in any case; the socket goes on, non-blocking and without delay.
func takeFD(c net.Conn) (fd sysFD, err error) {
	defer func() { _ = c.Close() }()
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return -1, fmt.Errorf("tcp: connection of type %T", c)
	}
	if err := tcp.SetNoDelay(true); err != nil {
		return -1, err
	}
	n, err := dup(tcp)
	return sysFD(n), err
}

// dup returns another descriptor of a connection's socket: non-blocking, out of Go's poller.
func dup(c syscall.Conn) (fd int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd, dupErr := -1, error(nil)
	if err := raw.Control(func(of uintptr) { fd, dupErr = unix.Dup(int(of)) }); err != nil {
		return -1, err
	}
	if dupErr != nil {
		return -1, os.NewSyscallError("dup", dupErr)
	}
	unix.CloseOnExec(fd)
	return fd, nil
}

// Read implements rawFD.
func (f sysFD) Read(b []byte) (int, error) {
	n, err := unix.Read(int(f), b)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements rawFD.
func (f sysFD) Write(b []byte) (int, error) {
	n, err := unix.Write(int(f), b)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, os.NewSyscallError("write", err)
	}
	return n, nil
}

// Close implements rawFD.
func (f sysFD) Close() error { return os.NewSyscallError("close", unix.Close(int(f))) }
