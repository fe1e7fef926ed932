package erpc

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// CallTrace has the times of one call on the client's side, on the clock of its Rpc; 0 is for what
// did not happen. It is filled in by the loop: read it when the call has ended, not before. See
// Request.Trace and WithCallTrace.
//
// The times are those of the passes of the loop that did the steps, not of the moments in them.
type CallTrace struct {
	Called   Time // Client.Call was called; 0 for EnqueueRequest
	Enqueued Time // EnqueueRequest: a Client's call had a session with a free slot
	Sent     Time // the first packet was queued to leave: later if credits or a slot were missing
	Answered Time // the first packet of the response came
	Ended    Time // the continuation was called
	// Unloaded is the round trip of the last packet without the time that the server held the
	// request; 0 if it is not known. Ended less Sent less Unloaded is about what the server took.
	Unloaded time.Duration

	Type     uint8
	Peer     transport.Addr
	Session  uint32 // its number at this side
	Request  int    // bytes
	Response int    // bytes
	Code     Code   // CodeOf the outcome
	// WallClock is the time of day when the loop's clock was Ended.
	WallClock time.Time
}

// Wall returns the time of day of one of the trace's times, the zero Time for 0.
func (t *CallTrace) Wall(at Time) time.Time {
	if at == 0 || t.Ended == 0 {
		return time.Time{}
	}
	return t.WallClock.Add(at.Sub(t.Ended))
}

func (t *CallTrace) begin(e *engine, s *Session, q *Request) {
	called := t.Called
	*t = CallTrace{
		Called: called, Enqueued: e.in.Now, Type: q.Type, Peer: s.end.Peer, Session: s.end.Local,
		Request: q.Req.Size(),
	}
}

func (t *CallTrace) end(now Time, unloaded time.Duration, resp *MsgBuffer, err error) {
	t.Ended, t.Unloaded, t.Code = now, unloaded, CodeOf(err)
	if resp != nil {
		t.Response = resp.Size()
		if t.Answered == 0 {
			t.Answered = now
		}
	}
	t.WallClock = monotime.Wall()
}

// traceKey is the key of a CallTrace in a context.
type traceKey struct{}

// callTraces is set once a context has a trace: before that calls need not look for one.
var callTraces atomic.Bool

// WithCallTrace returns a context for one Client.Call, or one of a Pool, that fills t in. When the
// call has returned with a response or an error other than ErrClosed, t belongs to the caller
// again. A call that was tried at several sessions leaves the times of the last one.
func WithCallTrace(ctx context.Context, t *CallTrace) context.Context {
	callTraces.Store(true)
	return context.WithValue(ctx, traceKey{}, t)
}

// traceOf returns the trace that a call with ctx is to fill in, or nil.
func traceOf(ctx context.Context) *CallTrace {
	if !callTraces.Load() {
		return nil
	}
	t, _ := ctx.Value(traceKey{}).(*CallTrace)
	return t
}
