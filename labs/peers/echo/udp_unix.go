//go:build unix

package echo

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// packetFD is a rawPackets of the kernel's. Closing it twice would close another file.
type packetFD int

// takePackets takes the socket out of a connection, and so out of Go's poller. It closes the
// connection in any case; the socket goes on, non-blocking.
func takePackets(c *net.UDPConn) (fd packetFD, err error) {
	defer func() { _ = c.Close() }()
	_ = c.SetReadBuffer(udpBuffer) // the system may give less: then datagrams are lost sooner
	n, err := dup(c)
	return packetFD(n), err
}

// connect makes the socket send to another address and receive from there alone.
func (f packetFD) connect(to netip.AddrPort) error {
	if !to.Addr().Is4() {
		return errors.New("udp: want an IPv4 address")
	}
	return os.NewSyscallError("connect",
		unix.Connect(int(f), &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}))
}

// Recv implements rawPackets.
func (f packetFD) Recv(b []byte) (n int, ok bool, err error) {
	n, err = recvfrom(int(f), b)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, false, nil
	case err != nil:
		return 0, false, os.NewSyscallError("recvfrom", err)
	}
	return n, true, nil
}

// Send implements rawPackets.
func (f packetFD) Send(b []byte) (ok bool, err error) {
	switch err := sendto(int(f), b); {
	case err == unix.EAGAIN || err == unix.EINTR || err == unix.ENOBUFS:
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("sendto", err)
	}
	return true, nil
}

// Close implements rawPackets.
func (f packetFD) Close() error { return os.NewSyscallError("close", unix.Close(int(f))) }
