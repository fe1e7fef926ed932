package echo

import (
	"context"
	"fmt"
	"net"
	"runtime"
)

// idleSteps is how many steps that found nothing make a loop let other goroutines run:
// some tens of microseconds.
const idleSteps = 256

// tcpServer serves all connections from one goroutine, in turns.
type tcpServer struct {
	listener net.Listener
	handlers []tcpHandler
	limit    int
	came     chan *tcpPipe // closed after the listener
	err      error         // of the listener; valid once came is closed
}

func listenTCPEcho(z Sizes) (Server, error) {
	if tcpUnfit != "" {
		return nil, fmt.Errorf("tcp: %s", tcpUnfit)
	}
	l, err := listenTCP()
	if err != nil {
		return nil, err
	}
	answer := newReplier(z)
	return &tcpServer{listener: l, handlers: []tcpHandler{echoType: answer.reply},
		limit: z.limit(), came: make(chan *tcpPipe)}, nil
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

// Serve answers requests until Close. A connection whose other side closes it or breaks
// the rules is closed, and the others go on. It spins while there are connections.
func (s *tcpServer) Serve() error {
	go s.accept()
	var pipes []*tcpPipe
	defer func() {
		for _, p := range pipes {
			_ = p.fd.Close()
		}
	}()
	for idle := 0; ; idle++ {
		if p, open := s.next(len(pipes) == 0); !open {
			return s.err
		} else if p != nil {
			pipes = append(pipes, p)
		}
		kept := pipes[:0]
		for _, p := range pipes {
			busy, err := p.serveStep(s.handlers)
			if err != nil {
				_ = p.fd.Close()
				continue
			}
			if kept = append(kept, p); busy {
				idle = 0
			}
		}
		pipes = kept
		if idle%idleSteps == idleSteps-1 {
			runtime.Gosched()
		}
	}
}

// next returns a connection that came, or nil; with wait it waits for one. It returns
// false once there will be no more.
func (s *tcpServer) next(wait bool) (p *tcpPipe, open bool) {
	if wait {
		p, open = <-s.came
		return p, open
	}
	select {
	case p, open = <-s.came:
		return p, open
	default:
		return nil, true
	}
}

// tcpConn is the client's end.
type tcpConn struct {
	pipe   *tcpPipe
	got    func(id uint64, response []byte) error
	handle func(tcpMessage) error
}

func newTCPConn(fd rawFD, z Sizes) *tcpConn {
	c := &tcpConn{pipe: newTCPPipe(fd, z.limit(), noBacklog)}
	c.handle = func(m tcpMessage) error {
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
	c.pipe.add(tcpMessage{echoType, id, request})
}

// Poll implements Stream.
func (c *tcpConn) Poll(got func(id uint64, response []byte) error) (busy bool, err error) {
	c.got = got
	return c.pipe.step(c.handle)
}

// NewCall returns calls that keep one request in flight. One that is cancelled leaves
// its response under way, so the connection is of no use after it.
func (c *tcpConn) NewCall() Call {
	var id uint64
	var response []byte
	done := false
	got := func(of uint64, body []byte) error {
		if of != id || done {
			return fmt.Errorf("tcp: response %d, and %d is awaited", of, id)
		}
		response, done = append(response[:0], body...), true
		return nil
	}
	return func(ctx context.Context, request []byte) ([]byte, error) {
		id++
		done = false
		c.Send(id, request)
		for idle := 0; !done; idle++ {
			if idle%idleSteps == 0 {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				runtime.Gosched()
			}
			if _, err := c.Poll(got); err != nil {
				return nil, err
			}
		}
		return response, nil
	}
}

func (c *tcpConn) Close() error { return c.pipe.fd.Close() }
