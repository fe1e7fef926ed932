package memcached

import (
	"net"
	"syscall"
)

// tellEarly has the kernel of a TCP connection take only so much beyond what is under way: so a
// write ends when the client takes some bytes, and not when a third of a large buffer is free.
func tellEarly(nc net.Conn) {
	sc, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := sc.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { // without it slow clients have less time
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowat, 2*piece)
		})
	}
}

// notSentLowat is TCP_NOTSENT_LOWAT, tcp(7).
const notSentLowat = 25
