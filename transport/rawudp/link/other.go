//go:build !linux

package link

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
)

// Open fails: there is no netlink on this system.
func Open(string, netip.Addr, Config) (rawudp.Network, netip.Addr, error) {
	return nil, netip.Addr{}, transport.ErrUnsupported
}
