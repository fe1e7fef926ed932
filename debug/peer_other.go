//go:build !linux

package debug

import (
	"net"
	"syscall"
)

const supported = false

func peerOf(*net.UnixConn) (int, error) { return 0, ErrUnsupported }

func ownMode(_, _ string, _ syscall.RawConn) error { return ErrUnsupported }
