package udp

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openSocket opens and binds a socket as l and cfg say. ip4 is its family. A
// wish for all addresses falls back to IPv4 where there is no IPv6.
func openSocket(l listenAddr, cfg Config) (fd int, ip4 bool, err error) {
	ip4 = isIPv4(l.ap.Addr())
	fd, err = bindSocket(l, ip4, cfg)
	if err != nil && l.any {
		if any4, _ := parseListen(fmt.Sprintf("0.0.0.0:%d", l.ap.Port())); any4.ap.IsValid() {
			if fd4, err4 := bindSocket(any4, true, cfg); err4 == nil {
				return fd4, true, nil
			}
		}
	}
	return fd, ip4, err
}

func bindSocket(l listenAddr, ip4 bool, cfg Config) (int, error) {
	family := unix.AF_INET6
	if ip4 {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := setOptions(fd, l, ip4, cfg); err != nil {
		unix.Close(fd)
		return -1, err
	}
	if err := unix.Bind(fd, l.sockaddr()); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("udp: %v: %w", l.ap, os.NewSyscallError("bind", err))
	}
	return fd, nil
}

// option is one socket option.
type option struct {
	name       string
	level, opt int
	value      int
}

func setOptions(fd int, l listenAddr, ip4 bool, cfg Config) error {
	// Fixed-size packets and probing by the layers above: never fragment, and do
	// not believe path MTUs learnt from ICMP, which anybody can forge (RFC 8899).
	opts := []option{{"IP_MTU_DISCOVER", unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}}
	if !ip4 {
		opts = append(opts,
			option{"IPV6_V6ONLY", unix.SOL_IPV6, unix.IPV6_V6ONLY, 0},
			option{"IPV6_MTU_DISCOVER", unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
			option{"IPV6_DONTFRAG", unix.SOL_IPV6, unix.IPV6_DONTFRAG, 1})
	}
	if cfg.ReusePort {
		opts = append(opts, option{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	if cfg.ECN {
		opts = append(opts, ecnOptions(ip4)...)
	}
	if l.wildcard() {
		opts = append(opts, pktinfoOptions(ip4)...)
	}
	for _, o := range opts {
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("udp: %w", os.NewSyscallError("setsockopt "+o.name, err))
		}
	}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, cfg.RecvBuffer)
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, cfg.SendBuffer)
	return nil
}

// ecnOptions marks sent packets ECT(0) and asks for the mark of received ones.
// A dual-stack socket needs both families' options.
func ecnOptions(ip4 bool) []option {
	const ect0 = 2
	opts := []option{
		{"IP_TOS", unix.SOL_IP, unix.IP_TOS, ect0},
		{"IP_RECVTOS", unix.SOL_IP, unix.IP_RECVTOS, 1},
	}
	if ip4 {
		return opts
	}
	return append(opts,
		option{"IPV6_TCLASS", unix.SOL_IPV6, unix.IPV6_TCLASS, ect0},
		option{"IPV6_RECVTCLASS", unix.SOL_IPV6, unix.IPV6_RECVTCLASS, 1})
}

// setBuffer asks for a buffer of size bytes: beyond the system's limit if this
// process may, else up to it. grantedBuffer reads the size that was granted.
func setBuffer(fd, force, plain, size int) {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, force, size) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, plain, size)
	}
}

// grantedBuffer returns the buffer size in bytes that the kernel uses: twice
// what was asked for, since it counts its own overhead (socket(7)).
func grantedBuffer(fd, opt int) int {
	n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, opt)
	if err != nil {
		return 0
	}
	return n
}

// enableGRO asks for whole trains and reports whether the kernel agrees.
func enableGRO(fd int) bool {
	return unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1) == nil
}
