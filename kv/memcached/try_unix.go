//go:build unix

package memcached

import (
	"net"
	"syscall"
)

// tryReader returns a function that reads what is there without waiting: n is 0 if there is
// nothing. What it cannot read, an error or an end, the next ordinary read finds. It is nil for
// connections that are no sockets.
func tryReader(nc net.Conn) func(b []byte) (n int) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var buf []byte
	var n int
	once := func(fd uintptr) bool {
		n, err = syscall.Read(int(fd), buf)
		return true
	}
	return func(b []byte) int {
		buf, n = b, 0
		if raw.Read(once) != nil || err != nil {
			n = 0
		}
		buf = nil
		return n
	}
}
