package udp

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"unsafe"

	"github.com/userspace-rpc/erpc/transport"
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

// isSet reports whether a socket has the option.
func (o *option) isSet(fd int) bool {
	value, err := unix.GetsockoptInt(fd, o.level, o.opt)
	return err == nil && value == o.value
}

// neededOptions returns the options without which a socket is not what was asked for.
func neededOptions(ip4 bool, cfg Config) (opts []option) {
	if !ip4 {
		opts = append(opts, option{"IPV6_V6ONLY", unix.SOL_IPV6, unix.IPV6_V6ONLY, 0})
	}
	if cfg.ReusePort {
		opts = append(opts, option{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	return opts
}

// wholeOptions are for fixed-size packets and probing by the layers above: never fragment, and do
// not believe path MTUs learnt from ICMP, which anybody can forge (RFC 8899).
func wholeOptions(ip4 bool) []option {
	opts := []option{{"IP_MTU_DISCOVER", unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE}}
	if ip4 {
		return opts
	}
	return append(opts,
		option{"IPV6_MTU_DISCOVER", unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE},
		option{"IPV6_DONTFRAG", unix.SOL_IPV6, unix.IPV6_DONTFRAG, 1})
}

// setOptions sets what a socket needs, and what it is better for. A sandbox may refuse any of it.
func setOptions(fd int, l listenAddr, ip4 bool, cfg Config) error {
	for _, o := range neededOptions(ip4, cfg) {
		err := unix.SetsockoptInt(fd, o.level, o.opt, o.value)
		if err != nil && !o.isSet(fd) {
			return fmt.Errorf("udp: %w", os.NewSyscallError("setsockopt "+o.name, err))
		}
	}
	opts := wholeOptions(ip4)
	if cfg.ECN {
		opts = append(opts, ecnOptions(ip4)...)
	}
	if l.wildcard() {
		opts = append(opts, pktinfoOptions(ip4)...)
	}
	for _, o := range opts {
		_ = unix.SetsockoptInt(fd, o.level, o.opt, o.value) // see kernelConn.doWithout
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

// grantsGRO reports whether the system lets sockets ask for trains. They ask when they read first.
var grantsGRO = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return true // the socket that is opened says why
	}
	defer unix.Close(fd)
	return enableGRO(fd)
})

// All system calls of the hot path, and all uses of package unsafe, are here.
// They never block, since the socket does not, so they go around the Go
// scheduler (RawSyscall): entering and leaving it costs as much as a short call.

// mmsghdr is struct mmsghdr of sendmmsg(2). On 64-bit systems it fills 64 bytes, a cache line.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32 // bytes moved; the kernel writes it
}

func sysSendto(fd int, p []byte, name *sockaddr, nameLen int) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), 0, uintptr(unsafe.Pointer(name)), uintptr(nameLen))
	return e
}

func sysSendmsg(fd int, m *mmsghdr) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)),
		0, 0, 0, 0)
	return e
}

func sysSendmmsg(fd int, m []mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)), 0, 0, 0)
	return int(n), e
}

func sysRecvmsg(fd int, m *mmsghdr) unix.Errno {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)),
		0, 0, 0, 0)
	m.len = uint32(n)
	return e
}

func sysRecvmmsg(fd int, m []mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)), 0, 0, 0)
	return int(n), e
}

// sysRecverr reads a message of the socket's error queue.
func sysRecverr(fd int, m *mmsghdr) unix.Errno {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)),
		unix.MSG_ERRQUEUE, 0, 0, 0)
	m.len = uint32(n)
	return e
}

// sysRecvfrom receives one datagram into b.
func sysRecvfrom(fd int, b []byte, from *sockaddr) (int, unix.Errno) {
	nameLen := uint32(unsafe.Sizeof(*from))
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		0, uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&nameLen)))
	return int(n), e
}

// sysQueued returns how many bytes of memory the socket's receive queue holds.
func sysQueued(fd int) (uint32, bool) {
	info, ok := sysMemInfo(fd)
	const rmemAlloc = 0 // SK_MEMINFO_RMEM_ALLOC
	return info[rmemAlloc], ok
}

// sysMemInfo reads SO_MEMINFO.
func sysMemInfo(fd int) (info [9]uint32, ok bool) { // SK_MEMINFO_VARS
	size := uint32(unsafe.Sizeof(info))
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	return info, e == 0 && uintptr(size) == unsafe.Sizeof(info)
}

// sysDrops returns how many packets the socket's full receive buffer cost
// (SO_MEMINFO). The other way, SO_RXQ_OVFL, would add a control message to
// every packet after the first drop.
func sysDrops(fd int) (uint32, bool) {
	info, ok := sysMemInfo(fd)
	const drops = 8 // SK_MEMINFO_DROPS
	return info[drops], ok
}

// put points m at its fixed name and control buffers.
func (m *mmsghdr) put(name *sockaddr, control []byte) {
	m.hdr.Name = (*byte)(unsafe.Pointer(name))
	m.hdr.Control = unsafe.SliceData(control)
}

// controlHeader reads the header of the first control message in b, and returns
// the offset of its data and of the next message; ok is false if b is too short.
func controlHeader(b []byte) (h unix.Cmsghdr, data, next int, ok bool) {
	if len(b) < unix.SizeofCmsghdr {
		return h, 0, 0, false
	}
	h = *(*unix.Cmsghdr)(unsafe.Pointer(unsafe.SliceData(b)))
	data = unix.CmsgLen(0)
	size := int(h.Len)
	if size < data || size > len(b) {
		return h, 0, 0, false
	}
	return h, data, min(unix.CmsgSpace(size-data), len(b)), true
}

// point makes control the control messages of m.
func (m *mmsghdr) point(control []byte) {
	m.hdr.Control = unsafe.SliceData(control)
	m.hdr.SetControllen(len(control))
}

// segmentControl appends to b a control message that asks for GSO. The segment size,
// a native-endian uint16 at unix.CmsgLen(0), is left zero.
func segmentControl(b []byte) []byte { return appendControl(b, unix.SOL_UDP, unix.UDP_SEGMENT, 2) }

// appendControl appends to b, which is empty or ends with one, a control message with a body of
// size zero bytes at unix.CmsgLen(0).
func appendControl(b []byte, level, kind int32, size int) []byte {
	var h unix.Cmsghdr
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(size))
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unix.SizeofCmsghdr)...)
	return append(b, make([]byte, unix.CmsgSpace(size)-unix.SizeofCmsghdr)...)
}

// sockaddr is struct sockaddr_in or sockaddr_in6 as bytes, rounded up in size.
type sockaddr [32]byte

const (
	sockaddr4Len = 16
	sockaddr6Len = 28
)

// put writes dst in the form of the socket's family and reports whether the
// family can express it.
func (s *sockaddr) put(dst *transport.Addr, ip4 bool) bool {
	if dst.Port == 0 || dst.Port > 65535 {
		return false
	}
	binary.BigEndian.PutUint16(s[2:], uint16(dst.Port))
	if !ip4 {
		binary.NativeEndian.PutUint16(s[0:], unix.AF_INET6)
		*(*[16]byte)(s[8:]) = dst.IP
		binary.NativeEndian.PutUint32(s[24:], dst.Scope)
		return true
	}
	binary.NativeEndian.PutUint16(s[0:], unix.AF_INET)
	*(*[4]byte)(s[4:]) = [4]byte(dst.IP[12:])
	return isMapped(&dst.IP)
}

// get sets a to the address that the kernel wrote into s.
func (s *sockaddr) get(a *transport.Addr) {
	a.Port = uint32(binary.BigEndian.Uint16(s[2:]))
	if binary.NativeEndian.Uint16(s[0:]) == unix.AF_INET6 {
		a.IP = [16]byte(s[8:])
		a.Scope = binary.NativeEndian.Uint32(s[24:])
		return
	}
	a.IP = [16]byte{10: 0xFF, 11: 0xFF, 12: s[4], 13: s[5], 14: s[6], 15: s[7]}
	a.Scope = 0
}

// sockaddrOf returns l in the form that package unix wants.
func (l listenAddr) sockaddr() unix.Sockaddr {
	port := int(l.ap.Port())
	if isIPv4(l.ap.Addr()) {
		return &unix.SockaddrInet4{Port: port, Addr: l.ap.Addr().Unmap().As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: l.ap.Addr().As16(), ZoneId: l.scope}
}

// addrOf is the way back.
func addrOf(sa unix.Sockaddr) transport.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return transport.AddrFrom(netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), 0)
	case *unix.SockaddrInet6:
		return transport.AddrFrom(netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)),
			sa.ZoneId)
	}
	return transport.Addr{}
}

// Structures of RFC 3542, section 6, and ip(7), in bytes.
const (
	pktinfo4Len = unix.SizeofInet4Pktinfo // int ifindex, local address, destination
	pktinfo6Len = unix.SizeofInet6Pktinfo // destination, unsigned ifindex
)

// pktinfoOptions asks for the destination of each received message. A dual-stack socket takes
// IPv4 ones from IP_PKTINFO: it tells broadcasts apart, which the mapped address does not.
func pktinfoOptions(ip4 bool) []option {
	opts := []option{{"IP_PKTINFO", unix.SOL_IP, unix.IP_PKTINFO, 1}}
	if ip4 {
		return opts
	}
	return append(opts, option{"IPV6_RECVPKTINFO", unix.SOL_IPV6, unix.IPV6_RECVPKTINFO, 1})
}

// pktinfoControl appends to b a control message that says where a message leaves from. Its
// address is left zero.
func pktinfoControl(b []byte, ip4 bool) []byte {
	if ip4 {
		return appendControl(b, unix.SOL_IP, unix.IP_PKTINFO, pktinfo4Len)
	}
	return appendControl(b, unix.SOL_IPV6, unix.IPV6_PKTINFO, pktinfo6Len)
}

// put writes src into body, the body of pktinfoControl. A dual-stack socket takes mapped
// addresses too.
func (src *source) put(body []byte, ip4 bool) {
	if ip4 {
		copy(body[4:8], src.ip[12:])
		return
	}
	copy(body, src.ip[:])
	binary.NativeEndian.PutUint32(body[16:], src.ifindex)
}

// get4 sets src to the destination in body, an IP_PKTINFO. A broadcast or multicast leaves src
// as it is: there the local address differs from the destination.
func (src *source) get4(body []byte) {
	local, dst := [4]byte(body[4:8]), [4]byte(body[8:12])
	if local == dst && local != [4]byte{} {
		*src = source{ip: [16]byte{10: 0xFF, 11: 0xFF}}
		copy(src.ip[12:], local[:])
	}
}

// get6 sets src to the destination in body, an IPV6_PKTINFO. A multicast leaves src as it is, and
// a mapped address, which IP_PKTINFO has too.
func (src *source) get6(body []byte) {
	ip := [16]byte(body)
	if ip[0] == 0xFF || isMapped(&ip) || ip == [16]byte{} {
		return
	}
	*src = source{ip: ip}
	if ip[0] == 0xFE && ip[1]&0xC0 == 0x80 {
		src.ifindex = binary.NativeEndian.Uint32(body[16:])
	}
}

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
	if c, err := Listen("127.0.0.1:0", Config{ECN: true}); err == nil {
		f.Refused = c.Refused()
		_ = c.Close()
	}
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
	mtu, _, err := route(dst)
	return mtu, err
}

// route returns what PathMTU does, and whether this machine has the address dst: packets to it
// leave from the same address, but for loopback addresses.
func route(dst transport.Addr) (mtu int, local bool, err error) {
	ip := dst.AddrPort().Addr()
	var sa sockaddr
	if !dst.IsValid() || !sa.put(&dst, ip.Is4()) {
		return 0, false, badAddress(dst.String(), "not an address to send to")
	}
	family, level, opt := unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_MTU
	if ip.Is4() {
		family, level, opt = unix.AF_INET, unix.SOL_IP, unix.IP_MTU
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, false, fmt.Errorf("udp: %w", os.NewSyscallError("socket", err))
	}
	defer unix.Close(fd)
	l := listenAddr{ap: dst.AddrPort(), scope: dst.Scope}
	if err := unix.Connect(fd, l.sockaddr()); err != nil {
		return 0, false, fmt.Errorf("udp: %w", os.NewSyscallError("connect", err))
	}
	limit, err := unix.GetsockoptInt(fd, level, opt)
	if err != nil {
		return 0, false, fmt.Errorf("udp: %w", os.NewSyscallError("getsockopt", err))
	}
	local = ip.Unmap().IsLoopback()
	if own, err := unix.Getsockname(fd); err == nil && !local {
		local = addrOf(own).IP == dst.IP
	}
	return payload(limit, ip), local, nil
}
