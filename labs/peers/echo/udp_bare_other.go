//go:build !linux

package echo

import (
	"errors"
	"net"
	"net/netip"
)

const bareUnfit = "it needs UDP_SEGMENT and recvmmsg, which only Linux has"

func takeBare(*net.UDPConn, netip.AddrPort) (bareFD, error) { return nil, errors.New(bareUnfit) }
