package memcached

import (
	"net"
	"syscall"
	"testing"

	"github.com/userspace-rpc/erpc/kv/mica"
)

// TestTellEarly: the kernel keeps little of what a slow client has not taken, and so the server
// sees that it takes some: otherwise a third of a buffer of megabytes has to go in a WriteTimeout.
func TestTellEarly(t *testing.T) {
	s, _ := newServer(t, 1, mica.Config{})
	say(t, listen(t, s)(), "mn\r\n", "MN\r\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	for nc := range s.conns {
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if e := raw.Control(func(fd uintptr) {
			n, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowat)
		}); e != nil || err != nil || n != 2*piece {
			t.Errorf("%d, %v, %v", n, e, err)
		}
	}
}
