//go:build !linux

package auto

import (
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// sleeper has nothing to do: there is no shared memory outside Linux.
type sleeper struct{}

func (sleeper) init(udp, shm []int) {}

func networkNamespace() (uint64, error) { return 0, transport.ErrUnsupported }

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(timeout time.Duration) error { return c.udp.Wait(timeout) }
