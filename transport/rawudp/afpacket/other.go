//go:build !linux

package afpacket

import (
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// Conn is an endpoint over a packet socket, which only Linux has.
type Conn struct{ transport.Transport }

// Listen fails: packet sockets are Linux's.
func Listen(string, Config) (*Conn, error) {
	return nil, fmt.Errorf("afpacket: %w: packet sockets need Linux", transport.ErrUnsupported)
}
