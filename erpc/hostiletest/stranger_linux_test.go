package hostiletest

import (
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// stranger is a UDP socket that sends from any address of 127.0.0.0/8, which any user may.
type stranger struct {
	l  *lab
	fd int
	to unix.SockaddrInet4
	b  [1 << 16]byte
}

// newStranger opens a socket towards a server of this machine.
func newStranger(l *lab, server string) *stranger {
	l.Helper()
	to := netip.MustParseAddrPort(server)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = unix.Close(fd) })
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrInet4{}),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4<<20))
	if err != nil {
		l.Fatal(err)
	}
	return &stranger{l: l, fd: fd, to: unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}}
}

// send sends a packet from an address. It reports whether the kernel took it.
func (s *stranger) send(pkt []byte, from [4]byte) bool {
	oob := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from})
	_, err := unix.SendmsgN(s.fd, pkt, oob, &s.to, 0)
	switch {
	case err == nil:
		return true
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOBUFS):
		return false
	}
	s.l.Fatalf("a packet from %v: %v", netip.AddrFrom4(from), err)
	return false
}

// receive returns a packet that has come to any of the addresses, nil if there is none.
func (s *stranger) receive() []byte {
	n, _, err := unix.Recvfrom(s.fd, s.b[:], 0)
	if err != nil {
		return nil
	}
	return s.b[:n]
}

// addressOf returns address i of 127.0.0.0/8, each once: from 127.0.0.2 to 127.255.255.253.
func addressOf(i int) [4]byte {
	const count = 1<<24 - 4
	n := 2 + i%count
	return [4]byte{127, byte(n >> 16), byte(n >> 8), byte(n)}
}
