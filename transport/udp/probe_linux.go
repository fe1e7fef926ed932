package udp

import (
	"fmt"
	"os"
	"sync"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// The kernel's UDP_MAX_SEGMENTS, since and before Linux 6.9.
const (
	newSegments = 128
	oldSegments = 64
)

// maxSegments returns how many packets a train may have, 1 if there are no
// trains. It tries once, with a socket that sends to itself.
var maxSegments = sync.OnceValue(func() int {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return oldSegments // no IPv4; a kernel without GSO will refuse the first train
	}
	defer unix.Close(fd)
	if _, err := unix.GetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT); err != nil {
		return 1
	}
	loop := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if unix.Bind(fd, loop) != nil || unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 1) != nil {
		return oldSegments
	}
	self, err := unix.Getsockname(fd)
	if err != nil || unix.Sendto(fd, make([]byte, newSegments), 0, self) != nil {
		return oldSegments
	}
	return newSegments
})

// Probe reports what the kernel offers, for diagnosis. It opens sockets on the
// loopback interface for a moment.
func Probe() Features {
	f := Features{MaxSegments: maxSegments()}
	f.GSO = f.MaxSegments > 1
	_, errno := sysSendmmsg(-1, nil)
	f.MultiCall = errno == unix.EBADF
	if fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		f.IPv6 = unix.Bind(fd, &unix.SockaddrInet6{Addr: [16]byte{15: 1}}) == nil
		f.DualStack = f.IPv6 &&
			unix.SetsockoptInt(fd, unix.SOL_IPV6, unix.IPV6_V6ONLY, 0) != unix.ENOPROTOOPT
		unix.Close(fd)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return f
	}
	defer unix.Close(fd)
	f.GRO = enableGRO(fd)
	f.ECN = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_RECVTOS, 1) == nil
	f.ForceBuffer = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, defaultBuffer) == nil
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, defaultBuffer)
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, defaultBuffer)
	f.RecvBuffer = grantedBuffer(fd, unix.SO_RCVBUF) / 2
	f.SendBuffer = grantedBuffer(fd, unix.SO_SNDBUF) / 2
	return f
}

// PathMTU returns the largest packet, in bytes of UDP payload, that the kernel
// believes fits the path to dst: the interface's limit, or less if routers said
// so. Nothing is sent.
func PathMTU(dst transport.Addr) (int, error) {
	ip := dst.AddrPort().Addr()
	var sa sockaddr
	if !dst.IsValid() || !sa.put(&dst, ip.Is4()) {
		return 0, badAddress(dst.String(), "not an address to send to")
	}
	family, level, opt := unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_MTU
	if ip.Is4() {
		family, level, opt = unix.AF_INET, unix.SOL_IP, unix.IP_MTU
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("udp: %w", os.NewSyscallError("socket", err))
	}
	defer unix.Close(fd)
	l := listenAddr{ap: dst.AddrPort(), scope: dst.Scope}
	if err := unix.Connect(fd, l.sockaddr()); err != nil {
		return 0, fmt.Errorf("udp: %w", os.NewSyscallError("connect", err))
	}
	mtu, err := unix.GetsockoptInt(fd, level, opt)
	if err != nil {
		return 0, fmt.Errorf("udp: %w", os.NewSyscallError("getsockopt", err))
	}
	return payload(mtu, ip), nil
}
