package echo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// muxPeer is no library: it is what a program writes by hand with the standard library alone. All
// callers share a connection. A message has its size and its id before it, one goroutine of each
// side writes all that wait with one call, and one reads. Each message is memory of its own.
var muxPeer = Peer{
	Name: "tcp-mux", Transport: "tcp", Dial: dialMux, ListenAt: listenMux,
	Listen: func(z Sizes) (Server, error) { return listenMux(anyPort, z) },
}

const (
	muxHeader = 12  // size (4), id (8), little-endian
	muxBatch  = 64  // frames that leave with one call at most
	muxQueue  = 256 // frames that wait for the writer
)

var errMux = errors.New("tcp-mux: the connection has ended")

type muxFrame struct {
	id   uint64
	body []byte
}

// muxPipe is one end of the connection.
type muxPipe struct {
	conn  net.Conn
	limit int
	out   chan muxFrame
	done  chan struct{} // closed when the reader has ended
}

func newMuxPipe(c net.Conn, limit int) *muxPipe {
	return &muxPipe{c, limit, make(chan muxFrame, muxQueue), make(chan struct{})}
}

// send gives a frame to the writer. False: the connection has ended.
func (p *muxPipe) send(f muxFrame) bool {
	select {
	case p.out <- f:
		return true
	case <-p.done:
		return false
	}
}

// write sends what waits, in batches, until the connection ends.
func (p *muxPipe) write() {
	heads := make([]byte, muxBatch*muxHeader)
	list := make(net.Buffers, 0, 2*muxBatch)
	for {
		list = list[:0]
		var f muxFrame
		select {
		case f = <-p.out:
		case <-p.done:
			return
		}
		for n, more := 0, true; more; n++ {
			head := heads[n*muxHeader:][:muxHeader]
			binary.LittleEndian.PutUint32(head, uint32(len(f.body)))
			binary.LittleEndian.PutUint64(head[4:], f.id)
			list = append(list, head, f.body)
			if more = n+1 < muxBatch; more {
				select {
				case f = <-p.out:
				default:
					more = false
				}
			}
		}
		rest := list // WriteTo takes from it
		if _, err := rest.WriteTo(p.conn); err != nil {
			_ = p.conn.Close() // the reader tells it
			return
		}
	}
}

// read calls got for each frame until the connection ends.
func (p *muxPipe) read(got func(muxFrame) error) error {
	defer close(p.done)
	r, head := bufio.NewReaderSize(p.conn, 64<<10), make([]byte, muxHeader)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		size := int(binary.LittleEndian.Uint32(head))
		if size > p.limit {
			return fmt.Errorf("tcp-mux: message of %d bytes, and %d are allowed", size, p.limit)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if err := got(muxFrame{binary.LittleEndian.Uint64(head[4:]), body}); err != nil {
			return err
		}
	}
}

type muxServer struct {
	net.Listener
	sizes Sizes
}

func listenMux(addr string, z Sizes) (Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &muxServer{l, z}, nil
}

func (s *muxServer) Addr() string { return s.Listener.Addr().String() }

// Serve implements Server.
func (s *muxServer) Serve() error {
	for {
		c, err := s.Accept()
		if err != nil {
			return err
		}
		p, answer := newMuxPipe(c, s.sizes.limit()), newReplier(s.sizes)
		go p.write()
		go func() {
			_ = p.read(func(f muxFrame) error { // a client that leaves, or breaks the rules
				if !p.send(muxFrame{f.id, answer.reply(f.body)}) {
					return errMux
				}
				return nil
			})
			_ = c.Close()
		}()
	}
}

type muxConn struct {
	*muxPipe
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan []byte
}

func dialMux(ctx context.Context, addr string, z Sizes) (Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &muxConn{muxPipe: newMuxPipe(nc, z.limit()), waiting: map[uint64]chan []byte{}}
	go c.write()
	go c.receive()
	return c, nil
}

// receive hands each response to its call.
func (c *muxConn) receive() {
	_ = c.read(func(f muxFrame) error {
		c.mu.Lock()
		ch := c.waiting[f.id]
		delete(c.waiting, f.id)
		c.mu.Unlock()
		if ch == nil {
			return fmt.Errorf("tcp-mux: response %d, which nobody awaits", f.id)
		}
		ch <- f.body
		return nil
	})
	_ = c.conn.Close()
}

// NewCall returns calls. One that is cancelled may leave its request with the writer.
func (c *muxConn) NewCall() Call {
	got := make(chan []byte, 1)
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.next++
		id := c.next
		c.waiting[id] = got
		c.mu.Unlock()
		if !c.send(muxFrame{id, request}) {
			return nil, errMux
		}
		select {
		case response := <-got:
			return response, nil
		case <-c.done:
			return nil, errMux
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *muxConn) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}
