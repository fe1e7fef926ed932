package afpacket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/link"
	"golang.org/x/sys/unix"
)

// Conn is an endpoint over a packet socket.
type Conn struct {
	*rawudp.Conn
	dev      *device
	unguard  error
	wantedIt bool
}

// Listen opens an endpoint on addr: "host:port", where host is an IP address of the interface; an
// empty one means the interface's first address, IPv4 before IPv6, and port 0 one that the
// system picks. The interface and its addresses are those of the calling thread's network
// namespace. Errors match transport.ErrBadAddress or transport.ErrUnsupported, are a *ConfigError,
// a *rawudp.LinkError, a *rawudp.PrivilegeError, or the system's. The caller must Close the Conn.
func Listen(addr string, cfg Config) (*Conn, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	ip, port, err := parseListen(addr)
	if err != nil {
		return nil, err
	}
	network, ip, err := link.Open(cfg.Interface, ip, link.Config{Neighbours: cfg.Neighbours})
	if err != nil {
		return nil, err
	}
	local := rawudp.Local{IP: ip, Port: port, ECN: cfg.ECN}
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		local.Scope = uint32(network.Link().Index)
	}
	dev, err := open(network.Link(), &local, cfg)
	if err != nil {
		network.Close()
		return nil, err
	}
	c := &Conn{dev: dev, unguard: dev.guardErr, wantedIt: cfg.Guard != GuardOff}
	c.Conn, err = rawudp.New(dev, network, local, rawudp.Config{
		MTU: cfg.MTU, LinkGrace: cfg.LinkGrace, NeighbourTimeout: cfg.NeighbourTimeout,
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Guarded reports whether the guard keeps the kernel's IP stack from the endpoint's frames, and
// if it does not, why: nil if it was not wanted.
func (c *Conn) Guarded() (bool, error) { return c.wantedIt && c.unguard == nil, c.unguard }

// parseListen splits addr. The zero Addr means the interface's own.
func parseListen(addr string) (netip.Addr, uint16, error) {
	bad := func(why string) (netip.Addr, uint16, error) {
		return netip.Addr{}, 0, fmt.Errorf("afpacket: %w: %.100q: %s", transport.ErrBadAddress, addr, why)
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return bad("want host:port")
	}
	port, err := net.LookupPort("udp", service)
	if err != nil {
		return bad("no such port")
	}
	if host == "" {
		return netip.Addr{}, uint16(port), nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return bad("want an IP address of the interface")
	}
	if ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() {
		return bad("not an address of one Ethernet interface")
	}
	return ip, uint16(port), nil
}

// reserve opens a kernel UDP socket on the endpoint's address and port, which drops what it gets.
// It sets l.Port if that was 0. See package doc.
func reserve(l *rawudp.Local) (fd int, err error) {
	family, name := unix.AF_INET,
		unix.Sockaddr(&unix.SockaddrInet4{Port: int(l.Port), Addr: [4]byte(l.IP.AsSlice())})
	if l.IP.Is6() {
		family, name = unix.AF_INET6,
			&unix.SockaddrInet6{Port: int(l.Port), Addr: l.IP.As16(), ZoneId: l.Scope}
	}
	if fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return -1, fmt.Errorf("afpacket: %w", os.NewSyscallError("socket", err))
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		filterProgram(dropAll()))
	if err == nil {
		err = unix.Bind(fd, name)
	}
	var got unix.Sockaddr
	if err == nil {
		got, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("afpacket: reserving %v: %w", netip.AddrPortFrom(l.IP, l.Port), err)
	}
	switch got := got.(type) {
	case *unix.SockaddrInet4:
		l.Port = uint16(got.Port)
	case *unix.SockaddrInet6:
		l.Port = uint16(got.Port)
	}
	return fd, nil
}

// privilege returns err as a *rawudp.PrivilegeError if it is about rights.
func privilege(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return &rawudp.PrivilegeError{Need: "CAP_NET_RAW", For: "packet socket", Err: err}
	}
	return fmt.Errorf("afpacket: %w", os.NewSyscallError("socket", err))
}
