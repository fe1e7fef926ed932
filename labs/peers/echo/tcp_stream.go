package echo

import (
	"context"
	"fmt"
	"net"
)

// tcpServer has a connection for each thread of the clients.
type tcpServer struct {
	rawServer
	listener net.Listener
	limit    int
}

func listenTCPEcho(z Sizes) (Server, error) { return listenTCPEchoAt(anyPort, z) }

func listenTCPEchoAt(addr string, z Sizes) (Server, error) {
	if rawUnfit != "" {
		return nil, fmt.Errorf("tcp: %s", rawUnfit)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &tcpServer{rawServer: newRawServer(z), listener: l, limit: z.limit()}, nil
}

func (s *tcpServer) Addr() string { return s.listener.Addr().String() }
func (s *tcpServer) Close() error { return s.listener.Close() }

// accept hands connections to Serve until the listener ends.
func (s *tcpServer) accept() {
	defer close(s.came)
	for {
		c, err := s.listener.Accept()
		if err != nil {
			s.err = err
			return
		}
		fd, err := takeFD(c)
		if err != nil {
			s.err = err
			return
		}
		s.came <- newTCPPipe(fd, s.limit, backlog)
	}
}

// Serve answers requests until Close.
func (s *tcpServer) Serve() error {
	go s.accept()
	return s.serve()
}

// tcpConn is the client's end.
type tcpConn struct {
	pipe   *tcpPipe
	got    func(id uint64, response []byte) error
	handle func(rawMessage) error
}

func newTCPConn(fd rawFD, z Sizes) *tcpConn {
	c := &tcpConn{pipe: newTCPPipe(fd, z.limit(), noBacklog)}
	c.handle = func(m rawMessage) error {
		if m.typ != echoType {
			return fmt.Errorf("tcp: response of type %d, want %d", m.typ, echoType)
		}
		return c.got(m.id, m.body)
	}
	return c
}

func dialTCPEcho(ctx context.Context, addr string, z Sizes) (Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	fd, err := takeFD(c)
	if err != nil {
		return nil, err
	}
	return newTCPConn(fd, z), nil
}

// Send implements Stream.
func (c *tcpConn) Send(id uint64, request []byte) {
	c.pipe.add(rawMessage{echoType, id, request})
}

// Poll implements Stream.
func (c *tcpConn) Poll(got func(id uint64, response []byte) error) (busy bool, err error) {
	c.got = got
	return c.pipe.step(c.handle)
}

// NewCall returns calls that keep one request in flight.
func (c *tcpConn) NewCall() Call { return newRawCall("tcp", c) }

func (c *tcpConn) Close() error { return c.pipe.Close() }
