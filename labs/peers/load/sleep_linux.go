package load

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleeper sleeps for some tens of microseconds. time.Sleep takes a millisecond or more in a
// process that has nothing else to do, since epoll_wait(2) counts in milliseconds; a file of
// timerfd_create(2) wakes it in time. It belongs to one goroutine.
type sleeper struct {
	fd   int // file's; registered with Go's poller
	file *os.File
}

func newSleeper() (*sleeper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &sleeper{fd: fd, file: os.NewFile(uintptr(fd), "timer")}, nil
}

// sleep returns after d, or soon after it.
func (s *sleeper) sleep(d time.Duration) error {
	if d <= 0 { // a timer of 0 never fires
		return nil
	}
	t := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(s.fd, 0, &t, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expired [8]byte
	n, err := s.file.Read(expired[:])
	if err == nil && n != len(expired) {
		err = errors.New("timer: a short read")
	}
	return err
}

func (s *sleeper) close() { _ = s.file.Close() }
