//go:build !linux

package afxdp

import (
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// Conn is an endpoint over XDP sockets, which only Linux has.
type Conn struct{ transport.Transport }

// Listen fails: XDP sockets are Linux's.
func Listen(string, Config) (*Conn, error) {
	return nil, fmt.Errorf("afxdp: %w: XDP sockets need Linux", transport.ErrUnsupported)
}
