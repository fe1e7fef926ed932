package echo

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// tcpPeer is no library: it is the least that a program can write by hand. Each client
// thread has one TCP connection. Both sides spin on read(2) and write(2), which carry as
// many messages at once as there are. It has no sessions, no at-most-once across
// connections, no recovery, no congestion control of its own and no timeouts.
var tcpPeer = Peer{
	Name: "tcp", Transport: "tcp", Streams: true, Unfit: tcpUnfit,
	Listen: listenTCPEcho, Dial: dialTCPEcho,
}

// Every message begins with these bytes: its size without them (4), its type (4) and its
// id (8), little-endian. A response has its request's type and id.
const tcpHeader = 16

// backlog is how many unsent bytes make a server stop reading requests.
const backlog = 1 << 20

// tcpMessage is one request or response. Its body is valid until the next step.
type tcpMessage struct {
	typ  uint32
	id   uint64
	body []byte
}

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
func (p *tcpPipe) add(m tcpMessage) {
	if p.sent > len(p.out)/2 { // so that out stays small if it is never empty
		p.out = p.out[:copy(p.out, p.out[p.sent:])]
		p.sent = 0
	}
	p.out = binary.LittleEndian.AppendUint32(p.out, uint32(len(m.body)))
	p.out = binary.LittleEndian.AppendUint32(p.out, m.typ)
	p.out = binary.LittleEndian.AppendUint64(p.out, m.id)
	p.out = append(p.out, m.body...)
}

// step reads once, calls handle for each whole message that is there, and writes what
// was added, all without waiting. Busy says whether anything came or went. After an
// error the connection is of no use: io.EOF if the other side closed it between messages.
func (p *tcpPipe) step(handle func(tcpMessage) error) (busy bool, err error) {
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
func (p *tcpPipe) next() (m tcpMessage, ok bool, err error) {
	b := p.in[p.begin:p.end]
	if len(b) < tcpHeader {
		return m, false, nil
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if size > uint64(p.limit) {
		return m, false, fmt.Errorf("tcp: message of %d bytes, and %d are allowed", size, p.limit)
	}
	if uint64(len(b)-tcpHeader) < size {
		return m, false, nil
	}
	end := tcpHeader + int(size)
	p.begin += end
	m.typ, m.id = binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:])
	m.body = b[tcpHeader:end:end]
	return m, true, nil
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

// flush writes once, if there is something to send. What the socket does not take stays.
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

// tcpHandler returns the body of the response, which may be the request's.
type tcpHandler func(request []byte) []byte

// serveStep answers the requests that came, each by the handler of its type.
func (p *tcpPipe) serveStep(handlers []tcpHandler) (busy bool, err error) {
	return p.step(func(m tcpMessage) error {
		if uint64(m.typ) >= uint64(len(handlers)) || handlers[m.typ] == nil {
			return fmt.Errorf("tcp: no handler for requests of type %d", m.typ)
		}
		p.add(tcpMessage{m.typ, m.id, handlers[m.typ](m.body)})
		return nil
	})
}

// noBacklog lets clients always read: if both sides stopped, neither would go on.
const noBacklog = math.MaxInt
