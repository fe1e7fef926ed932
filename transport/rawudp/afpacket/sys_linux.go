package afpacket

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// All system calls of the hot path, and all uses of package unsafe, are here. The calls
// never block, so they go around the Go scheduler (RawSyscall), see package udp.

// mmsghdr is struct mmsghdr of sendmmsg(2).
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32 // the kernel writes it
}

func sysSend(fd int, p []byte) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return e
}

func sysSendmmsg(fd int, m []mmsghdr) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(m))),
		uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), e
}

// sysStats reads and clears PACKET_STATISTICS: frames seen and dropped.
func sysStats(fd int) (dropped uint32) {
	var s struct{ packets, drops uint32 } // struct tpacket_stats
	size := uint32(unsafe.Sizeof(s))
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_PACKET,
		unix.PACKET_STATISTICS,
		uintptr(unsafe.Pointer(&s)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0
	}
	return s.drops
}

// slot is the header of a frame in the ring. The kernel and this process write status
// in turn: the owner of the slot gives it to the other.
type slot unix.Tpacket2Hdr

// slotAt returns the header at offset at of the ring, which is aligned as the kernel aligns it.
func slotAt(ring []byte, at int) *slot {
	return (*slot)(unsafe.Pointer(&ring[at : at+int(unsafe.Sizeof(slot{}))][0]))
}

func (s *slot) load() uint32 { return atomic.LoadUint32(&s.Status) }
func (s *slot) free()        { atomic.StoreUint32(&s.Status, unix.TP_STATUS_KERNEL) }

// filterProgram returns f as the kernel wants it.
func filterProgram(f []unix.SockFilter) *unix.SockFprog {
	return &unix.SockFprog{Len: uint16(len(f)), Filter: unsafe.SliceData(f)}
}
