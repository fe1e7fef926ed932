package memcached

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// handshakeTimeout is how long a client may take for its handshake.
const handshakeTimeout = 10 * time.Second

// secure does the handshake of a connection, if it is to be encrypted. It returns nil if the client
// is not welcome. One that speaks no TLS is told so in the clear.
func (s *Server) secure(conn net.Conn) net.Conn {
	if s.cfg.TLS == nil {
		return conn
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	c := tls.Server(conn, s.cfg.TLS)
	err := c.HandshakeContext(ctx)
	if err == nil {
		return c
	}
	var odd tls.RecordHeaderError
	if errors.As(err, &odd) && odd.Conn != nil {
		sayPlain(odd.Conn, "ERROR this port speaks TLS only")
	}
	return nil
}

// sayPlain sends a line that nobody waits for.
func sayPlain(conn net.Conn, line string) {
	_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // the kernel takes it at once
	_, _ = conn.Write([]byte(line + "\r\n"))
}
