//go:build !linux

package shm

import "github.com/userspace-rpc/erpc/transport"

// Conn is an endpoint in shared memory. There is none outside Linux.
type Conn struct{ transport.Transport }

// Listen returns transport.ErrUnsupported: this system is not Linux.
func Listen(name string, cfg Config) (*Conn, error) { return nil, transport.ErrUnsupported }
