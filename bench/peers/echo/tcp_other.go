//go:build !unix

package echo

import (
	"errors"
	"net"
)

const tcpUnfit = "read(2) and write(2) on a non-blocking socket need a Unix system"

// takeFD closes the connection and fails.
func takeFD(c net.Conn) (rawFD, error) {
	return nil, errors.Join(errors.New("tcp: "+tcpUnfit), c.Close())
}
