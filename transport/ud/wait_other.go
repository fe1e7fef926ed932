//go:build !linux

package ud

import (
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// waiter is empty: there is no Conn outside Linux.
type waiter struct{}

func (w *waiter) init(*hardware, *atomic.Bool) error { return transport.ErrUnsupported }
func (w *waiter) stop()                              {}
func (w *waiter) free()                              {}
func (c *Conn) tend()                                {}

// Wait blocks until there is something to do, see transport.Transport.
func (c *Conn) Wait(time.Duration) error { return transport.ErrUnsupported }

// Wake makes the current or the next Wait return.
func (c *Conn) Wake() {}
