package ud

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// States of waiter.wake. Wait and Wake both swap, so no wake-up is lost.
const (
	awake  = iota // nobody waits, nobody called Wake
	waking        // Wake was called and Wait has not returned since
	asleep        // Wait is in ppoll or about to be
)

// Indexes in waiter.poll, and bits of FinishWait's argument.
const (
	pollChannel = iota
	pollEvent
	pollAsync
	pollNode // only if the node is known
)

// waiter is what Wait sleeps on: completions, an eventfd for Wake, and the device's own events.
type waiter struct {
	wake   atomic.Uint32
	mu     sync.Mutex // held during Wait; Close waits for it
	fdMu   sync.Mutex // Wake's use of the eventfd against Close
	wakeFD int
	nodeFD int // inotify of the folder with the device's node, or -1
	poll   []unix.PollFd
}

func (w *waiter) init(h *hardware) (err error) {
	if err = unix.SetNonblock(h.dev.AsyncFD(), true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if w.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	w.nodeFD = watch(h.node)
	for _, fd := range []int{h.ch.FD(), w.wakeFD, h.dev.AsyncFD(), w.nodeFD} {
		if fd >= 0 {
			w.poll = append(w.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
	return nil
}

// watch returns a descriptor that becomes readable when something in node's folder is
// deleted, or -1 if that cannot be had.
func watch(node string) int {
	if node == "" {
		return -1
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return -1
	}
	if _, err = unix.InotifyAddWatch(fd, filepath.Dir(node), unix.IN_DELETE|unix.IN_DELETE_SELF); err != nil {
		unix.Close(fd)
		return -1
	}
	return fd
}

// Wait blocks until there is something to do, see transport.Transport. It also returns when
// something happens to the device.
func (c *Conn) Wait(timeout time.Duration) error {
	idle, err := c.PrepareWait()
	if err != nil {
		return err
	}
	var ready uint32
	if idle && timeout != 0 {
		ready, err = c.sleep(timeout)
	}
	return errors.Join(err, c.FinishWait(ready))
}

// WaitFDs makes the Conn a transport.Waiter.
func (c *Conn) WaitFDs() []int {
	fds := make([]int, len(c.waiter.poll))
	for i := range fds {
		fds[i] = int(c.waiter.poll[i].Fd)
	}
	return fds
}

// PrepareWait begins a wait, see transport.Waiter.
func (c *Conn) PrepareWait() (idle bool, err error) {
	w := &c.waiter
	w.mu.Lock()
	if c.closed.Load() {
		w.mu.Unlock()
		return false, transport.ErrClosed
	}
	if !w.wake.CompareAndSwap(awake, asleep) || c.fault != nil || c.rx.pending() || c.arm() {
		w.wake.Store(awake)
		return false, nil
	}
	return true, nil
}

// arm makes the next completion an event, and reports whether there is one already, which
// the next RxBurst then finds.
func (c *Conn) arm() bool {
	if err := c.h.recvCQ.Arm(); err != nil {
		return true
	}
	// While the caller may still use packets of the last burst nothing may be posted here.
	return c.rx.poll(rxBurst) != nil || c.rx.pending()
}

// FinishWait ends a wait, see transport.Waiter.
func (c *Conn) FinishWait(ready uint32) error {
	w := &c.waiter
	defer w.mu.Unlock()
	if ready&(1<<pollEvent) != 0 {
		var count [8]byte
		_, _ = unix.Read(w.wakeFD, count[:])
	}
	if ready&(1<<pollChannel) != 0 {
		c.h.ch.Drain()
	}
	w.wake.Swap(awake)
	if c.closed.Load() {
		return transport.ErrClosed
	}
	if ready&(1<<pollAsync|1<<pollNode) != 0 {
		c.tend()
	}
	return nil
}

// sleep blocks until a descriptor has something. The system call goes through the
// scheduler, so that other goroutines can use the processor meanwhile.
func (c *Conn) sleep(timeout time.Duration) (ready uint32, err error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err := unix.Ppoll(c.waiter.poll, limit, nil)
	if err == unix.EINTR { // such as the scheduler's preemption signal
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ud: %w", os.NewSyscallError("ppoll", err))
	}
	if n > 0 {
		for i := range c.waiter.poll {
			if c.waiter.poll[i].Revents != 0 {
				ready |= 1 << i
			}
		}
	}
	return ready, nil
}

// tend looks after the device: whether it is still there, and the GID.
func (c *Conn) tend() {
	if c.fault != nil {
		return
	}
	for {
		e, err := c.h.dev.Event()
		if err != nil {
			if !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
				_ = c.broken(fmt.Errorf("%w (%w)", ErrDeviceGone, err))
			}
			break
		}
		switch e.Code {
		case verbs.EventDeviceFatal:
			_ = c.broken(fmt.Errorf("%w (%s)", ErrDeviceGone, e.Name))
		case verbs.EventGIDChange:
			if !c.h.hasGID() {
				_ = c.broken(ErrGIDGone)
			}
		}
	}
	if w := &c.waiter; w.nodeFD >= 0 {
		var buf [4096]byte
		if n, _ := unix.Read(w.nodeFD, buf[:]); n > 0 {
			if _, err := os.Stat(c.h.node); errors.Is(err, os.ErrNotExist) {
				_ = c.broken(fmt.Errorf("%w (%s)", ErrDeviceGone, c.h.node))
			}
		}
	}
}

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() {
	w := &c.waiter
	// The load keeps a second call cheap and its cache line shared.
	if w.wake.Load() == waking || w.wake.Swap(waking) != asleep {
		return
	}
	w.ring()
}

// ring makes ppoll return.
func (w *waiter) ring() {
	w.fdMu.Lock()
	defer w.fdMu.Unlock()
	if w.wakeFD < 0 {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(w.wakeFD, one[:]) // EAGAIN: it is readable already
}

// stop returns when no Wait is blocked, and lets none begin until free. Conn.closed is set.
func (w *waiter) stop() {
	w.ring()
	w.mu.Lock()
}

func (w *waiter) free() {
	w.fdMu.Lock()
	unix.Close(w.wakeFD)
	if w.nodeFD >= 0 {
		unix.Close(w.nodeFD)
	}
	w.wakeFD, w.nodeFD = -1, -1
	w.fdMu.Unlock()
	w.mu.Unlock()
}
