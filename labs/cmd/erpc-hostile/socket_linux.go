package main

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// socket is a UDP socket that sends from any address of 127.0.0.0/8.
type socket struct {
	fd    int
	to    unix.SockaddrInet4
	oob   []byte // IP_PKTINFO with the source address
	epoch uint64 // of the endpoint that it plays; 0: another one for each session
}

// openTo returns a socket to a target, which must be on this machine.
func openTo(target string) (*socket, error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil || !to.Addr().Is4() || !to.Addr().IsLoopback() {
		return nil, errors.New("the target must be an address of 127.0.0.0/8 with a port")
	}
	return open(to)
}

// open returns a socket to a target.
func open(target netip.AddrPort) (*socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &socket{fd: fd, to: unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()}}
	tv := unix.Timeval{Usec: 100_000}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrInet4{}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv))
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return s, nil
}

// send sends a packet from an address. Packets that the kernel has no room for are lost, as on any
// network. Any other error names the address.
func (s *socket) send(pkt []byte, from [4]byte) error {
	s.oob = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from})
	_, err := unix.SendmsgN(s.fd, pkt, s.oob, &s.to, 0)
	if errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.EAGAIN) ||
		errors.Is(err, unix.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sending from %v: %w", netip.AddrFrom4(from), err)
	}
	return nil
}

// receive returns the next packet, nil if none comes within a tenth of a second.
func (s *socket) receive() ([]byte, error) {
	b := make([]byte, 1<<16)
	n, _, err := unix.Recvfrom(s.fd, b, 0)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil, nil
	}
	return b[:max(n, 0)], err
}

func (s *socket) close() { _ = unix.Close(s.fd) }
