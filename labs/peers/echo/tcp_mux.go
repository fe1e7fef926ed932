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

// muxPeer does by hand, with the standard library alone, what a program needs of a library. All
// callers share a connection. A message has its size and its id before it. One goroutine of each
// side reads, and one writes all that wait with one call. Each message has memory of its own.
var muxPeer = Peer{Name: "tcp-mux", Transport: "tcp", Dial: dialMux, ListenAt: listenMux,
	Listen: func(z Sizes) (Server, error) { return listenMux(anyPort, z) }}

// muxReusePeer is muxPeer with memory that is used again: a caller's for its next response, the
// server's for the next request.
var muxReusePeer = Peer{Name: "tcp-mux-reuse", Transport: "tcp",
	Dial: func(ctx context.Context, addr string, z Sizes) (Conn, error) {
		c, err := dialMux(ctx, addr, z)
		if err == nil {
			c.(*muxConn).reuse = true
		}
		return c, err
	},
	ListenAt: listenMuxReuse,
	Listen:   func(z Sizes) (Server, error) { return listenMuxReuse(anyPort, z) },
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
	used []byte // what the server's reader can have again when the body is written
}

// muxPipe is one end of the connection.
type muxPipe struct {
	conn  net.Conn
	limit int
	out   chan muxFrame
	free  chan []byte
	done  chan struct{} // closed when the reader has ended
}

func newMuxPipe(c net.Conn, limit int) *muxPipe {
	return &muxPipe{c, limit, make(chan muxFrame, muxQueue), make(chan []byte, muxQueue),
		make(chan struct{})}
}

// send gives a frame to the writer. It returns false if the connection has ended.
func (p *muxPipe) send(f muxFrame) bool {
	select {
	case p.out <- f:
		return true
	case <-p.done:
		return false
	}
}

// write sends what waits until the connection ends.
func (p *muxPipe) write() {
	heads := make([]byte, 0, muxBatch*muxHeader)
	var batch []muxFrame
	var list net.Buffers
	for {
		select {
		case f := <-p.out:
			batch = append(batch[:0], f)
		case <-p.done:
			return
		}
		for n := min(len(p.out), muxBatch-1); n > 0; n-- { // nobody else takes from it
			batch = append(batch, <-p.out)
		}
		heads, list = heads[:0], list[:0]
		for _, f := range batch {
			heads = binary.LittleEndian.AppendUint32(heads, uint32(len(f.body)))
			heads = binary.LittleEndian.AppendUint64(heads, f.id)
			list = append(list, heads[len(heads)-muxHeader:], f.body)
		}
		rest := list // WriteTo takes from it
		if _, err := rest.WriteTo(p.conn); err != nil {
			_ = p.conn.Close() // the reader tells it
			return
		}
		for _, f := range batch {
			if f.used != nil && len(p.free) < cap(p.free) { // nobody else gives
				p.free <- f.used
			}
		}
	}
}

// read calls got for each frame until the connection ends. Into returns the memory for it.
func (p *muxPipe) read(into func(id uint64) ([]byte, error), got func(muxFrame) error) error {
	defer close(p.done)
	r, head := bufio.NewReaderSize(p.conn, 64<<10), make([]byte, muxHeader)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			return err
		}
		size, id := int(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint64(head[4:])
		if size > p.limit {
			return fmt.Errorf("tcp-mux: message of %d bytes, and %d are allowed", size, p.limit)
		}
		body, err := into(id)
		if err != nil {
			return err
		}
		if cap(body) < size {
			body = make([]byte, size)
		}
		body = body[:size]
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if err := got(muxFrame{id: id, body: body}); err != nil {
			return err
		}
	}
}

type muxServer struct {
	net.Listener
	sizes Sizes
	reuse bool
}

func listenMuxReuse(addr string, z Sizes) (Server, error) {
	s, err := listenMux(addr, z)
	if err == nil {
		s.(*muxServer).reuse = true
	}
	return s, err
}

func listenMux(addr string, z Sizes) (Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &muxServer{Listener: l, sizes: z}, nil
}

func (s *muxServer) Addr() string { return s.Listener.Addr().String() }

// Serve implements Server.
func (s *muxServer) Serve() error {
	for {
		c, err := s.Accept()
		if err != nil {
			return err
		}
		go s.serve(c)
	}
}

// serve answers a client until it leaves, or breaks the rules.
func (s *muxServer) serve(c net.Conn) {
	p, answer := newMuxPipe(c, s.sizes.limit()), newReplier(s.sizes)
	go p.write()
	_ = p.read(func(uint64) (b []byte, err error) {
		select {
		case b = <-p.free:
		default:
		}
		return b, nil
	}, func(f muxFrame) error {
		out := muxFrame{id: f.id, body: answer.reply(f.body)}
		if s.reuse {
			out.used = f.body
		}
		if !p.send(out) {
			return errMux
		}
		return nil
	})
	_ = c.Close()
}

type muxConn struct {
	*muxPipe
	reuse   bool
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*muxCall
}

// muxCall is a caller: its memory, and where it waits.
type muxCall struct {
	buf []byte
	got chan []byte
}

func dialMux(ctx context.Context, addr string, z Sizes) (Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &muxConn{muxPipe: newMuxPipe(nc, z.limit()), waiting: map[uint64]*muxCall{}}
	go c.write()
	go c.receive()
	return c, nil
}

// receive hands each response to its call.
func (c *muxConn) receive() {
	var call *muxCall
	_ = c.read(func(id uint64) ([]byte, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if call = c.waiting[id]; call == nil {
			return nil, fmt.Errorf("tcp-mux: response %d, which nobody awaits", id)
		}
		delete(c.waiting, id)
		return call.buf, nil
	}, func(f muxFrame) error {
		call.got <- f.body
		return nil
	})
	_ = c.conn.Close()
}

// NewCall returns calls. After one that is cancelled the connection is of no use.
func (c *muxConn) NewCall() Call {
	call := &muxCall{got: make(chan []byte, 1)}
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.next++
		id := c.next
		c.waiting[id] = call
		c.mu.Unlock()
		if !c.send(muxFrame{id: id, body: request}) {
			return nil, errMux
		}
		select {
		case b := <-call.got:
			if c.reuse {
				call.buf = b
			}
			return b, nil
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
