package afxdp

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// All system calls of the hot path, and all uses of package unsafe, are here. The calls
// never block, so they go around the Go scheduler (RawSyscall), see package udp.

// kick has the kernel send what is in the socket's transmit ring.
func kick(fd int) unix.Errno {
	_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return e
}

// kickRx has a driver that sleeps look at the fill ring.
func kickRx(fd int) {
	unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
}

func getsockopt(fd, opt int, p unsafe.Pointer, size uintptr) error {
	n := uint32(size)
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(p), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return e
	}
	return nil
}

// statistics returns the socket's XDP_STATISTICS.
func statistics(fd int) (s unix.XDPStatistics) {
	_ = getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&s), unsafe.Sizeof(s))
	return s
}

// zeroCopy reports whether the driver reads and writes the memory itself.
func zeroCopy(fd int) bool {
	var flags uint32
	err := getsockopt(fd, unix.XDP_OPTIONS, unsafe.Pointer(&flags), unsafe.Sizeof(flags))
	return err == nil && flags&unix.XDP_OPTIONS_ZEROCOPY != 0
}

// register makes mem the packet memory of the socket.
func register(fd int, mem []byte) error {
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), Len: uint64(len(mem)),
		Size: chunkSize, Headroom: lead,
	}
	// Only the fields that the first kernels with XDP sockets know, and flags.
	_, _, e := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Offsetof(reg.Flags)+8, 0)
	if e != 0 {
		return fmt.Errorf("afxdp: %d bytes of packet memory: %w", len(mem),
			os.NewSyscallError("setsockopt XDP_UMEM_REG", e))
	}
	return nil
}

// header is the shared part of a ring: the kernel writes one of producer and consumer, this
// process the other, and the kernel the flags.
type header struct {
	producer, consumer, flags *uint32
	mask                      uint32
	mem                       []byte
}

// ring maps one of the socket's rings of size entries. Setting its size comes first.
func (h *header) open(fd, opt int, size int, pgoff int64, entry uintptr,
	at func(*unix.XDPMmapOffsets) *unix.XDPRingOffset) (unsafe.Pointer, error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_XDP, opt, size); err != nil {
		return nil, fmt.Errorf("afxdp: ring of %d: %w", size, os.NewSyscallError("setsockopt", err))
	}
	var offsets unix.XDPMmapOffsets
	if err := getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&offsets),
		unsafe.Sizeof(offsets)); err != nil {
		return nil, fmt.Errorf("afxdp: %w", os.NewSyscallError("getsockopt XDP_MMAP_OFFSETS", err))
	}
	o := at(&offsets)
	mem, err := unix.Mmap(fd, pgoff, int(o.Desc)+size*int(entry), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("afxdp: %w", os.NewSyscallError("mmap", err))
	}
	h.mem, h.mask = mem, uint32(size-1)
	h.producer = (*uint32)(unsafe.Pointer(&mem[o.Producer]))
	h.consumer = (*uint32)(unsafe.Pointer(&mem[o.Consumer]))
	h.flags = (*uint32)(unsafe.Pointer(&mem[o.Flags]))
	return unsafe.Pointer(&mem[o.Desc]), nil
}

func (h *header) close() {
	if h.mem != nil {
		_ = unix.Munmap(h.mem)
		h.mem = nil
	}
}

func (h *header) wantsKick() bool {
	return atomic.LoadUint32(h.flags)&unix.XDP_RING_NEED_WAKEUP != 0
}

// frameRing is a ring of frames: RX or TX.
type frameRing struct {
	header
	desc []unix.XDPDesc
}

func (r *frameRing) openRx(fd, size int) error {
	p, err := r.open(fd, unix.XDP_RX_RING, size, unix.XDP_PGOFF_RX_RING, unsafe.Sizeof(unix.XDPDesc{}),
		func(o *unix.XDPMmapOffsets) *unix.XDPRingOffset { return &o.Rx })
	if err == nil {
		r.desc = unsafe.Slice((*unix.XDPDesc)(p), size)
	}
	return err
}

func (r *frameRing) openTx(fd, size int) error {
	p, err := r.open(fd, unix.XDP_TX_RING, size, unix.XDP_PGOFF_TX_RING, unsafe.Sizeof(unix.XDPDesc{}),
		func(o *unix.XDPMmapOffsets) *unix.XDPRingOffset { return &o.Tx })
	if err == nil {
		r.desc = unsafe.Slice((*unix.XDPDesc)(p), size)
	}
	return err
}

// chunkRing is a ring of chunks: fill or completion.
type chunkRing struct {
	header
	addr []uint64
}

func (r *chunkRing) openFill(fd, size int) error {
	p, err := r.open(fd, unix.XDP_UMEM_FILL_RING, size, unix.XDP_UMEM_PGOFF_FILL_RING, 8,
		func(o *unix.XDPMmapOffsets) *unix.XDPRingOffset { return &o.Fr })
	if err == nil {
		r.addr = unsafe.Slice((*uint64)(p), size)
	}
	return err
}

func (r *chunkRing) openCompletion(fd, size int) error {
	p, err := r.open(fd, unix.XDP_UMEM_COMPLETION_RING, size, unix.XDP_UMEM_PGOFF_COMPLETION_RING, 8,
		func(o *unix.XDPMmapOffsets) *unix.XDPRingOffset { return &o.Cr })
	if err == nil {
		r.addr = unsafe.Slice((*uint64)(p), size)
	}
	return err
}
