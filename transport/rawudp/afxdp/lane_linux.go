package afxdp

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"golang.org/x/sys/unix"
)

// lane is an endpoint's socket on one queue.
type lane struct {
	fd   int
	slot int
	pool *pool

	rx   frameRing
	got  uint32   // consumer of rx
	lent []uint64 // receive chunks to give back

	tx     frameRing
	sent   uint32   // producer of tx
	free   []uint64 // chunks to send from, the last used last
	unsent bool     // the kernel may not have taken all of tx
	zc     bool

	calls uint64
}

func openLane(index, slot int, p *pool) (l *lane, err error) {
	l = &lane{fd: -1, slot: slot, pool: p}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return l, privilege(os.NewSyscallError("socket", err))
	}
	if err = l.rx.openRx(l.fd, p.ring); err != nil {
		return l, err
	}
	if err = l.tx.openTx(l.fd, txChunks); err != nil {
		return l, err
	}
	err = unix.Bind(l.fd, &unix.SockaddrXDP{
		Flags: unix.XDP_SHARED_UMEM, Ifindex: uint32(index), QueueID: uint32(p.queue),
		SharedUmemFD: uint32(p.anchor),
	})
	if err != nil {
		return l, fmt.Errorf("afxdp: queue %d: %w", p.queue, os.NewSyscallError("bind", err))
	}
	l.zc = zeroCopy(l.fd)
	// All chunks that there are, if others are slow to give theirs back.
	l.lent = make([]uint64, 0, p.slots*(p.ring+rxSpare))
	l.free = make([]uint64, 0, txChunks)
	p.enter()
	return l, nil
}

// pending reports whether a frame has arrived.
func (l *lane) pending() bool { return atomic.LoadUint32(l.rx.producer) != l.got }

// release gives the chunks of the frames lent before back to the kernel, if there are enough.
func (l *lane) release() {
	if len(l.lent) >= batch && l.pool.refill(l.lent) {
		l.lent = l.lent[:0]
	}
}

// receive fills in frames and returns how many.
func (l *lane) receive(frames []rawudp.RxFrame, partial bool) int {
	n := min(len(frames), int(atomic.LoadUint32(l.rx.producer)-l.got), cap(l.lent)-len(l.lent))
	if n == 0 {
		return 0
	}
	mem := l.pool.mem
	for i := range frames[:n] {
		d := &l.rx.desc[l.got&l.rx.mask]
		l.got++
		at, size := int(d.Addr), int(d.Len)
		f := &frames[i]
		f.Data = mem[at : at+size : at+size]
		f.VLAN, f.Segment, f.Checksum = rawudp.NoVLAN, 0, rawudp.ChecksumUnknown
		if partial && isPartial(f.Data) {
			f.Checksum = rawudp.ChecksumPartial
		}
		l.lent = append(l.lent, d.Addr&^(chunkSize-1))
	}
	atomic.StoreUint32(l.rx.consumer, l.got) // its slot may go; the chunk is lent
	return n
}

// reserve makes frames of up to len(frames) free chunks and returns how many.
func (l *lane) reserve(frames []rawudp.TxFrame) int {
	if len(l.free) < len(frames) || l.pool.completed() >= batch {
		l.free = l.pool.collect(l.slot, l.free)
	}
	n := min(len(frames), len(l.free))
	top := len(l.free) - 1
	for i := range frames[:n] {
		at := int(l.free[top-i]) + lead
		frames[i].Mem = l.pool.mem[at : at+frameSize : at+frameSize]
	}
	return n
}

// send sends the first of the frames made by reserve. It returns how many it is done with.
func (l *lane) send(frames []rawudp.TxFrame) (int, error) {
	top := len(l.free) - 1
	for i := range frames {
		// The ring has room for all chunks that there are.
		l.tx.desc[l.sent&l.tx.mask] = unix.XDPDesc{Addr: l.free[top-i] + lead, Len: uint32(frames[i].Len)}
		l.sent++
	}
	l.free = l.free[:len(l.free)-len(frames)]
	atomic.StoreUint32(l.tx.producer, l.sent)
	// without a driver that reads the ring itself nobody else looks at it
	if l.zc && !l.tx.wantsKick() {
		return len(frames), nil
	}
	err := l.flush()
	if err != nil && !l.zc {
		return len(frames) - l.takeBack(len(frames)), err
	}
	return len(frames), nil
}

// flush has the kernel take all of the transmit ring, as far as it can now. Errors are those of the
// link.
func (l *lane) flush() error {
	l.unsent = false
	for left := l.sent - atomic.LoadUint32(l.tx.consumer); ; {
		l.calls++
		switch e := kick(l.fd); e {
		case 0:
			return nil
		case unix.ENETDOWN:
			return rawudp.ErrLinkDown
		case unix.ENXIO, unix.ENODEV:
			return rawudp.ErrLinkGone
		case unix.EBADF, unix.ENOTSOCK:
			return e
		}
		// It takes some at a time, or has no room now.
		now := l.sent - atomic.LoadUint32(l.tx.consumer)
		if now == 0 {
			return nil
		}
		if now == left {
			l.unsent = true
			return nil
		}
		left = now
	}
}

// takeBack takes up to n frames that the kernel has not seen out of the ring again, the last ones.
// It looks at the ring in system calls of this thread only, unless the driver reads it.
func (l *lane) takeBack(n int) int {
	n = min(n, int(l.sent-atomic.LoadUint32(l.tx.consumer)))
	for range n {
		l.sent--
		l.free = append(l.free, l.tx.desc[l.sent&l.tx.mask].Addr&^(chunkSize-1))
	}
	atomic.StoreUint32(l.tx.producer, l.sent)
	return n
}

// dropped returns how many frames were lost in a full ring.
func (l *lane) dropped() uint64 {
	s := statistics(l.fd)
	return s.Rx_dropped + s.Rx_ring_full
}

// close closes the socket, and leaves its chunks to the pool.
func (l *lane) close() {
	if l.fd < 0 {
		return
	}
	unix.Close(l.fd) // from now on the kernel touches neither ring
	if l.free != nil {
		for end := atomic.LoadUint32(l.rx.producer); l.got != end; l.got++ {
			l.lent = append(l.lent, l.rx.desc[l.got&l.rx.mask].Addr&^(chunkSize-1))
		}
		l.takeBack(txChunks)
		l.pool.leave(l.slot, l.lent, l.free)
	}
	l.rx.close()
	l.tx.close()
}
