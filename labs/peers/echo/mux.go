package echo

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
)

// leanMuxPeer is the fastest multiplexer over TCP that we know to write in a hundred lines: a
// goroutine on each side, batched writes. The server reads, answers and writes in one goroutine,
// and writes when it has read all that came. A client's callers put their frames into one buffer,
// which one goroutine writes; another one reads. It bounds nothing, and a call under way cannot be
// cancelled: tcp-mux does more of what a program needs.
var leanMuxPeer = Peer{Name: "mux", Transport: "tcp", Dial: dialLeanMux, Listen: listenLeanMux}

const leanHeader = 8 // size (4), slot of the call (4), little-endian

type leanMuxServer struct {
	net.Listener
	sizes Sizes
}

func listenLeanMux(z Sizes) (Server, error) {
	l, err := listenTCP()
	if err != nil {
		return nil, err
	}
	return &leanMuxServer{l, z}, nil
}

func (s *leanMuxServer) Addr() string { return s.Listener.Addr().String() }

// Serve implements Server.
func (s *leanMuxServer) Serve() error {
	for {
		c, err := s.Accept()
		if err != nil {
			return err
		}
		go s.serve(c)
	}
}

func (s *leanMuxServer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	answer := newReplier(s.sizes)
	r, w := bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)
	for {
		slot, body, err := readLean(r)
		if err != nil {
			return
		}
		_, _ = w.Write(leanFrame(nil, slot, answer.reply(body))) // Flush tells what went wrong
		if r.Buffered() == 0 && w.Flush() != nil {
			return
		}
	}
}

func leanFrame(to []byte, slot uint32, body []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(body)))
	to = binary.LittleEndian.AppendUint32(to, slot)
	return append(to, body...)
}

func readLean(r *bufio.Reader) (slot uint32, body []byte, err error) {
	head, err := r.Peek(leanHeader)
	if err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(head)
	slot = binary.LittleEndian.Uint32(head[4:])
	if size > maxLean {
		return 0, nil, errLeanMux
	}
	_, _ = r.Discard(leanHeader)
	body = make([]byte, size)
	_, err = io.ReadFull(r, body)
	return slot, body, err
}

const maxLean = 64 << 20

var errLeanMux = errors.New("mux: the connection has ended")

type leanMuxConn struct {
	conn net.Conn
	mu   sync.Mutex
	out  []byte        // frames that wait for the writer
	wake chan struct{} // has room for one: there are some
	got  []chan []byte // of each slot
	done chan struct{} // closed when the reader has ended
}

func dialLeanMux(ctx context.Context, addr string, _ Sizes) (Conn, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return newLeanMux(nc), nil
}

func newLeanMux(nc net.Conn) *leanMuxConn {
	c := &leanMuxConn{conn: nc, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go c.write()
	go c.read()
	return c
}

func (c *leanMuxConn) write() {
	var spare []byte
	for {
		select {
		case <-c.wake:
		case <-c.done:
			return
		}
		c.mu.Lock()
		batch := c.out
		c.out = spare[:0]
		c.mu.Unlock()
		if _, err := c.conn.Write(batch); err != nil {
			_ = c.conn.Close() // the reader tells it
			return
		}
		spare = batch
	}
}

func (c *leanMuxConn) read() {
	defer close(c.done)
	defer func() { _ = c.conn.Close() }()
	r := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		slot, body, err := readLean(r)
		if err != nil {
			return
		}
		c.mu.Lock()
		got := c.got[slot%uint32(len(c.got))]
		c.mu.Unlock()
		got <- body
	}
}

// NewCall implements Conn.
func (c *leanMuxConn) NewCall() Call {
	got := make(chan []byte, 1)
	c.mu.Lock()
	slot := uint32(len(c.got))
	c.got = append(c.got, got)
	c.mu.Unlock()
	return func(ctx context.Context, request []byte) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.mu.Lock()
		first := len(c.out) == 0
		c.out = leanFrame(c.out, slot, request)
		c.mu.Unlock()
		if first {
			c.wake <- struct{}{}
		}
		select {
		case b := <-got:
			return b, nil
		case <-c.done:
			return nil, errLeanMux
		}
	}
}

// Close implements Conn.
func (c *leanMuxConn) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}
