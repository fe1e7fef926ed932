package echo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// A client sends hello to the server's address. The server opens a socket for it, and answers
// with hello and that socket's port (2 bytes, little-endian).
const hello = "udp echo"

const (
	helloTimeout = 5 * time.Second // for the answer to a hello
	lossTimeout  = 5 * time.Second // without a response, from which on one is lost
	maxPause     = 100 * time.Millisecond
	udpClients   = 1 << 12 // that a server has at once
	udpBuffer    = 4 << 20 // bytes of datagrams that a socket is to hold
)

// errLost is a datagram that did not arrive.
var errLost = errors.New("a datagram was lost, and nothing sends it again")

// udpServer has a socket for each thread of the clients, and one for hellos.
type udpServer struct {
	rawServer
	listener *net.UDPConn
	take     func(*net.UDPConn) (rawPipe, error) // takes the socket out of a connection, and closes it
}

func listenUDPEcho(z Sizes) (Server, error) {
	if rawUnfit != "" {
		return nil, fmt.Errorf("udp: %s", rawUnfit)
	}
	if err := fitsUDP(z); err != nil {
		return nil, err
	}
	return newUDPServer(anyPort, z, func(c *net.UDPConn) (rawPipe, error) {
		fd, err := takePackets(c)
		if err != nil {
			return nil, err
		}
		return newUDPPipe(fd), nil
	})
}

func newUDPServer(addr string, z Sizes, take func(*net.UDPConn) (rawPipe, error)) (Server, error) {
	at, err := net.ResolveUDPAddr("udp4", addr)
	if err != nil {
		return nil, err
	}
	l, err := net.ListenUDP("udp4", at)
	if err != nil {
		return nil, err
	}
	return &udpServer{newRawServer(z), l, take}, nil
}

func (s *udpServer) Addr() string { return s.listener.LocalAddr().String() }
func (s *udpServer) Close() error { return s.listener.Close() }

// Serve answers requests until Close.
func (s *udpServer) Serve() error {
	go s.accept()
	return s.serve()
}

// accept answers hellos until the listener ends. Other datagrams, and clients above the most
// that there may be, get no answer.
func (s *udpServer) accept() {
	defer close(s.came)
	b := make([]byte, len(hello)+1)
	for {
		n, from, err := s.listener.ReadFromUDPAddrPort(b)
		if err != nil {
			s.err = err
			return
		}
		if string(b[:n]) != hello || s.clients.Load() >= udpClients {
			continue
		}
		if err := s.welcome(from); err != nil {
			s.err = err
			return
		}
	}
}

// welcome opens a socket for a client.
func (s *udpServer) welcome(client netip.AddrPort) error {
	own := s.listener.LocalAddr().(*net.UDPAddr)
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: own.IP}, net.UDPAddrFromAddrPort(client))
	if err != nil {
		return err
	}
	port := uint16(c.LocalAddr().(*net.UDPAddr).Port)
	p, err := s.take(c)
	if err != nil {
		return err
	}
	s.hand(p)
	_, err = s.listener.WriteToUDPAddrPort(
		binary.LittleEndian.AppendUint16([]byte(hello), port), client)
	return err
}

// udpConn is the client's end.
type udpConn struct {
	pipe   *udpPipe
	got    func(id uint64, response []byte) error
	handle func(rawMessage) error
	now    func() time.Time

	flying int           // requests without a response
	idle   int           // polls since the last one that was busy
	last   time.Time     // when waited was reckoned
	waited time.Duration // since the last busy poll
}

func newUDPConn(fd rawPackets) *udpConn {
	c := &udpConn{pipe: newUDPPipe(fd), now: time.Now}
	c.handle = func(m rawMessage) error {
		if m.typ != echoType {
			return fmt.Errorf("udp: response of type %d, want %d", m.typ, echoType)
		}
		c.flying--
		return c.got(m.id, m.body)
	}
	return c
}

func dialUDPEcho(ctx context.Context, addr string, z Sizes) (Conn, error) {
	if err := fitsUDP(z); err != nil {
		return nil, err
	}
	c, server, err := dialUDPServer(ctx, addr)
	if err != nil {
		return nil, err
	}
	fd, err := takePackets(c)
	if err != nil {
		return nil, err
	}
	if err := fd.connect(server); err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return newUDPConn(fd), nil
}

// dialUDPServer opens a socket, and asks a server for one.
func dialUDPServer(ctx context.Context, addr string) (c *net.UDPConn, server netip.AddrPort,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "udp4", addr)
	if err != nil {
		return nil, server, err
	}
	c = nc.(*net.UDPConn)
	if server, err = greet(ctx, c); err != nil {
		return nil, server, errors.Join(fmt.Errorf("udp: no answer from a server at %s: %w", addr, err),
			c.Close())
	}
	return c, server, nil
}

// greet sends hello, and returns the address of the socket that the server has opened.
func greet(ctx context.Context, c *net.UDPConn) (server netip.AddrPort, err error) {
	stop := context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := c.Write([]byte(hello)); err != nil {
		return server, err
	}
	b := make([]byte, len(hello)+3)
	n, err := c.Read(b)
	if ctx.Err() != nil {
		return server, ctx.Err()
	}
	if err != nil {
		return server, err
	}
	if n != len(hello)+2 || string(b[:len(hello)]) != hello {
		return server, fmt.Errorf("%d bytes that are no answer to hello", n)
	}
	to := c.RemoteAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(to.Addr().Unmap(), binary.LittleEndian.Uint16(b[len(hello):])), nil
}

// Send implements Stream.
func (c *udpConn) Send(id uint64, request []byte) {
	if c.flying == 0 {
		c.idle = 0
	}
	c.flying++
	c.pipe.add(rawMessage{echoType, id, request})
}

// Poll implements Stream. It fails with errLost once responses are missing and nothing has
// come for lossTimeout.
func (c *udpConn) Poll(got func(id uint64, response []byte) error) (busy bool, err error) {
	c.got = got
	busy, err = c.pipe.step(c.handle)
	if busy || err != nil {
		c.idle = 0
		return busy, err
	}
	if c.idle++; c.idle%idleSteps == 0 && c.flying > 0 {
		return false, c.checkLoss()
	}
	return false, nil
}

// checkLoss reckons how long nothing has come. A pause of this process counts as maxPause at
// most: what came meanwhile may not be read yet.
func (c *udpConn) checkLoss() error {
	now := c.now()
	if c.idle == idleSteps {
		c.last, c.waited = now, 0
	}
	c.waited += min(now.Sub(c.last), maxPause)
	if c.last = now; c.waited < lossTimeout {
		return nil
	}
	return fmt.Errorf("udp: %d requests have no response, and none came for %v: %w", c.flying,
		lossTimeout, errLost)
}

// NewCall returns calls that keep one request in flight.
func (c *udpConn) NewCall() Call { return newRawCall("udp", c) }

func (c *udpConn) Close() error { return c.pipe.Close() }
