package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

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
