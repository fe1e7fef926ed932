package grpcerpc

import (
	"context"
	"encoding/binary"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// unaryTry is a call at one server. It writes the request where it is sent from and reads the
// answer where it came, as an erpc.InPlace.
type unaryTry struct {
	cc          *ClientConn
	info        *callInfo
	link        *link
	watch       watch
	args, reply any
	head        []byte        // of the request: token and Head
	size        int           // of the message
	message     proto.Message // to be encoded in place; nil if it is in memory
	memory      *[]byte       // of buffers

	answer frame.Answer
	err    error // of what this side does: a status
}

var tries = sync.Pool{New: func() any { return new(unaryTry) }}

// prepare finds out how large the request is.
func (t *unaryTry) prepare(ctx context.Context) (err error) {
	head := t.info.head()
	head.Timeout = timeoutOf(ctx)
	t.head = head.Append(binary.LittleEndian.AppendUint64(t.head[:0], t.link.token))
	most := t.info.maxSend
	if m, ok := t.args.(proto.Message); ok && t.info.compressor == nil && isProto(t.info.codec) {
		t.message, t.size = m, proto.Size(m)
		if t.size > most {
			return tooLargeToSend(t.size, most)
		}
		return nil
	}
	t.memory = getBuffer()
	*t.memory, err = t.info.encode((*t.memory)[:0], t.args, most)
	t.size = len(*t.memory)
	return err
}

// kind returns the request type.
func (t *unaryTry) kind() uint8 {
	if len(t.head)+t.size >= frame.LargeCall {
		return frame.TypeLarge
	}
	return frame.TypeUnary
}

// WriteRequest implements erpc.InPlace.
func (t *unaryTry) WriteRequest(b []byte) error {
	n := copy(b, t.head)
	if t.message == nil {
		erpc.CopyLarge(b[n:], *t.memory)
		return nil
	}
	out, err := appendProto(b[:n:len(b)], t.message, t.size)
	switch {
	case err != nil:
		t.err = status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	case len(out) != len(b):
		t.err = status.Error(codes.Internal, "grpcerpc: the message changed while it was encoded")
	}
	return t.err
}

// ReadResponse implements erpc.InPlace. Its errors are in t.
func (t *unaryTry) ReadResponse(b []byte) error {
	t.answer, t.err = frame.ParseAnswer(b)
	a, c := &t.answer, t.info
	if t.err != nil {
		t.err = status.Error(codes.Internal, "grpcerpc: malformed answer")
		return nil
	}
	message := a.Message
	a.Message = nil // it is not ours
	header := a.Header
	if watched := len(t.watch.list) > 0; (watched || len(c.headers) > 0) &&
		(a.Status.Code == 0 || len(header) > 0) { // a failure may be a trailer alone
		header = c.typed(header)
	}
	c.answered(t.link, header, a.Trailer)
	if t.err = fromFrame(&a.Status); t.err != nil {
		return nil
	}
	if max(frame.MDSize(a.Header), frame.MDSize(a.Trailer)) > t.cc.opts.maxHeaders {
		t.err = status.Error(codes.Internal, "grpcerpc: metadata beyond the limit")
		return nil
	}
	if a.Encoding != "" {
		if t.err = c.answeredBy(a.Encoding, &t.cc.opts.coders); t.err != nil {
			return nil
		}
	}
	t.watch.inHeader(c.method, c.compressName, header, t.link.peer)
	if t.err = c.decode(message, a.Compressed, c.maxRecv, t.reply); t.err == nil {
		t.watch.inPayload(t.reply, len(message))
	}
	return nil
}

// free gives t back.
func (t *unaryTry) free() {
	if t.memory != nil {
		putBuffer(t.memory)
	}
	*t = unaryTry{head: t.head[:0]}
	tries.Put(t)
}
