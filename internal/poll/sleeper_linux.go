package poll

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// States of a Sleeper.
const (
	awake  = iota // nobody waits, nobody called Wake
	waking        // Wake was called and the Wait for it has not ended
	asleep        // Wait is in ppoll or about to be
)

// Sleeper makes one transport wait: it polls descriptors, and has an eventfd by which Wake and
// Close end the sleep. The methods of a wait are for the using goroutine, Wake,
// Stop and Free for any. The zero Sleeper may be freed.
type Sleeper struct {
	Set
	nap    Set          // the eventfd alone
	closed *atomic.Bool // the transport's
	state  atomic.Uint32
	mu     sync.Mutex // held from Prepare to Unlock

	eventMu sync.Mutex // use of the eventfd against Free
	event   int        // eventfd
	open    bool       // event is one
	also    int        // set of Also, under the number that the eventfd had; 0 if there is none
}

// Init makes the eventfd. Errors of Sleep begin with name, that of the transport. The transport
// sets closed before it calls Stop. It adds to the set what it polls, WakeFD too, or something
// that is readable when WakeFD is. Errors are those of the system.
func (s *Sleeper) Init(name string, closed *atomic.Bool) error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("eventfd", err)
	}
	s.name, s.closed = name, closed
	s.event, s.open = fd, true
	s.nap = NewSet(name, fd)
	return nil
}

// Also adds a descriptor to those that end a wait, without a bit of its own: WakeFD is readable
// when it is. It leaves when it is closed. The set has the same numbers as before, but behind that
// of WakeFD is another file. Only for the using goroutine, outside of a wait. Errors are
// transport.ErrClosed after Free, and those of the system.
func (s *Sleeper) Also(fd int) error {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	if !s.open {
		return transport.ErrClosed
	}
	if s.also == 0 {
		if err := s.spread(); err != nil {
			return err
		}
	}
	return watch(s.also, fd)
}

// spread puts a set of descriptors in the place of the eventfd, which is in it.
func (s *Sleeper) spread() error {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	defer unix.Close(set)
	event, err := unix.FcntlInt(uintptr(s.event), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if err = watch(set, event); err == nil {
		err = os.NewSyscallError("dup3", unix.Dup3(set, s.event, unix.O_CLOEXEC))
	}
	if err != nil {
		unix.Close(event)
		return err
	}
	s.also, s.event = s.event, event
	s.nap = NewSet(s.name, event)
	return nil
}

// watch adds a descriptor to a set of epoll.
func watch(set, fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &ev))
}

// WakeFD returns the eventfd, which is readable after Wake during a wait, and after Stop. It
// stays the Sleeper's.
func (s *Sleeper) WakeFD() int { return s.event }

// Prepare begins a wait. It returns true if the transport may sleep, once it has found nothing
// else to do, and false if Wake was called since the last wait. Unlock must follow in either
// case. If the transport is closed, Prepare returns transport.ErrClosed and begins no wait.
func (s *Sleeper) Prepare() (idle bool, err error) {
	s.mu.Lock()
	if s.closed.Load() {
		s.mu.Unlock()
		return false, transport.ErrClosed
	}
	return s.state.CompareAndSwap(awake, asleep), nil // else "waking", until Finish
}

// Cancel says that the transport found something to do after Prepare and does not sleep: a Wake
// need not write to the eventfd.
func (s *Sleeper) Cancel() { s.state.Store(awake) }

// Finish ends the sleep, also one that did not take place. woken says that WakeFD was readable.
// It returns transport.ErrClosed if the transport was closed meanwhile.
func (s *Sleeper) Finish(woken bool) error {
	if woken {
		var count [8]byte
		_, _ = unix.Read(s.event, count[:])
	}
	// A swap, not a store: so what came before the Wake happens before the end of the wait.
	s.state.Swap(awake)
	if s.closed.Load() {
		return transport.ErrClosed
	}
	return nil
}

// Unlock ends the wait. Only then Stop returns, so until then the transport's descriptors and
// devices can be used.
func (s *Sleeper) Unlock() { s.mu.Unlock() }

// Nap waits until timeout has passed, or for Wake or Stop, whatever else is in the set. Errors are
// transport.ErrClosed and those of the system call.
func (s *Sleeper) Nap(timeout time.Duration) error {
	idle, err := s.Prepare()
	if err != nil {
		return err
	}
	defer s.Unlock()
	var ready uint32
	if idle && timeout > 0 {
		ready, err = s.nap.Sleep(timeout)
	}
	return errors.Join(err, s.Finish(ready != 0))
}

// Wake makes the current or else the next wait end. Safe from any goroutine, also after Free.
func (s *Sleeper) Wake() {
	// The load keeps a second call cheap and its cache line shared.
	if s.state.Load() == waking || s.state.Swap(waking) != asleep {
		return
	}
	s.ring()
}

// ring makes the eventfd readable.
func (s *Sleeper) ring() {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	if !s.open {
		return
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(s.event, one[:]) // EAGAIN: it is readable already
}

// Stop returns when no wait is under way; none can begin any more, since the transport has set
// its closed flag before.
func (s *Sleeper) Stop() {
	s.ring()
	s.mu.Lock() // waits for Unlock
	defer s.mu.Unlock()
}

// Free closes the eventfd, after Stop. It does nothing the second time.
func (s *Sleeper) Free() {
	s.eventMu.Lock()
	defer s.eventMu.Unlock()
	if s.open {
		unix.Close(s.event)
	}
	if s.open && s.also != 0 {
		unix.Close(s.also)
	}
	s.open = false
}
