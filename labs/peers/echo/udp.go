package echo

import (
	"errors"
	"fmt"
	"io"
)

// udpPeer is no library: it is the least that a program can write by hand over the transport
// that this library uses. Each client thread has one connected UDP socket, and the server has
// one for it. Both sides spin on recvfrom(2) and sendto(2). A datagram carries as many messages
// as there are and fit. It has no sessions, no at-most-once, no recovery, no congestion control
// and no flow control: a datagram that is lost ends the run. Messages cannot be larger than a
// datagram.
var udpPeer = Peer{
	Name: "udp", Transport: "udp", Streams: true, Unfit: rawUnfit, MaxSize: udpMaxSize,
	Listen: listenUDPEcho, Dial: dialUDPEcho,
}

// udpDatagram is how many bytes a datagram carries at most: what an Ethernet frame of 9,000
// bytes leaves to UDP over IPv6 (RFC 8200, RFC 768), as this library's largest packets.
const udpDatagram = 8952

// udpMaxSize is the size in bytes of the largest body that a datagram has room for.
const udpMaxSize = udpDatagram - rawHeader

// udpBurst is how many datagrams a step receives at most.
const udpBurst = 16

// errTooLarge is a message that no datagram can carry.
var errTooLarge = errors.New("too large for a datagram")

// fitsUDP is an error if a datagram cannot carry messages of these sizes.
func fitsUDP(z Sizes) error {
	for _, n := range []int{z.Request, z.Response} {
		if n > udpMaxSize {
			return fmt.Errorf("udp: message of %d bytes, %w, which carries %d", n, errTooLarge,
				udpMaxSize)
		}
	}
	return nil
}

// rawPackets is a connected, non-blocking datagram socket. Recv and Send return false and no
// error where they would have to wait.
type rawPackets interface {
	Recv(b []byte) (n int, ok bool, err error) // n: at most len(b); the rest of a datagram is lost
	Send(b []byte) (ok bool, err error)
	Close() error
}

// udpPipe is one end. It owns its socket and belongs to one goroutine.
type udpPipe struct {
	fd   rawPackets
	in   []byte // one datagram, and a byte more to notice larger ones
	out  []byte // datagrams that are to be sent, one behind the other
	cuts []int  // where in out each of them ends, but the last one
	gone int    // how many of them were sent
	sent int    // how much of out was
	err  error  // of add
}

func newUDPPipe(fd rawPackets) *udpPipe {
	return &udpPipe{fd: fd, in: make([]byte, udpDatagram+1)}
}

// add copies a message to those that step sends: into the last datagram, or a new one.
func (p *udpPipe) add(m rawMessage) {
	if len(m.body) > udpMaxSize {
		p.err = fitsUDP(Sizes{Request: len(m.body)})
		return
	}
	begin := 0 // of the last datagram
	if n := len(p.cuts); n > 0 {
		begin = p.cuts[n-1]
	}
	if len(p.out)-begin+rawHeader+len(m.body) > udpDatagram {
		p.cuts = append(p.cuts, len(p.out))
	}
	p.out = appendRaw(p.out, m)
}

// step sends what was added, calls handle for each message of the datagrams that are there, and
// sends what was added by then, all without waiting. It receives nothing while the socket takes
// nothing. Busy says whether anything came or went. After an error the pipe is of no use: io.EOF
// if the other side has said that it leaves.
func (p *udpPipe) step(handle func(rawMessage) error) (busy bool, err error) {
	if busy, err = p.flush(true); err != nil {
		return busy, err
	}
	for n := 0; n < udpBurst && p.gone == len(p.cuts); n++ {
		size, ok, err := p.fd.Recv(p.in)
		if err != nil {
			return busy, err
		}
		if !ok {
			break
		}
		busy = true
		if err := deliver(p.in[:size], handle); err != nil {
			return busy, err
		}
		if _, err := p.flush(false); err != nil {
			return busy, err
		}
	}
	went, err := p.flush(true)
	return busy || went, err
}

// deliver calls handle for each message of a datagram, which must be whole ones.
func deliver(b []byte, handle func(rawMessage) error) error {
	if len(b) == 0 {
		return io.EOF
	}
	if len(b) > udpDatagram {
		return fmt.Errorf("udp: datagram of more than %d bytes", udpDatagram)
	}
	for len(b) > 0 {
		if len(b) < rawHeader {
			return fmt.Errorf("udp: datagram ends in a header, after %d bytes of it", len(b))
		}
		size := rawSize(b)
		if size > uint64(len(b)-rawHeader) {
			return fmt.Errorf("udp: message of %d bytes, and %d are left of its datagram", size,
				len(b)-rawHeader)
		}
		m := parseRaw(b, int(size))
		if err := handle(m); err != nil {
			return err
		}
		b = b[rawHeader+len(m.body):]
	}
	return nil
}

// flush sends the datagrams that have no room for more, and the last one too if all is true.
// What the socket does not take stays. Went says whether any was sent.
func (p *udpPipe) flush(all bool) (went bool, err error) {
	for p.err == nil && p.sent < len(p.out) {
		end := len(p.out)
		if p.gone < len(p.cuts) {
			end = p.cuts[p.gone]
		} else if !all {
			return went, nil
		}
		ok, err := p.fd.Send(p.out[p.sent:end])
		if !ok || err != nil {
			return went, err
		}
		p.sent, p.gone, went = end, min(p.gone+1, len(p.cuts)), true
	}
	if p.sent == len(p.out) {
		p.out, p.cuts, p.sent, p.gone = p.out[:0], p.cuts[:0], 0, 0
	}
	return went, p.err
}

// serveStep implements rawPipe.
func (p *udpPipe) serveStep(handlers []rawHandler) (busy bool, err error) {
	return p.step(func(m rawMessage) error {
		h, err := handlerOf(handlers, m.typ)
		if err != nil {
			return fmt.Errorf("udp: %w", err)
		}
		p.add(rawMessage{m.typ, m.id, h(m.body)})
		return nil
	})
}

// Close says to the other side that this one leaves, which may be lost, and closes the socket.
func (p *udpPipe) Close() error {
	_, _ = p.fd.Send(nil)
	return p.fd.Close()
}
