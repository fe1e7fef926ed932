package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// States of waiter.wake. Wait and Wake both swap, so no wake-up is lost.
const (
	awake  = iota // nobody waits, nobody called Wake
	waking        // Wake was called and Wait has not returned since
	asleep        // Wait is blocked or about to be
)

// waiter is what Wait sleeps on: an epoll instance with an eventfd for Wake and the
// sockets of all peers, on which a peer that sees our bell sends a byte. Peers do not
// get the eventfd: one that reads from it could steal the wake-ups of others.
type waiter struct {
	wake    atomic.Uint32
	mu      sync.Mutex // held during Wait; Close waits for it
	eventMu sync.Mutex // Wake's use of event against Close
	event   int        // eventfd
	epoll   int
	poll    [1]unix.PollFd
	events  [16]unix.EpollEvent

	bell    shmem.Bell
	bellMem []byte
	bellFD  int // peers get it to map it for reading
}

func (w *waiter) init() (err error) {
	w.event, w.epoll, w.bellFD = -1, -1, -1
	defer func() {
		if err != nil {
			w.free()
		}
	}()
	if w.event, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err = w.watch(w.event); err != nil {
		return err
	}
	w.poll[0] = unix.PollFd{Fd: int32(w.epoll), Events: unix.POLLIN}
	if w.bellFD, w.bellMem, err = shmem.CreateBell(); err != nil {
		return fmt.Errorf("shm: %w: %w", transport.ErrUnsupported, err) // Linux before 5.1
	}
	w.bell = shmem.NewBell(w.bellMem)
	return nil
}

// watch makes Wait return when fd can be read.
func (w *waiter) watch(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(timeout time.Duration) error {
	idle, err := c.PrepareWait()
	if err != nil {
		return err
	}
	var ready uint32
	if idle && timeout != 0 {
		ready, err = c.waiter.sleep(timeout)
	}
	return errors.Join(err, c.FinishWait(ready))
}

// WaitFDs makes the Conn a transport.Waiter.
func (c *Conn) WaitFDs() []int { return []int{c.waiter.epoll} }

// PrepareWait begins a wait, see transport.Waiter.
func (c *Conn) PrepareWait() (idle bool, err error) {
	w := &c.waiter
	w.mu.Lock()
	if c.closed.Load() {
		w.mu.Unlock()
		return false, transport.ErrClosed
	}
	if !w.wake.CompareAndSwap(awake, asleep) {
		w.wake.Store(awake)
		return false, nil
	}
	// First the bell, then a last look: see shmem.Bell.
	w.bell.Sleep()
	return !c.news.Load() && !c.rx.ready(), nil
}

// FinishWait ends a wait, see transport.Waiter.
func (c *Conn) FinishWait(ready uint32) error {
	w := &c.waiter
	defer w.mu.Unlock()
	if ready != 0 {
		w.readWakes()
	}
	w.bell.GetUp()
	w.wake.Swap(awake)
	if c.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// sleep blocks until the epoll instance has something. The system call goes through the
// scheduler, so that other goroutines can use the processor meanwhile.
func (w *waiter) sleep(timeout time.Duration) (ready uint32, err error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err := unix.Ppoll(w.poll[:], limit, nil) // unlike epoll_wait it takes nanoseconds
	if err == unix.EINTR {                      // such as the scheduler's preemption signal
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("shm: %w", os.NewSyscallError("ppoll", err))
	}
	return uint32(n), nil // one descriptor
}

// readWakes takes back what made ppoll return.
func (w *waiter) readWakes() {
	n, err := unix.EpollWait(w.epoll, w.events[:], 0)
	if err != nil {
		return
	}
	var buf [8]byte
	for i := range w.events[:n] {
		fd := int(w.events[i].Fd)
		if fd == w.event {
			_, _ = unix.Read(fd, buf[:])
			continue
		}
		for {
			n, _, err := unix.Recvfrom(fd, buf[:], unix.MSG_DONTWAIT)
			if err == nil && n == 1 {
				continue
			}
			if err != unix.EAGAIN && err != unix.EINTR {
				// The end, or what no honest peer sends. The hub hears of it too, but until
				// then Wait would not block any more.
				_ = unix.EpollCtl(w.epoll, unix.EPOLL_CTL_DEL, fd, nil)
			}
			break
		}
	}
}

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() { c.waiter.call() }

func (w *waiter) call() {
	// The load keeps a second call cheap and its cache line shared.
	if w.wake.Load() == waking || w.wake.Swap(waking) != asleep {
		return
	}
	w.ring()
}

// ring makes ppoll return.
func (w *waiter) ring() {
	w.eventMu.Lock()
	defer w.eventMu.Unlock()
	if w.event < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.event, one[:]) // EAGAIN: it is readable already
}

// stop returns when no Wait is blocked. Conn.closed is set.
func (w *waiter) stop() {
	w.ring()
	w.mu.Lock() // waits for Wait
	defer w.mu.Unlock()
}

func (w *waiter) free() {
	w.eventMu.Lock()
	defer w.eventMu.Unlock()
	for _, fd := range []*int{&w.event, &w.epoll, &w.bellFD} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
	shmem.Unmap(w.bellMem)
	w.bellMem = nil
}
