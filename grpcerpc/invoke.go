package grpcerpc

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// maxRefusals is how often a call is tried that certainly never ran.
const maxRefusals = 5

// invoke makes a unary call.
func (cc *ClientConn) invoke(
	ctx context.Context, method string, args, reply any, opts []grpc.CallOption,
) error {
	if cc.onlyTCP() {
		return cc.tcp.Invoke(ctx, method, args, reply, opts...)
	}
	cc.idle.begin()
	defer cc.idle.end()
	waited, ended := cc.await(ctx)
	c, err := cc.callInfoOf(method, opts)
	switch {
	case err != nil:
	case ended != nil:
		err = ended
	default:
		c.waited = waited
		limited, cancel := cc.within(ctx, method)
		var notRun bool
		notRun, err = cc.attempts(limited, c, args, reply)
		cancel()
		if notRun && cc.mayTCP(ctx) {
			return cc.tcp.Invoke(ctx, method, args, reply, opts...)
		}
	}
	if c != nil {
		c.finish(err)
	}
	return err
}

// attempts makes a call as often as the service config says. NotRun says that the last attempt
// certainly did not run.
func (cc *ClientConn) attempts(
	ctx context.Context, c *callInfo, args, reply any,
) (notRun bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, status.FromContextError(err).Err()
	}
	for {
		var a frame.Answer
		a, notRun, err = cc.attempt(ctx, c, args, reply)
		if err == nil || len(a.Header) > 0 || notRun && cc.mayTCP(ctx) {
			return notRun, err
		}
		again, ended := c.retries.next(ctx, cc.ctx, status.Code(err), a.Trailer)
		if ended != nil {
			return false, ended
		}
		if !again {
			return notRun, c.retries.last(err)
		}
	}
}

// attempt makes a call, again while it certainly never ran.
func (cc *ClientConn) attempt(
	ctx context.Context, c *callInfo, args, reply any,
) (answer frame.Answer, notRun bool, err error) {
	w, ctx := c.watched(ctx)
	w.begin(c.failFast, false, false)
	defer func() { w.end(answer.Trailer, err) }()
	for refusals := 1; ; refusals++ {
		l, picked, err := cc.pick(ctx, c, c.failFast || cc.tcp != nil)
		if err != nil {
			return answer, unreached(err), err
		}
		answer, notRun, err = cc.send(ctx, &w, c, l, picked.Metadata, args, reply)
		if answer.NotRun {
			l.retire() // the server stops or has forgotten it, which Leave may not have told yet
		}
		l.release()
		if picked.Done != nil {
			picked.Done(balancer.DoneInfo{Err: err, Trailer: answer.Trailer, BytesSent: !notRun,
				BytesReceived: err == nil, ServerLoad: serverLoad(answer.Trailer)})
		}
		if notRun && refusals < maxRefusals && ctx.Err() == nil {
			continue
		}
		return answer, notRun, err
	}
}

// send sends a call to one server. NotRun says that another try is harmless.
func (cc *ClientConn) send(
	ctx context.Context, w *watch, c *callInfo, l *link, extra metadata.MD, args, reply any,
) (a frame.Answer, notRun bool, err error) {
	if err = l.outgoing(ctx, c, extra); err == nil {
		err = l.fits(c)
	}
	if err != nil {
		return a, false, err
	}
	t := tries.Get().(*unaryTry)
	defer t.free()
	t.cc, t.info, t.link, t.watch, t.args, t.reply = cc, c, l, *w, args, reply
	if err = t.prepare(ctx); err != nil {
		return a, false, err
	}
	w.outHeader(c.method, c.compressName, c.md, l.peer)
	w.outPayload(args, t.size)
	err = l.client.CallInPlace(ctx, t.kind(), len(t.head)+t.size, t)
	switch {
	case t.err != nil:
		return t.answer, t.answer.NotRun, t.err
	case err != nil:
		return a, errors.Is(err, erpc.ErrNotRun) && retryable(err), cc.callError(ctx, err)
	}
	return t.answer, false, nil
}

// retryable reports whether a call that did not run may be refused for a passing reason.
func retryable(err error) bool {
	switch codes.Code(erpc.CodeOf(err)) {
	case codes.Unavailable, codes.Canceled:
		return true
	}
	return false
}

// answered fills what the options ask for.
func (c *callInfo) answered(l *link, header, trailer metadata.MD) {
	for _, h := range c.headers {
		*h = header
	}
	for _, t := range c.trailers {
		*t = trailer
	}
	for _, p := range c.peers {
		*p = *l.peer
	}
}
