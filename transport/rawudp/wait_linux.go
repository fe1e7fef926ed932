package rawudp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
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
	pollDevice = iota
	pollEvent
	pollNetwork
)

// waiter is what Wait sleeps on: the device, an eventfd for Wake, and the network.
type waiter struct {
	wake   atomic.Uint32
	mu     sync.Mutex // held during Wait; Close waits for it
	fdMu   sync.Mutex // Wake's use of the eventfd against Close
	wakeFD int
	poll   [3]unix.PollFd
}

func (w *waiter) init(device, network int) (err error) {
	if w.wakeFD, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	for i, fd := range []int{device, w.wakeFD, network} {
		w.poll[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	return nil
}

// Wait blocks until there is something to do, see transport.Transport. It also returns when
// the link changes. While received packets are held it may return early.
func (c *Conn) Wait(timeout time.Duration) error {
	idle, err := c.PrepareWait()
	if err != nil {
		return err
	}
	var ready uint32
	if idle && timeout != 0 {
		ready, err = c.sleep(c.clip(timeout))
	}
	return errors.Join(err, c.FinishWait(ready))
}

// clip shortens timeout to what is left of the link's grace.
func (c *Conn) clip(timeout time.Duration) time.Duration {
	if !c.link.sick || c.cfg.LinkGrace < 0 {
		return timeout
	}
	left := c.cfg.LinkGrace - monotime.Now().Sub(c.link.since)
	if left <= 0 || timeout >= 0 && timeout < left {
		return timeout
	}
	return left
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
	if !w.wake.CompareAndSwap(awake, asleep) || c.rx.pending() || c.dev.Pending() {
		w.wake.Store(awake)
		return false, nil
	}
	return true, nil
}

// FinishWait ends a wait, see transport.Waiter.
func (c *Conn) FinishWait(ready uint32) error {
	w := &c.waiter
	defer w.mu.Unlock()
	if ready&(1<<pollEvent) != 0 {
		var count [8]byte
		_, _ = unix.Read(w.wakeFD, count[:])
	}
	w.wake.Swap(awake)
	if c.closed.Load() {
		return transport.ErrClosed
	}
	if ready&(1<<pollNetwork) != 0 || ready&(1<<pollDevice) != 0 && !c.dev.Pending() {
		c.tend() // an error makes the device's descriptor readable, too
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
	n, err := unix.Ppoll(c.waiter.poll[:], limit, nil)
	if err == unix.EINTR { // such as the scheduler's preemption signal
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("rawudp: %w", os.NewSyscallError("ppoll", err))
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
	w.wakeFD = -1
	w.fdMu.Unlock()
	w.mu.Unlock()
}
