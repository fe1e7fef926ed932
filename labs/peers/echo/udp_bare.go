package echo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"
)

// barePeer is no library and no protocol: what UDP carries of messages of many packets, cut into
// packets of an Ethernet frame, where the kernel takes and gives trains of them (UDP_SEGMENT,
// UDP_GRO) and receives many with one call (recvmmsg). Nothing is acknowledged, paced or sent
// again: a datagram that is lost ends the run.
var barePeer = Peer{
	Name: "udp-bare", Transport: "udp", Streams: true, Unfit: bareUnfit, MaxSize: 1 << 20,
	Listen: func(z Sizes) (Server, error) { return listenBare(anyPort, z) }, ListenAt: listenBare,
	Dial: dialBare,
}

const (
	barePacket = 1472 // bytes of UDP in an Ethernet frame of 1500, with IPv4
	bareTrain  = 44   // packets of a train at most: what a datagram of 64 KiB has room for
	bareHeader = 16   // id (8), size of the message (4), which packet of it (4), little-endian
	bareBody   = barePacket - bareHeader
	bareBurst  = 32       // trains that one call receives at most
	bareBuffer = 16 << 20 // bytes that a socket is to hold
	bareLost   = time.Second
)

// bareFD is a connected, non-blocking socket that cuts what it sends into packets.
type bareFD interface {
	// RecvTrains fills in what came, up to bareBurst trains. They are valid until the next call.
	RecvTrains(trains [][]byte) (n int, err error)
	Send(b []byte) (ok bool, err error)
	Close() error
}

// barePipe is one end. It owns its socket and belongs to one goroutine.
type barePipe struct {
	fd    bareFD
	limit int
	in    [][]byte
	parts map[uint64]*barePart // messages of which a part has come
	free  []*barePart
	out   []byte // packets that are to be sent, one behind the other
	cuts  []int  // where in out each train ends
	sent  int    // how much of out was
	gone  int    // how many trains were
}

type barePart struct {
	body []byte
	left int // packets that have not come
}

func newBarePipe(fd bareFD, limit int) *barePipe {
	return &barePipe{fd: fd, limit: limit, in: make([][]byte, bareBurst),
		parts: map[uint64]*barePart{}}
}

// add cuts a message into packets, and these into trains.
func (p *barePipe) add(m rawMessage) {
	rest := m.body
	for i := 0; i == 0 || len(rest) > 0; i++ {
		if i > 0 && i%bareTrain == 0 {
			p.cuts = append(p.cuts, len(p.out))
		}
		p.out = binary.LittleEndian.AppendUint64(p.out, m.id)
		p.out = binary.LittleEndian.AppendUint32(p.out, uint32(len(m.body)))
		p.out = binary.LittleEndian.AppendUint32(p.out, uint32(i))
		n := min(len(rest), bareBody)
		p.out = append(p.out, rest[:n]...)
		rest = rest[n:]
	}
	p.cuts = append(p.cuts, len(p.out))
}

// step sends what was added, receives once, calls handle for each message that is whole, and sends
// what was added by then, all without waiting.
func (p *barePipe) step(handle func(rawMessage) error) (busy bool, err error) {
	if busy, err = p.flush(); err != nil {
		return busy, err
	}
	n, err := p.fd.RecvTrains(p.in)
	if err != nil {
		return busy, err
	}
	for _, train := range p.in[:n] {
		if err := p.take(train, handle); err != nil {
			return true, err
		}
		if _, err := p.flush(); err != nil {
			return true, err
		}
	}
	return busy || n > 0, nil
}

// take copies the packets of a train to their messages. Each says how long it is, so the train's
// packets need not have one size.
func (p *barePipe) take(train []byte, handle func(rawMessage) error) error {
	for len(train) > 0 {
		if len(train) < bareHeader {
			return fmt.Errorf("udp-bare: packet of %d bytes", len(train))
		}
		id, size := binary.LittleEndian.Uint64(train), binary.LittleEndian.Uint32(train[8:])
		at := uint64(binary.LittleEndian.Uint32(train[12:])) * bareBody
		if uint64(size) > uint64(p.limit) || at > uint64(size) {
			return fmt.Errorf("udp-bare: byte %d of a message of %d bytes", at, size)
		}
		n := min(int(size)-int(at), bareBody)
		if len(train) < bareHeader+n {
			return fmt.Errorf("udp-bare: %d bytes are left of a packet with %d", len(train), n)
		}
		part, err := p.part(id, int(size))
		if err != nil {
			return err
		}
		copy(part.body[at:], train[bareHeader:bareHeader+n])
		train = train[bareHeader+n:]
		if part.left--; part.left == 0 {
			delete(p.parts, id)
			err := handle(rawMessage{echoType, id, part.body})
			p.free = append(p.free, part)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// part finds the message, which begins with any of its packets.
func (p *barePipe) part(id uint64, size int) (*barePart, error) {
	if part := p.parts[id]; part != nil {
		if len(part.body) != size {
			return nil, fmt.Errorf("udp-bare: message of %d and of %d bytes", size, len(part.body))
		}
		return part, nil
	}
	part := &barePart{}
	if k := len(p.free); k > 0 {
		part, p.free = p.free[k-1], p.free[:k-1]
	}
	if cap(part.body) < size {
		part.body = make([]byte, size)
	}
	part.body, part.left = part.body[:size], max(1, (size+bareBody-1)/bareBody)
	p.parts[id] = part
	return part, nil
}

// flush sends trains until the socket takes no more.
func (p *barePipe) flush() (went bool, err error) {
	for p.gone < len(p.cuts) {
		end := p.cuts[p.gone]
		ok, err := p.fd.Send(p.out[p.sent:end])
		if !ok || err != nil {
			return went, err
		}
		p.sent, p.gone, went = end, p.gone+1, true
	}
	p.out, p.cuts, p.sent, p.gone = p.out[:0], p.cuts[:0], 0, 0
	return went, nil
}

// serveStep implements rawPipe.
func (p *barePipe) serveStep(handlers []rawHandler) (busy bool, err error) {
	return p.step(func(m rawMessage) error {
		p.add(rawMessage{m.typ, m.id, handlers[echoType](m.body)})
		return nil
	})
}

func (p *barePipe) Close() error { return p.fd.Close() }

func listenBare(addr string, z Sizes) (Server, error) {
	if bareUnfit != "" {
		return nil, fmt.Errorf("udp-bare: %s", bareUnfit)
	}
	return newUDPServer(addr, z, func(c *net.UDPConn) (rawPipe, error) {
		fd, err := takeBare(c)
		if err != nil {
			return nil, err
		}
		return newBarePipe(fd, z.limit()), nil
	})
}

// bareConn is the client's end.
type bareConn struct {
	pipe   *barePipe
	got    func(id uint64, response []byte) error
	handle func(rawMessage) error
	now    func() time.Time
	flying int
	last   time.Time // when something came or went
	idle   int       // polls since
}

func newBareConn(fd bareFD, limit int) *bareConn {
	c := &bareConn{pipe: newBarePipe(fd, limit), now: time.Now}
	c.handle = func(m rawMessage) error {
		c.flying--
		return c.got(m.id, m.body)
	}
	return c
}

func dialBare(ctx context.Context, addr string, z Sizes) (Conn, error) {
	c, server, err := dialUDPServer(ctx, addr)
	if err != nil {
		return nil, err
	}
	fd, err := takeBare(c)
	if err != nil {
		return nil, err
	}
	if err := fd.connect(server); err != nil {
		return nil, errors.Join(err, fd.Close())
	}
	return newBareConn(fd, z.limit()), nil
}

// Send implements Stream.
func (c *bareConn) Send(id uint64, request []byte) {
	c.flying++
	c.pipe.add(rawMessage{echoType, id, request})
}

// Poll implements Stream. It gives up when responses are missing and nothing came for bareLost.
func (c *bareConn) Poll(got func(id uint64, response []byte) error) (busy bool, err error) {
	c.got = got
	busy, err = c.pipe.step(c.handle)
	if busy || err != nil {
		c.idle = 0
		return busy, err
	}
	c.idle++
	switch {
	case c.idle%idleSteps != 0 || c.flying == 0:
	case c.idle == idleSteps:
		c.last = c.now()
	case c.now().Sub(c.last) > bareLost:
		return false, fmt.Errorf("udp-bare: %d requests have no response, and none came for %v: %w",
			c.flying, bareLost, errLost)
	}
	return false, nil
}

// NewCall returns calls that keep one request in flight.
func (c *bareConn) NewCall() Call { return newRawCall("udp-bare", c) }

func (c *bareConn) Close() error { return c.pipe.Close() }
