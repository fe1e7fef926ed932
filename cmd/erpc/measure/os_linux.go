package measure

import (
	"net"
	"net/netip"
	"os"
	"syscall"

	"github.com/userspace-rpc/erpc/kit/cli"
	"golang.org/x/sys/unix"
)

// initial is where this process may run, before any thread was pinned.
var initial = cli.AllowedCores()

// allowedCores returns the cores that this process may use.
func allowedCores() []int { return initial }

// dumpSignals make a program write what it has recorded.
var dumpSignals = []os.Signal{syscall.SIGUSR2}

// plainSocket is a UDP socket without any of the transport's cleverness: one system
// call per packet, never blocking.
type plainSocket struct {
	fd        int
	connected bool
	buf       []byte
}

func openPlain(local netip.AddrPort) (*plainSocket, error) {
	family := unix.AF_INET6
	if local.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &plainSocket{fd: fd, buf: make([]byte, 1<<16)}
	if err := unix.Bind(fd, plainAddr(local)); err != nil {
		_ = s.close()
		return nil, err
	}
	return s, nil
}

func plainAddr(ap netip.AddrPort) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: ap.Addr().As4(), Port: int(ap.Port())}
	}
	return &unix.SockaddrInet6{Addr: ap.Addr().As16(), Port: int(ap.Port())}
}

// listenPlain opens a socket on host and returns its address.
func listenPlain(host string) (*plainSocket, string, error) {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil, "", err
	}
	s, err := openPlain(netip.AddrPortFrom(ip.Unmap(), 0))
	if err != nil {
		return nil, "", err
	}
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		_ = s.close()
		return nil, "", err
	}
	port := 0
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		port = a.Port
	case *unix.SockaddrInet6:
		port = a.Port
	}
	return s, netip.AddrPortFrom(ip.Unmap(), uint16(port)).String(), nil
}

// dialPlain opens a socket connected to addr.
func dialPlain(addr string) (*plainSocket, error) {
	ua, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	to := ua.AddrPort()
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	local := netip.IPv6Unspecified()
	if to.Addr().Is4() {
		local = netip.IPv4Unspecified()
	}
	s, err := openPlain(netip.AddrPortFrom(local, 0))
	if err != nil {
		return nil, err
	}
	if err := unix.Connect(s.fd, plainAddr(to)); err != nil {
		_ = s.close()
		return nil, err
	}
	s.connected = true
	return s, nil
}

func (s *plainSocket) close() error { return unix.Close(s.fd) }

// soft turns errors that only mean "nothing now" into nil.
func soft(err error) error {
	switch err {
	case unix.EAGAIN, unix.EINTR, unix.ECONNREFUSED, unix.ENOBUFS:
		return nil
	}
	return err
}

func (s *plainSocket) write(b []byte) error {
	_, err := unix.Write(s.fd, b)
	return soft(err)
}

// read returns the size of a packet, 0 if there is none.
func (s *plainSocket) read() (int, error) {
	n, err := unix.Read(s.fd, s.buf)
	return max(n, 0), soft(err)
}

// echo answers a packet if there is one, and returns how many. The first sender is
// the only client.
func (s *plainSocket) echo(size int) (int, error) {
	if !s.connected {
		n, from, err := unix.Recvfrom(s.fd, s.buf, 0)
		if n <= 0 || err != nil {
			return 0, soft(err)
		}
		s.connected = true
		if err := unix.Connect(s.fd, from); err != nil {
			return 0, err
		}
	} else if n, err := s.read(); n == 0 || err != nil {
		return 0, err
	}
	return 1, s.write(s.buf[:size])
}
