//go:build !linux

package echo

import (
	"errors"
	"net"
	"net/netip"
)

const bareUnfit = "it needs UDP_SEGMENT and recvmmsg, which only Linux has"

func takeBare(*net.UDPConn) (*bareNone, error) { return nil, errors.New(bareUnfit) }

// bareNone is no socket.
type bareNone struct{ bareFD }

func (bareNone) connect(netip.AddrPort) error { return errors.ErrUnsupported }
