package auto

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// sleeper polls the descriptors of both ways at once.
type sleeper struct {
	poll []unix.PollFd
	udp  int // how many of them, from the first on, are the socket's
}

func (s *sleeper) init(udp, shm []int) {
	s.udp = len(udp)
	for _, fds := range [][]int{udp, shm} {
		for _, fd := range fds {
			s.poll = append(s.poll, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
		}
	}
}

// networkNamespace returns the number of the network namespace of this thread, in which
// it opens sockets. No two that exist at a time have the same.
func networkNamespace() (uint64, error) {
	const path = "/proc/thread-self/ns/net"
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("auto: %w: %w", transport.ErrUnsupported, &os.PathError{Op: "stat", Path: path, Err: err})
	}
	return st.Ino & (1<<32 - 1), nil
}

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(timeout time.Duration) error {
	if c.shm == nil {
		return c.udp.Wait(timeout)
	}
	c.turns.busy = false // whatever ends this, the next RxBurst looks at both
	idle, err := c.udp.PrepareWait()
	if err != nil {
		return err
	}
	if !idle {
		return c.udp.FinishWait(0)
	}
	idle, err = c.shm.PrepareWait()
	if err != nil {
		return errors.Join(err, c.udp.FinishWait(0))
	}
	var udpReady, shmReady uint32
	if idle && timeout != 0 {
		udpReady, shmReady, err = c.sleep.until(timeout)
	}
	return errors.Join(err, c.shm.FinishWait(shmReady), c.udp.FinishWait(udpReady))
}

// until blocks until a descriptor is ready, and says which are. The system call goes
// through the scheduler, so that other goroutines can use the processor meanwhile.
func (s *sleeper) until(timeout time.Duration) (udp, shm uint32, err error) {
	var limit *unix.Timespec
	if timeout >= 0 {
		ts := unix.NsecToTimespec(int64(timeout))
		limit = &ts
	}
	n, err := unix.Ppoll(s.poll, limit, nil)
	if err == unix.EINTR { // such as the scheduler's preemption signal
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("auto: %w", os.NewSyscallError("ppoll", err))
	}
	if n > 0 {
		udp, shm = readable(s.poll[:s.udp]), readable(s.poll[s.udp:])
	}
	return udp, shm, nil
}

// readable returns a bit for each descriptor that is.
func readable(fds []unix.PollFd) (bits uint32) {
	for i := range fds {
		if fds[i].Revents != 0 {
			bits |= 1 << i
		}
	}
	return bits
}
