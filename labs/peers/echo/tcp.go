package echo

import (
	"fmt"
	"io"
	"math"
)

// tcpPeer is no library: it is the least that a program can write by hand. Each client
// thread has one TCP connection. Both sides spin on read(2) and write(2), which carry as
// many messages at once as there are. It has no sessions, no at-most-once across
// connections, no recovery, no congestion control of its own and no timeouts.
var tcpPeer = Peer{
	Name: "tcp", Transport: "tcp", Streams: true, Unfit: rawUnfit,
	Listen: listenTCPEcho, ListenAt: listenTCPEchoAt, Dial: dialTCPEcho,
}

// backlog is how many unsent bytes make a server stop reading requests.
const backlog = 1 << 20

// rawFD is a connected, non-blocking socket. Read and Write return 0 and no error where
// they would have to wait; at the end of the stream Read returns io.EOF.
type rawFD interface {
	Read(b []byte) (int, error)
	Write(b []byte) (int, error)
	Close() error
}

// tcpPipe is one end of a connection. It owns its socket and belongs to one goroutine.
type tcpPipe struct {
	fd         rawFD
	limit      int // bytes of the largest body that may come
	backlog    int // unsent bytes from which on nothing is read
	in         []byte
	begin, end int    // of in: what came and was not handled
	out        []byte // what is to be sent
	sent       int    // how much of out was
}

func newTCPPipe(fd rawFD, limit, backlog int) *tcpPipe {
	return &tcpPipe{fd: fd, limit: limit, backlog: backlog, in: make([]byte, 64<<10)}
}

// add copies a message to those that step sends.
func (p *tcpPipe) add(m rawMessage) {
	if p.sent > len(p.out)/2 { // so that out stays small if it is never empty
		p.out = p.out[:copy(p.out, p.out[p.sent:])]
		p.sent = 0
	}
	p.out = appendRaw(p.out, m)
}

// step reads once, calls handle for each whole message that is there, and writes what
// was added, all without waiting. Busy says whether anything came or went. After an
// error the connection is of no use: io.EOF if the other side closed it between messages.
func (p *tcpPipe) step(handle func(rawMessage) error) (busy bool, err error) {
	for read := false; len(p.out)-p.sent < p.backlog; {
		m, ok, err := p.next()
		if err != nil {
			return busy, err
		}
		if ok {
			if err := handle(m); err != nil {
				return busy, err
			}
			busy = true
			continue
		}
		if read {
			break
		}
		n, err := p.fill()
		if err != nil {
			return busy, err
		}
		if n == 0 {
			break
		}
		read, busy = true, true
	}
	n, err := p.flush()
	return busy || n > 0, err
}

// next takes a message out of what came, if a whole one did.
func (p *tcpPipe) next() (m rawMessage, ok bool, err error) {
	b := p.in[p.begin:p.end]
	if len(b) < rawHeader {
		return m, false, nil
	}
	size := rawSize(b)
	if size > uint64(p.limit) {
		return m, false, fmt.Errorf("tcp: message of %d bytes, and %d are allowed", size, p.limit)
	}
	if uint64(len(b)-rawHeader) < size {
		return m, false, nil
	}
	p.begin += rawHeader + int(size)
	return parseRaw(b, int(size)), true, nil
}

// fill reads once, behind the part of a message that has come. The buffer doubles when
// such a part fills it, so a size that lies takes no memory.
func (p *tcpPipe) fill() (int, error) {
	p.begin, p.end = 0, copy(p.in, p.in[p.begin:p.end])
	if p.end == len(p.in) {
		p.in = append(p.in, make([]byte, len(p.in))...)
	}
	n, err := p.fd.Read(p.in[p.end:])
	p.end += n
	if err == io.EOF && p.end > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// flush writes once, if there is something to send. Bytes that the socket does not take stay.
func (p *tcpPipe) flush() (n int, err error) {
	if p.sent == len(p.out) {
		return 0, nil
	}
	n, err = p.fd.Write(p.out[p.sent:])
	if p.sent += n; p.sent == len(p.out) {
		p.out, p.sent = p.out[:0], 0
	}
	return n, err
}

// serveStep answers the requests that came, each by the handler of its type.
func (p *tcpPipe) serveStep(handlers []rawHandler) (busy bool, err error) {
	return p.step(func(m rawMessage) error {
		h, err := handlerOf(handlers, m.typ)
		if err != nil {
			return fmt.Errorf("tcp: %w", err)
		}
		p.add(rawMessage{m.typ, m.id, h(m.body)})
		return nil
	})
}

// Close closes the socket.
func (p *tcpPipe) Close() error { return p.fd.Close() }

// noBacklog lets clients always read: if both sides stopped, neither would go on.
const noBacklog = math.MaxInt
