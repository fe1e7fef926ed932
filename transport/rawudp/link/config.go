package link

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/transport/rawudp"
)

// Config describes what overrides the kernel's tables.
type Config struct {
	// Neighbours are MAC addresses that are used without asking the kernel, neither for a route nor
	// for a neighbour: of peers on the link, or of the gateway that leads to them.
	Neighbours map[netip.Addr]rawudp.MAC
}
