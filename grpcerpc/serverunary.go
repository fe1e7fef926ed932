package grpcerpc

import (
	"bytes"
	"context"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// coding is how the messages of a call are encoded.
type coding struct {
	codec      encoding.CodecV2
	compressor encoding.Compressor // of messages that are sent; nil: they are not compressed
	*answering
}

// answering holds what few codings have, apart from the rest: senders do not read it, and other
// calls are small.
type answering struct {
	decompressor encoding.Compressor // of messages that come; nil: they are not compressed
	answersBy    string              // the name of the server's compressor, if that is another one
}

// plainly is the answering of calls without compression, which all share. It does not change.
var plainly = new(answering)

// codingOf finds what the head of a call names.
func (s *Server) codingOf(h *frame.Head) (c coding, err error) {
	c.answering = plainly
	if c.codec = s.opts.codec; c.codec == nil {
		if c.codec = codecFor(string(h.Subtype)); c.codec == nil {
			return c, status.Errorf(codes.Unimplemented,
				"grpcerpc: no codec is registered for content subtype %q", h.Subtype)
		}
	}
	own := s.opts.coders.compressor
	if len(h.Compressor) > 0 || own != nil {
		c.answering = new(answering)
	}
	if len(h.Compressor) > 0 {
		if c.decompressor = s.opts.coders.decoder(string(h.Compressor)); c.decompressor == nil {
			return c, status.Errorf(codes.Unimplemented,
				"grpc: Decompressor is not installed for grpc-encoding %q", h.Compressor)
		}
		c.compressor = encoding.GetCompressor(string(h.Compressor))
	}
	if own != nil {
		if c.compressor = own; own.Name() != string(h.Compressor) {
			c.answersBy = own.Name()
		}
	}
	return c, nil
}

// decode decodes a message that was received.
func (c *coding) decode(data []byte, compressed bool, most int, v any) error {
	if len(data) > most {
		return tooLarge(len(data), most)
	}
	if compressed {
		if c.decompressor == nil {
			return status.Error(codes.Internal, "grpc: compressed message without a compressor")
		}
		var err error
		if data, err = decompress(c.decompressor, data, most); err != nil {
			return err
		}
	}
	return decodeMessage(data, c.codec, v)
}

// encode appends a message to b.
func (c *coding) encode(b []byte, v any, most int) (_ []byte, err error) {
	at := len(b)
	if c.compressor == nil {
		b, err = appendMessage(b, c.codec, v)
	} else {
		var plain []byte
		if plain, err = appendMessage(nil, c.codec, v); err == nil {
			b, err = compress(b, c.compressor, plain)
		}
	}
	if err == nil && len(b)-at > most {
		err = tooLargeToSend(len(b)-at, most)
	}
	return b, err
}

// unaryCall is a call of one request at the server. It is the ServerTransportStream of its handler.
type unaryCall struct {
	coding
	server  *Server
	conn    *serverConn
	method  *method // nil for the handler of unknown services
	name    string
	head    *frame.Head // all but Method and MD, for metadata
	message []byte
	base    context.Context // of erpc
	ctx     context.Context
	watch   watch

	prev, next *unaryCall // in conn.unary

	mu       sync.Mutex
	incoming metadata.MD // what came; complete once it was asked for
	complete bool
	answered bool // or aborted: message is nobody's any more
	sent     bool // SendHeader was called
	header   metadata.MD
	trailer  metadata.MD
}

// onUnary serves a call. The request is borrowed: it is decoded before the handler runs.
func (s *Server) onUnary(ctx context.Context, r erpc.ReqHandle) {
	token, head, message, err := frame.ParseUnary(r.Data())
	if err != nil {
		refuse(r, codes.Internal, "grpcerpc: malformed request", false)
		return
	}
	conn := s.conn(token, r)
	if conn == nil {
		refuse(r, codes.Unavailable, "grpcerpc: the server does not know the connection", true)
		return
	}
	if us := head.Timeout; us > farTimeout && us <= maxTimeout { // beyond what erpc counts
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(us)*time.Microsecond)
		defer cancel()
	} else if us > 0 && us <= farTimeout {
		r.Shorten(time.Duration(us) * time.Microsecond)
	}
	k := &unaryCall{server: s, conn: conn, message: message, base: ctx, incoming: head.MD,
		coding: coding{answering: plainly}, head: &noHead, method: s.lookup(head.Method)}
	if k.method != nil {
		k.name = k.method.name
	} else {
		k.name = string(head.Method)
	}
	if err := s.admit(&head); err != nil {
		refuse(r, status.Code(err), status.Convert(err).Message(), false)
		return
	}
	if k.coding, err = s.codingOf(&head); err != nil {
		k.answer(r, nil, err)
		return
	}
	if len(head.Subtype)+len(head.Authority)+len(head.Compressor) > 0 {
		k.head = &frame.Head{Subtype: bytes.Clone(head.Subtype),
			Authority: bytes.Clone(head.Authority), Compressor: bytes.Clone(head.Compressor)}
	}
	if !conn.begin(k) {
		refuse(r, codes.Unavailable, "grpcerpc: the server is shutting down", true)
		return
	}
	defer conn.end(k) // from here on abort may answer, and the request is nobody's then
	k.ctx = conn.watch.under(callContext{k})
	if s.opts.tap != nil {
		if k.ctx, err = s.tapped(k.ctx, k.name, k.metadata()); err != nil {
			k.answer(r, nil, err)
			return
		}
	}
	if len(s.opts.stats) > 0 {
		k.watch, k.ctx = newWatch(k.ctx, s.opts.stats, false,
			stats.RPCTagInfo{FullMethodName: k.name})
		k.watch.inHeader(k.name, string(k.head.Compressor), k.metadata(), conn.peer)
		k.watch.begin(false, false, false)
	}
	reply, err := k.run()
	k.answer(r, reply, err)
}

// noHead is a Head without anything, which nobody changes.
var noHead frame.Head

// admit returns an error for a call whose header a server does not take.
func (s *Server) admit(h *frame.Head) error {
	switch {
	case h.Size() > s.opts.maxHeaders:
		return status.Error(codes.ResourceExhausted, "grpcerpc: metadata beyond the limit")
	case len(h.Authority) > 0 && !frame.ValidValue(":authority", string(h.Authority)):
		return status.Error(codes.Internal, "grpcerpc: malformed authority")
	}
	return nil
}

// refuse answers a call that does not run.
func refuse(r erpc.ReqHandle, code codes.Code, text string, notRun bool) {
	a := frame.Answer{Status: frame.Status{Code: uint64(code), Text: text}, NotRun: notRun}
	_ = r.RespondBytes(a.AppendHead(nil)) // in vain if the session has ended
}

// run runs the handler.
func (k *unaryCall) run() (any, error) {
	switch s, m := k.server, k.method; {
	case m != nil && m.unary != nil:
		return m.unary.Handler(m.impl, k.ctx, k.decodeRequest, s.unary)
	case m != nil:
		return k.runStream(m.stream.Handler, m.impl, &grpc.StreamServerInfo{FullMethod: k.name,
			IsClientStream: m.stream.ClientStreams, IsServerStream: m.stream.ServerStreams})
	case s.opts.unknown != nil:
		return k.runStream(s.opts.unknown, nil, &grpc.StreamServerInfo{FullMethod: k.name,
			IsClientStream: true, IsServerStream: true})
	default:
		return nil, status.Error(codes.Unimplemented, s.unknownText(k.name))
	}
}

func (k *unaryCall) decodeRequest(v any) error {
	err := k.decodeMessage(v)
	if err == nil {
		k.watch.inPayload(v, len(k.message))
	}
	return err
}

// decodeMessage decodes the request, for which abort waits: it is nobody's after the answer.
func (k *unaryCall) decodeMessage(v any) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.answered {
		return status.FromContextError(context.Canceled).Err()
	}
	return k.decode(k.message, k.decompressor != nil, k.server.opts.maxRecv, v)
}

// answer answers the call. In vain if the session has ended, which nobody can be told.
func (k *unaryCall) answer(r erpc.ReqHandle, reply any, err error) {
	k.mu.Lock()
	aborted := k.answered
	k.sent, k.answered = true, true
	a := frame.Answer{Header: k.header, Trailer: k.trailer, Compressed: k.compressor != nil,
		Encoding: k.answersBy}
	k.mu.Unlock()
	defer func() { k.watch.end(a.Trailer, err) }()
	if aborted {
		_ = r.RespondError(errAborted) // as abort does, if that does not come first
		return
	}
	if err == nil {
		var size int
		if size, err = k.succeed(r, &a, reply); err == nil {
			k.watch.outHeader(k.name, "", a.Header, k.conn.peer)
			k.watch.outPayload(reply, size)
			return
		}
	}
	a.Status, a.Compressed, a.Encoding = toFrame(handlerStatus(err)), false, ""
	_ = r.RespondBytes(a.AppendHead(nil))
}

// errAborted is errEnded as an error of erpc: RespondError may be called twice at once.
var errAborted = &erpc.Error{Code: erpc.Code(errEnded.Code()), Text: errEnded.Message()}

// abort answers a call whose connection has ended, and ends the context of its handler.
func (k *unaryCall) abort() {
	k.mu.Lock()
	answered := k.answered
	k.answered = true
	k.mu.Unlock()
	if r, ok := erpc.HandleFrom(k.base); ok && !answered {
		r.Cancel()
		_ = r.RespondError(errAborted) // in vain if the handler has just returned, or the session ended
	}
}

// succeed answers with a message and returns its size. The error is that of its encoding.
func (k *unaryCall) succeed(r erpc.ReqHandle, a *frame.Answer, reply any) (size int, err error) {
	most := k.server.opts.maxSend
	var small [64]byte
	head := a.AppendHead(small[:0])
	if m, ok := reply.(proto.Message); ok && k.compressor == nil && isProto(k.codec) {
		if size = proto.Size(m); size > most {
			return size, tooLargeToSend(size, most)
		}
		if done, err := respondProto(r, head, m, size); done || err != nil {
			return size, err
		}
	}
	out, err := k.encode(append(make([]byte, 0, len(head)+sizeHint(reply)), head...), reply, most)
	if err == nil {
		_ = r.RespondBytes(out)
	}
	return len(out) - len(head), err
}

// respondProto encodes a message of size bytes where it is sent from, behind head. It reports false
// if the message has changed. Without memory for it the client gets that error.
func respondProto(
	r erpc.ReqHandle, head []byte, m proto.Message, size int,
) (done bool, err error) {
	buf, err := r.Alloc(len(head) + size)
	if err != nil {
		_ = r.RespondError(err) // in vain if the session has ended
		return true, nil
	}
	mem := buf.Data()
	out, err := appendProto(append(mem[:0], head...), m, size)
	if err == nil && len(out) == len(mem) && r.Respond(buf) == nil {
		return true, nil
	}
	buf.Free()
	if err != nil {
		err = status.Errorf(codes.Internal, "grpc: error while marshaling: %v", err)
	}
	return false, err
}

// Method implements grpc.ServerTransportStream, as the following methods do.
func (k *unaryCall) Method() string { return k.name }

func (k *unaryCall) SetHeader(md metadata.MD) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sent {
		return errHeaderSent
	}
	if err := checkMD(md); err != nil {
		return err
	}
	k.header = metadata.Join(k.header, md)
	return nil
}

func (k *unaryCall) SendHeader(md metadata.MD) error {
	if err := k.SetHeader(md); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sent = true
	return nil
}

func (k *unaryCall) SetTrailer(md metadata.MD) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := checkMD(md); err != nil {
		return err
	}
	k.trailer = metadata.Join(k.trailer, md)
	return nil
}

var errHeaderSent = status.Error(codes.Internal,
	"transport: the stream is done or WriteHeader was already called")

// checkMD returns an error of code Internal for metadata that gRPC does not allow.
func checkMD(md metadata.MD) error {
	for k, vals := range md {
		if frame.Reserved(k) {
			continue
		}
		if !frame.ValidKey(k) {
			return status.Errorf(codes.Internal,
				"header key %q contains illegal characters not in [0-9a-z-_.]", k)
		}
		for _, v := range vals {
			if !frame.ValidValue(k, v) {
				return status.Errorf(codes.Internal,
					"header key %q contains value with non-printable ASCII characters", k)
			}
		}
	}
	return nil
}

// runStream runs a handler of streams for a call of one request and one answer.
func (k *unaryCall) runStream(
	handler grpc.StreamHandler, impl any, info *grpc.StreamServerInfo,
) (any, error) {
	o := &oneShot{unaryCall: k}
	var err error
	if k.server.stream != nil {
		err = k.server.stream(impl, o, info, handler)
	} else {
		err = handler(impl, o)
	}
	switch {
	case err == nil && o.second:
		err = status.Error(codes.Internal, "cardinality violation: expected <EOF> for "+
			"non server-streaming RPCs, but received another message")
	case err == nil && !o.answered:
		err = status.Error(codes.Internal, "grpcerpc: the handler sent no message")
	}
	return o.reply, err
}

// oneShot is the ServerStream of runStream.
type oneShot struct {
	*unaryCall
	read, answered bool
	second         bool // the handler has sent another message, which its client learns
	reply          any
}

func (o *oneShot) Context() context.Context { return o.ctx }

func (o *oneShot) SetTrailer(md metadata.MD) { _ = o.unaryCall.SetTrailer(md) }

func (o *oneShot) RecvMsg(m any) error {
	if o.read {
		return io.EOF
	}
	o.read = true
	return o.decodeRequest(m)
}

func (o *oneShot) SendMsg(m any) error {
	if o.answered {
		o.second = true
		return nil
	}
	data, err := appendMessage(nil, o.codec, m)
	o.answered, o.reply = true, raw(data)
	return err
}

// raw is a message that is encoded already.
type raw []byte
