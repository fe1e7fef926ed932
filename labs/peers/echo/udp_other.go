//go:build !unix

package echo

import (
	"errors"
	"net"
	"net/netip"
)

// packetFD is none.
type packetFD struct{ rawPackets }

func (packetFD) connect(netip.AddrPort) error { return errors.New("udp: " + rawUnfit) }

// takePackets closes the connection and fails.
func takePackets(c *net.UDPConn) (packetFD, error) {
	return packetFD{}, errors.Join(errors.New("udp: "+rawUnfit), c.Close())
}
