package auto

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/userspace-rpc/erpc/internal/poll"
	"github.com/userspace-rpc/erpc/transport"
	"golang.org/x/sys/unix"
)

// sleeper polls the descriptors of both ways at once.
type sleeper struct {
	set  poll.Set
	udp  int  // how many of them, from the first on, are the socket's
	both bool // PrepareWait has asked both ways
}

func (s *sleeper) init(udp, shm []int) {
	s.set, s.udp = poll.NewSet("auto", udp...), len(udp)
	s.set.Watch(shm...)
}

// networkNamespace returns the number of the network namespace of this thread, in which
// it opens sockets. No two that exist at a time have the same.
func networkNamespace() (uint64, error) {
	const path = "/proc/thread-self/ns/net"
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, fmt.Errorf("auto: %w: %w", transport.ErrUnsupported,
			&os.PathError{Op: "stat", Path: path, Err: err})
	}
	return st.Ino & (1<<32 - 1), nil
}

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(timeout time.Duration) error {
	if c.shm == nil {
		return c.udp.Wait(timeout)
	}
	return c.sleep.set.Wait(c, timeout)
}

// WaitFDs returns what to poll, see transport.Transport.
func (c *Conn) WaitFDs() []int {
	if c.shm == nil {
		return c.udp.WaitFDs()
	}
	return c.sleep.set.FDs()
}

// PrepareWait begins a wait, see transport.Transport. Both ways prepare before the sleep: what
// comes over either from then on makes a descriptor readable.
func (c *Conn) PrepareWait() (idle bool, err error) {
	c.turns.busy = false // whatever ends this, the next RxBurst looks at both
	c.sleep.both = false
	idle, err = c.udp.PrepareWait()
	if !idle || err != nil || c.shm == nil {
		return idle, err
	}
	if idle, err = c.shm.PrepareWait(); err != nil {
		return false, errors.Join(err, c.udp.FinishWait(0))
	}
	c.sleep.both = true
	return idle, nil
}

// FinishWait ends a wait, see transport.Transport.
func (c *Conn) FinishWait(ready uint32) error {
	if !c.sleep.both {
		return c.udp.FinishWait(ready)
	}
	udpReady, shmReady := c.sleep.split(ready)
	return errors.Join(c.shm.FinishWait(shmReady), c.udp.FinishWait(udpReady))
}

// split deals out the bits of the set to the ways, each from its own bit 0 on.
func (s *sleeper) split(ready uint32) (udp, shm uint32) {
	return ready & (1<<s.udp - 1), ready >> s.udp
}
