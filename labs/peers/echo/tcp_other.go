//go:build !unix

package echo

import (
	"errors"
	"net"
)

const rawUnfit = "system calls on a non-blocking socket need a Unix system"

// takeFD closes the connection and fails.
func takeFD(c net.Conn) (rawFD, error) {
	return nil, errors.Join(errors.New("tcp: "+rawUnfit), c.Close())
}
