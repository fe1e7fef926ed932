package afxdp

import (
	"fmt"
	"math/bits"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/hugemem"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"golang.org/x/sys/unix"
)

// batch is how many chunks are given back to the kernel, or taken back from it, at once: the rings
// are shared.
const batch = 32

// pool is the packet memory of one queue of a link with its fill and completion rings. The kernel
// has one of each for a queue, so all endpoints of the process on the link share them.
// The first txChunks of each slot are for sending, the rest for receiving.
type pool struct {
	anchor int // the socket that the memory belongs to; it receives nothing itself
	queue  int
	slots  int
	ring   int // frames of a receive ring
	mem    []byte

	mu     sync.Mutex // everything below
	fill   chunkRing
	filled uint32 // producer of fill
	done   chunkRing
	taken  uint32     // consumer of done
	free   [][]uint64 // chunks of each slot that were sent
	spare  []uint64   // receive chunks that no endpoint needs
	excess int        // receive chunks to make spare when they come back
}

func ceilPow2(n int) int { return 1 << bits.Len(uint(n-1)) }

// openPool makes the memory and binds it to a queue. flags are those of the bind.
func openPool(index, queue, slots, ring int, flags uint16) (p *pool, err error) {
	p = &pool{anchor: -1, queue: queue, slots: slots, ring: ring}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.anchor, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return p, privilege(os.NewSyscallError("socket", err))
	}
	tx, rx := slots*txChunks, slots*(ring+rxSpare)
	size := (tx + rx) * chunkSize
	p.mem, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return p, fmt.Errorf("afxdp: %w", os.NewSyscallError("mmap", err))
	}
	hugemem.Advise(p.mem) // all of it is filled anyway
	if err = register(p.anchor, p.mem); err != nil {
		return p, err
	}
	if err = p.fill.openFill(p.anchor, ceilPow2(rx)); err != nil {
		return p, err
	}
	if err = p.done.openCompletion(p.anchor, ceilPow2(tx)); err != nil {
		return p, err
	}
	// A socket can be bound only with a ring of frames. A receive ring does not hold up the sending of
	// others.
	if err = unix.SetsockoptInt(p.anchor, unix.SOL_XDP, unix.XDP_RX_RING, 1); err != nil {
		return p, fmt.Errorf("afxdp: %w", os.NewSyscallError("setsockopt XDP_RX_RING", err))
	}
	if err = p.bind(index, flags); err != nil {
		return p, err
	}
	p.divide(tx, rx)
	return p, nil
}

// bind binds the memory to its queue. A queue stays busy for a while after the sockets of its
// last owner were closed, since the kernel cleans up later: bind waits for that.
func (p *pool) bind(index int, flags uint16) error {
	const patience, pause = time.Second, time.Millisecond
	for end := monotime.Now().Add(patience); ; {
		err := unix.Bind(p.anchor,
			&unix.SockaddrXDP{Flags: flags, Ifindex: uint32(index), QueueID: uint32(p.queue)})
		if err != unix.EBUSY || monotime.Now() > end {
			return err
		}
		time.Sleep(pause)
	}
}

func (p *pool) divide(tx, rx int) {
	p.free = make([][]uint64, p.slots)
	for s := range p.free {
		p.free[s] = make([]uint64, 0, txChunks)
		for i := range txChunks {
			p.free[s] = append(p.free[s], uint64((s*txChunks+i)*chunkSize))
		}
	}
	p.spare = make([]uint64, 0, rx)
	for i := range rx {
		p.spare = append(p.spare, uint64((tx+i)*chunkSize))
	}
}

// enter adds the receive chunks of one more endpoint to the fill ring.
func (p *pool) enter() {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.ring + rxSpare
	kept := min(n, p.excess)
	p.excess -= kept
	n -= kept
	at := len(p.spare) - n
	p.put(p.spare[at:])
	p.spare = p.spare[:at]
}

// leave takes back what an endpoint had: receive chunks that it holds, and chunks that
// it did not get to send.
func (p *pool) leave(slot int, held, unsent []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.excess += p.ring + rxSpare
	p.put(held)
	p.free[slot] = append(p.free[slot], unsent...)
}

// put gives receive chunks to the kernel. The fill ring has room for all there are. The
// caller holds p.mu.
func (p *pool) put(chunks []uint64) {
	for _, c := range chunks {
		if p.excess > 0 {
			p.excess--
			p.spare = append(p.spare, c)
			continue
		}
		p.fill.addr[p.filled&p.fill.mask] = c
		p.filled++
	}
	atomic.StoreUint32(p.fill.producer, p.filled)
}

// refill gives receive chunks back to the kernel, and reports whether it did: not if another
// endpoint is at it now, which is no reason to wait.
func (p *pool) refill(chunks []uint64) bool {
	if !p.mu.TryLock() {
		return false
	}
	p.put(chunks)
	p.mu.Unlock()
	return true
}

// completed returns how many chunks the kernel has sent that nobody collected, about.
func (p *pool) completed() int32 {
	return int32(atomic.LoadUint32(p.done.producer) - atomic.LoadUint32(p.done.consumer))
}

// collect appends to free the slot's chunks that the kernel has sent, unless another endpoint is
// at it now.
func (p *pool) collect(slot int, free []uint64) []uint64 {
	if !p.mu.TryLock() {
		return free
	}
	for end := atomic.LoadUint32(p.done.producer); p.taken != end; p.taken++ {
		c := p.done.addr[p.taken&p.done.mask] &^ (chunkSize - 1)
		if s := int(c / (txChunks * chunkSize)); s == slot {
			free = append(free, c)
		} else if s < p.slots {
			p.free[s] = append(p.free[s], c)
		}
	}
	atomic.StoreUint32(p.done.consumer, p.taken)
	own := p.free[slot]
	if len(own) > 0 {
		free = append(free, own...)
		p.free[slot] = own[:0]
	}
	p.mu.Unlock()
	return free
}

// alive reports whether the queue's link still exists.
func (p *pool) alive() bool { return kick(p.anchor) != unix.ENXIO }

func (p *pool) close() {
	if p.anchor >= 0 {
		unix.Close(p.anchor)
	}
	p.fill.close()
	p.done.close()
	if p.mem != nil {
		_ = unix.Munmap(p.mem)
	}
}
