package poll

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// maxFDs is how many descriptors have a bit in what Sleep returns.
const maxFDs = 32

// Set is a list of descriptors that one goroutine polls for reading. It owns none of them: they
// stay open while it is used.
type Set struct {
	name string
	fds  []unix.PollFd
}

// NewSet returns a set of fds. Errors begin with name, that of the transport.
func NewSet(name string, fds ...int) Set {
	s := Set{name: name}
	s.Watch(fds...)
	return s
}

// Watch adds fds behind those that are in the set. It panics if the set gets more than 32.
func (s *Set) Watch(fds ...int) {
	if len(s.fds)+len(fds) > maxFDs {
		panic(fmt.Sprintf("poll: %s: more than %d descriptors", s.name, maxFDs))
	}
	for _, fd := range fds {
		s.fds = append(s.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
}

// FDs returns the descriptors in their order, in a slice of the caller's own.
func (s *Set) FDs() []int {
	fds := make([]int, len(s.fds))
	for i := range fds {
		fds[i] = int(s.fds[i].Fd)
	}
	return fds
}

// Sleep blocks until a descriptor is readable or has an error, or until timeout has passed. A
// negative timeout does not pass. Bit i of ready stands for descriptor i. Sleep returns early,
// with ready 0 and no error, if a signal interrupts it.
//
// The system call goes through the scheduler, so that other goroutines can use the processor
// meanwhile.
func (s *Set) Sleep(timeout time.Duration) (ready uint32, err error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err := unix.Ppoll(s.fds, limit, nil) // unlike poll and epoll_wait it takes nanoseconds
	if err == unix.EINTR {                  // such as the scheduler's preemption signal
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, os.NewSyscallError("ppoll", err))
	}
	if n > 0 {
		for i := range s.fds {
			if s.fds[i].Revents != 0 {
				ready |= 1 << i
			}
		}
	}
	return ready, nil
}

// Waiter has the first and the last step of a transport's Wait, see transport.Transport.
type Waiter interface {
	PrepareWait() (idle bool, err error)
	FinishWait(ready uint32) error
}

// Wait is the Wait of a transport: the steps of w, with a sleep on the set between them. The
// set holds its WaitFDs. Errors are those of w and Sleep.
func (s *Set) Wait(w Waiter, timeout time.Duration) error {
	idle, err := w.PrepareWait()
	if err != nil {
		return err
	}
	var ready uint32
	if idle && timeout != 0 {
		ready, err = s.Sleep(timeout)
	}
	return errors.Join(err, w.FinishWait(ready))
}
