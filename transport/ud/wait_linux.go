package ud

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/internal/verbs"
	"golang.org/x/sys/unix"
)

// Indexes of what the Conn polls, and bits of FinishWait's argument.
const (
	pollChannel = iota
	pollWake
	pollAsync
	pollNode // only if the node is known
)

// waiter has what wakes Wait: completions, Wake's eventfd, and the device's own events.
type waiter struct {
	sleeper poll.Sleeper
	nodeFD  int // inotify of the folder with the device's node, or -1
}

func (w *waiter) init(h *hardware, closed *atomic.Bool) error {
	if err := unix.SetNonblock(h.dev.AsyncFD(), true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err := w.sleeper.Init("ud", closed); err != nil {
		return err
	}
	w.sleeper.Watch(h.ch.FD(), w.sleeper.WakeFD(), h.dev.AsyncFD())
	if w.nodeFD = watch(h.node); w.nodeFD >= 0 {
		w.sleeper.Watch(w.nodeFD)
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
	if _, err = unix.InotifyAddWatch(fd, filepath.Dir(node),
		unix.IN_DELETE|unix.IN_DELETE_SELF); err != nil {
		unix.Close(fd)
		return -1
	}
	return fd
}

// Wait blocks until there is something to do, see transport.Transport. It also returns when
// something happens to the device.
func (c *Conn) Wait(timeout time.Duration) error { return c.sleeper.Wait(c, timeout) }

// WaitFDs returns what to poll, see transport.Transport.
func (c *Conn) WaitFDs() []int { return c.sleeper.FDs() }

// PrepareWait begins a wait, see transport.Transport. Completions that the Conn holds already cost
// no look at the device. Arm comes last, since a completion from then on makes the channel
// readable.
func (c *Conn) PrepareWait() (idle bool, err error) {
	if idle, err = c.sleeper.Prepare(); !idle {
		return false, err
	}
	if c.fault != nil || c.rx.pending() || c.arm() {
		c.sleeper.Cancel()
		return false, nil
	}
	return true, nil
}

// arm makes the next completion an event, and reports whether there is one already, which
// the next RxBurst then finds. It looks after arming: a completion between a look and the arming
// would be no event, and nobody would have seen it.
func (c *Conn) arm() bool {
	if err := c.h.recvCQ.Arm(); err != nil {
		return true
	}
	// While the caller may still use packets of the last burst nothing may be posted here.
	return c.rx.poll(rxBurst) != nil || c.rx.pending()
}

// FinishWait ends a wait, see transport.Transport.
func (c *Conn) FinishWait(ready uint32) error {
	defer c.sleeper.Unlock()
	if ready&(1<<pollChannel) != 0 {
		c.h.ch.Drain()
	}
	if err := c.sleeper.Finish(ready&(1<<pollWake) != 0); err != nil {
		return err
	}
	if ready&(1<<pollAsync|1<<pollNode) != 0 {
		c.tend()
	}
	return nil
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
func (c *Conn) Wake() { c.sleeper.Wake() }

// stop returns when no Wait is blocked, and none can begin. Conn.closed is set.
func (w *waiter) stop() { w.sleeper.Stop() }

func (w *waiter) free() {
	w.sleeper.Free()
	if w.nodeFD >= 0 {
		unix.Close(w.nodeFD)
	}
	w.nodeFD = -1
}
