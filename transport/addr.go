package transport

import (
	"net/netip"

	"github.com/userspace-rpc/erpc/packet"
)

// Addr is the address of an endpoint.
type Addr = packet.Addr

// AddrFrom returns the Addr of an IP address and port. A named IPv6 zone must be
// given as its interface number in scope, since Addr holds no strings.
func AddrFrom(ap netip.AddrPort, scope uint32) Addr { return packet.AddrFrom(ap, scope) }

// TxItem is one packet to send. The transport only reads it: Head until TxBurst returns, Data until
// then if Caps.TxCopies, else until the next Flush returns.
type TxItem = packet.Tx
