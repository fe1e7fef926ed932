//go:build !linux

package measure

import (
	"fmt"

	"github.com/userspace-rpc/erpc/transport"
)

// side and vethPair are network namespaces, which only Linux has.
type (
	side     struct{}
	vethPair struct{ client, server, home side }
)

func openPair(int) (*vethPair, error) {
	return nil, fmt.Errorf("a pair of network namespaces: %w: they need Linux",
		transport.ErrUnsupported)
}

func (*side) enter() error            { return nil }
func (*side) do(f func() error) error { return f() }
func (*vethPair) close() error        { return nil }
