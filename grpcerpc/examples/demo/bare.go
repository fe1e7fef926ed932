package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	pb "github.com/userspace-rpc/erpc/grpcerpc/examples/helloworld/helloworldpb"
)

// bare is the least program that has streams with messages of both sides: no flow control, no
// deadlines, no loss, no metadata. A frame is the number of a stream, a length and a message.
// Frames that come while one write is under way leave with the next. So it shows what the codec, a
// goroutine for each stream and a connection cost; it serves the row of ping-pong alone.
type bare struct {
	net.Conn
	mu      sync.Mutex
	work    sync.Cond
	out     []byte // frames that the writer takes
	streams []*bareStream
}

// bareStream is an end of a stream. It has one message at most, as ping-pong has it.
type bareStream struct {
	grpc.ClientStream // nil: its other methods are not called
	bare              *bare
	id                uint32
	begun             bool // a message has come; of the reader alone
	mu                sync.Mutex
	came              sync.Cond
	message           []byte
	full              bool
}

var errBare = errors.New("demo: the bare program has streams of ping-pong alone")

func newBare(c net.Conn) *bare {
	b := &bare{Conn: c}
	b.work.L = &b.mu
	return b
}

// run reads, and has another goroutine write, until the connection ends. Begin is called for
// numbers of streams that are new.
func (b *bare) run(begin func(*bareStream)) {
	go b.write()
	in := bufio.NewReaderSize(b.Conn, 64<<10)
	var head [8]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return
		}
		id, n := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
		s := b.stream(int(id))
		fresh := !s.begun
		s.begun = true
		s.mu.Lock()
		s.message = append(s.message[:0], make([]byte, n)...)
		_, err := io.ReadFull(in, s.message)
		s.full = true
		s.came.Signal()
		s.mu.Unlock()
		if err != nil {
			return
		}
		if fresh {
			begin(s)
		}
	}
}

// stream returns the stream of a number, a new one for -1.
func (b *bare) stream(id int) *bareStream {
	b.mu.Lock()
	defer b.mu.Unlock()
	if id < 0 {
		id = len(b.streams)
	}
	for id >= len(b.streams) {
		s := &bareStream{bare: b, id: uint32(len(b.streams))}
		s.came.L = &s.mu
		b.streams = append(b.streams, s)
	}
	return b.streams[id]
}

func (b *bare) write() {
	var free []byte
	for {
		b.mu.Lock()
		for len(b.out) == 0 {
			b.work.Wait()
		}
		frames := b.out
		b.out = free[:0]
		b.mu.Unlock()
		if _, err := b.Conn.Write(frames); err != nil {
			return
		}
		free = frames
	}
}

// SendMsg implements grpc.ClientStream, as the following do.
func (s *bareStream) SendMsg(m any) error {
	b := s.bare
	b.mu.Lock()
	defer b.mu.Unlock()
	at := len(b.out)
	b.out = append(binary.LittleEndian.AppendUint32(b.out, s.id), 0, 0, 0, 0)
	var err error
	if b.out, err = (proto.MarshalOptions{}).MarshalAppend(b.out, m.(proto.Message)); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(b.out[at+4:], uint32(len(b.out)-at-8))
	b.work.Signal()
	return nil
}

func (s *bareStream) RecvMsg(m any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.full {
		s.came.Wait()
	}
	s.full = false
	return proto.Unmarshal(s.message, m.(proto.Message))
}

func (b *bare) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return errBare
}

func (b *bare) NewStream(
	_ context.Context, d *grpc.StreamDesc, _ string, _ ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if !d.ClientStreams || !d.ServerStreams {
		return nil, errBare
	}
	return b.stream(-1), nil
}

// dialBare connects the client.
func dialBare(addr string) (conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	b := newBare(c)
	go b.run(func(*bareStream) {})
	return b, nil
}

// serveBare serves: each stream has a goroutine that answers.
func serveBare(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go newBare(c).run(func(s *bareStream) { go s.echo() })
	}
}

func (s *bareStream) echo() {
	for {
		in := new(pb.HelloRequest)
		if s.RecvMsg(in) != nil || s.SendMsg(&pb.HelloReply{Payload: in.Payload}) != nil {
			return
		}
	}
}
