package shm

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/internal/shmem"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// waiter has what wakes Wait: an epoll instance with Wake's eventfd and the sockets of all
// peers, on which a peer that sees our bell sends a byte. Peers do not get the eventfd: one that
// reads from it could steal the wake-ups of others.
type waiter struct {
	sleeper poll.Sleeper // polls the epoll instance only
	epoll   int
	events  [16]unix.EpollEvent

	bell    shmem.Bell
	bellMem []byte
	bellFD  int // peers get it to map it for reading
}

func (w *waiter) init(closed *atomic.Bool) (err error) {
	w.epoll, w.bellFD = -1, -1
	defer func() {
		if err != nil {
			w.free()
		}
	}()
	if err = w.sleeper.Init("shm", closed); err != nil {
		return err
	}
	if w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err = w.watch(w.sleeper.WakeFD()); err != nil {
		return err
	}
	w.sleeper.Watch(w.epoll)
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
func (c *Conn) Wait(timeout time.Duration) error { return c.waiter.sleeper.Wait(c, timeout) }

// WaitFDs returns what to poll, see transport.Transport.
func (c *Conn) WaitFDs() []int { return c.waiter.sleeper.FDs() }

// PrepareWait begins a wait, see transport.Transport.
func (c *Conn) PrepareWait() (idle bool, err error) {
	w := &c.waiter
	if idle, err = w.sleeper.Prepare(); !idle {
		return false, err
	}
	// First the bell, then a last look: a peer that publishes after the look sees the bell and
	// sends a byte, see shmem.Bell.
	w.bell.Sleep()
	if c.news.Load() || c.rx.ready() {
		w.sleeper.Cancel()
		return false, nil
	}
	return true, nil
}

// FinishWait ends a wait, see transport.Transport.
func (c *Conn) FinishWait(ready uint32) error {
	w := &c.waiter
	defer w.sleeper.Unlock()
	woken := ready != 0 && w.readWakes()
	w.bell.GetUp()
	return w.sleeper.Finish(woken)
}

// readWakes takes back what made ppoll return, but for the eventfd: it reports whether that
// was readable.
func (w *waiter) readWakes() (woken bool) {
	n, err := unix.EpollWait(w.epoll, w.events[:], 0)
	if err != nil {
		return false
	}
	var buf [8]byte
	for i := range w.events[:n] {
		fd := int(w.events[i].Fd)
		if fd == w.sleeper.WakeFD() {
			woken = true
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
	return woken
}

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() { c.waiter.sleeper.Wake() }

func (w *waiter) free() {
	w.sleeper.Free()
	for _, fd := range []*int{&w.epoll, &w.bellFD} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
	shmem.Unmap(w.bellMem)
	w.bellMem = nil
}
