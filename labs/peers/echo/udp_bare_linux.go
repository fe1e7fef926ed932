package echo

import (
	"net"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const bareUnfit = ""

// mmsghdr is struct mmsghdr of recvmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
}

// bareSocket is a bareFD of the kernel's.
type bareSocket struct {
	packetFD
	headers []mmsghdr
	buffers [][]byte
	iovs    []unix.Iovec
}

// takeBare takes the socket out of a connection, and closes that.
func takeBare(c *net.UDPConn) (*bareSocket, error) {
	defer func() { _ = c.Close() }()
	fd, err := dup(c)
	if err != nil {
		return nil, err
	}
	s := &bareSocket{packetFD: packetFD(fd), headers: make([]mmsghdr, bareBurst),
		iovs: make([]unix.Iovec, bareBurst)}
	for i := range s.headers {
		s.buffers = append(s.buffers, make([]byte, 1<<16))
		s.iovs[i].Base = unsafe.SliceData(s.buffers[i])
		s.iovs[i].SetLen(len(s.buffers[i]))
		s.headers[i].hdr.Iov = &s.iovs[i]
		s.headers[i].hdr.SetIovlen(1)
	}
	for _, opt := range []struct{ level, name, value int }{
		{unix.SOL_UDP, unix.UDP_SEGMENT, barePacket}, {unix.SOL_UDP, unix.UDP_GRO, 1},
		{unix.SOL_SOCKET, unix.SO_RCVBUF, bareBuffer}, {unix.SOL_SOCKET, unix.SO_SNDBUF, bareBuffer},
	} {
		if err := unix.SetsockoptInt(fd, opt.level, opt.name, opt.value); err != nil {
			_ = s.Close()
			return nil, os.NewSyscallError("setsockopt", err)
		}
	}
	// More than the system's limit takes rights; without them datagrams are lost sooner.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, bareBuffer)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, bareBuffer)
	return s, nil
}

// RecvTrains implements bareFD.
func (s *bareSocket) RecvTrains(trains [][]byte) (int, error) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.packetFD),
		uintptr(unsafe.Pointer(unsafe.SliceData(s.headers))), uintptr(min(len(trains), len(s.headers))),
		unix.MSG_DONTWAIT, 0, 0)
	switch {
	case e == unix.EAGAIN || e == unix.EINTR:
		return 0, nil
	case e != 0:
		return 0, os.NewSyscallError("recvmmsg", e)
	}
	for i := range n {
		trains[i] = s.buffers[i][:s.headers[i].n]
	}
	return int(n), nil
}
