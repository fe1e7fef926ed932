package grpcerpc

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// frameHeader is the number of bytes that gRPC adds to each message on the wire.
const frameHeader = 5

// watch tells stats handlers of one call. Without any its methods do nothing.
type watch struct {
	list   []stats.Handler
	ctx    context.Context
	client bool
	began  time.Time
}

// newWatch tags the context of a call.
func newWatch(
	ctx context.Context, list []stats.Handler, client bool, info stats.RPCTagInfo,
) (watch, context.Context) {
	w := watch{list: list, client: client}
	for _, h := range list {
		own := info // it may keep it
		ctx = h.TagRPC(ctx, &own)
	}
	if w.ctx = ctx; len(list) > 0 {
		w.began = time.Now()
	}
	return w, ctx
}

// watched begins to tell of a call of a client.
func (c *callInfo) watched(ctx context.Context) (watch, context.Context) {
	return newWatch(ctx, c.stats, true, stats.RPCTagInfo{FullMethodName: c.method,
		FailFast: c.failFast, NameResolutionDelay: c.waited})
}

// tellPicked says that a call has a connection for which it had to wait.
func (c *callInfo) tellPicked(ctx context.Context) {
	for _, h := range c.stats {
		h.HandleRPC(ctx, new(stats.DelayedPickComplete))
	}
}

func (w *watch) handle(s stats.RPCStats) {
	for _, h := range w.list {
		h.HandleRPC(w.ctx, s)
	}
}

// begin says that the call begins.
func (w *watch) begin(failFast, clientStreams, serverStreams bool) {
	if len(w.list) > 0 {
		w.handle(&stats.Begin{Client: w.client, BeginTime: w.began, FailFast: failFast,
			IsClientStream: clientStreams, IsServerStream: serverStreams})
	}
}

// inHeader says which metadata came.
func (w *watch) inHeader(method, compressor string, md metadata.MD, p *peer.Peer) {
	if len(w.list) > 0 {
		s := &stats.InHeader{Client: w.client, Compression: compressor, Header: md.Copy()}
		if !w.client {
			s.FullMethod, s.RemoteAddr, s.LocalAddr = method, p.Addr, p.LocalAddr
		}
		w.handle(s)
	}
}

// outHeader says which metadata goes.
func (w *watch) outHeader(method, compressor string, md metadata.MD, p *peer.Peer) {
	if len(w.list) > 0 {
		s := &stats.OutHeader{Client: w.client, Compression: compressor, Header: md.Copy()}
		if w.client {
			s.FullMethod, s.RemoteAddr, s.LocalAddr = method, p.Addr, p.LocalAddr
		}
		w.handle(s)
	}
}

// inPayload says that a message came, of so many bytes.
func (w *watch) inPayload(v any, n int) {
	if len(w.list) > 0 {
		w.handle(&stats.InPayload{Client: w.client, Payload: v, Length: n, CompressedLength: n,
			WireLength: n + frameHeader, RecvTime: time.Now()})
	}
}

// outPayload says that a message goes.
func (w *watch) outPayload(v any, n int) {
	if len(w.list) > 0 {
		w.handle(&stats.OutPayload{Client: w.client, Payload: v, Length: n, CompressedLength: n,
			WireLength: n + frameHeader, SentTime: time.Now()})
	}
}

// end says how the call ended.
func (w *watch) end(trailer metadata.MD, err error) {
	if len(w.list) == 0 {
		return
	}
	if w.client {
		w.handle(&stats.InTrailer{Client: true, Trailer: trailer.Copy()})
	} else {
		w.handle(&stats.OutTrailer{Trailer: trailer.Copy()})
		err = status.Convert(err).Err()
	}
	w.handle(&stats.End{Client: w.client, BeginTime: w.began, EndTime: time.Now(),
		Trailer: trailer.Copy(), Error: err})
}
