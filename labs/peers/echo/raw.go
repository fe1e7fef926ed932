package echo

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
)

// Messages of the peers that are written by hand begin with these bytes: their size without
// them (4), their type (4) and their id (8), little-endian. A response has its request's type
// and id.
const rawHeader = 16

// rawMessage is one request or response. Its body is valid until the next step.
type rawMessage struct {
	typ  uint32
	id   uint64
	body []byte
}

// appendRaw appends a message as it travels to b.
func appendRaw(b []byte, m rawMessage) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.body)))
	b = binary.LittleEndian.AppendUint32(b, m.typ)
	b = binary.LittleEndian.AppendUint64(b, m.id)
	return append(b, m.body...)
}

// rawSize returns the bytes that the body of the message at the beginning of b has, it says.
// A whole header must be there.
func rawSize(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }

// parseRaw returns the message at the beginning of b, all of which must be there. Its body is
// part of b.
func parseRaw(b []byte, size int) rawMessage {
	end := rawHeader + size
	return rawMessage{binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint64(b[8:]),
		b[rawHeader:end:end]}
}

// rawHandler returns the body of the response, which may be the request's.
type rawHandler func(request []byte) []byte

// handlerOf finds the handler of requests of a type that a client has sent.
func handlerOf(handlers []rawHandler, typ uint32) (rawHandler, error) {
	if uint64(typ) >= uint64(len(handlers)) || handlers[typ] == nil {
		return nil, fmt.Errorf("no handler for requests of type %d", typ)
	}
	return handlers[typ], nil
}

// idleSteps is how many steps that found nothing make a loop let other goroutines run:
// some tens of microseconds.
const idleSteps = 256

// rawPipe is a server's end of a client's socket.
type rawPipe interface {
	// serveStep answers the requests that came, without waiting. Busy says whether anything
	// came or went. After an error the pipe is of no use but to be closed.
	serveStep(handlers []rawHandler) (busy bool, err error)
	Close() error
}

// rawServer serves all clients from one goroutine, in turns.
type rawServer struct {
	handlers []rawHandler
	came     chan rawPipe // new clients; closed once there will be no more
	err      error        // why there will be no more; valid once came is closed
	clients  atomic.Int64 // that came and have not gone
}

func newRawServer(z Sizes) rawServer {
	answer := newReplier(z)
	return rawServer{handlers: []rawHandler{echoType: answer.reply}, came: make(chan rawPipe)}
}

// hand gives a new client to serve, which then owns it. It waits until serve has taken it.
func (s *rawServer) hand(p rawPipe) {
	s.clients.Add(1)
	s.came <- p
}

// serve answers requests until came is closed, and returns err then. A client that leaves or
// breaks the rules is dropped, and the others go on. It spins while there are clients.
func (s *rawServer) serve() error {
	var pipes []rawPipe
	defer func() {
		for _, p := range pipes {
			_ = p.Close()
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
				_ = p.Close()
				s.clients.Add(-1)
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

// next returns a client that came, or nil; with wait it waits for one. It returns false
// once there will be no more.
func (s *rawServer) next(wait bool) (p rawPipe, open bool) {
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

// newRawCall returns calls that keep one request in flight on a stream of the peer. One that
// is cancelled leaves its response under way, so the stream is of no use after it.
func newRawCall(peer string, s Stream) Call {
	var id uint64
	var response []byte
	done := false
	got := func(of uint64, body []byte) error {
		if of != id || done {
			return fmt.Errorf("%s: response %d, and %d is awaited", peer, of, id)
		}
		response, done = append(response[:0], body...), true
		return nil
	}
	return func(ctx context.Context, request []byte) ([]byte, error) {
		id++
		done = false
		s.Send(id, request)
		for idle := 0; !done; idle++ {
			if idle%idleSteps == 0 {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				runtime.Gosched()
			}
			if _, err := s.Poll(got); err != nil {
				return nil, err
			}
		}
		return response, nil
	}
}
