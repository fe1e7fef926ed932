//go:build !linux

package shm

import "github.com/userspace-rpc/erpc/transport"

// Conn is an endpoint in shared memory. There is none outside Linux.
type Conn struct{ transport.Transport }

// Listen returns transport.ErrUnsupported: this system is not Linux.
func Listen(name string, cfg Config) (*Conn, error) { return nil, transport.ErrUnsupported }

// IsPrivate makes the Conn a transport.Insider.
func (c *Conn) IsPrivate(transport.Addr) bool { return false }

// WaitFDs makes the Conn a transport.Waiter.
func (c *Conn) WaitFDs() []int { return nil }

// PrepareWait begins a wait, see transport.Waiter.
func (c *Conn) PrepareWait() (idle bool, err error) { return false, transport.ErrUnsupported }

// FinishWait ends a wait, see transport.Waiter.
func (c *Conn) FinishWait(ready uint32) error { return transport.ErrUnsupported }
