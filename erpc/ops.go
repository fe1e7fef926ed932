package erpc

import (
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// Request is one RPC to start. The library owns both buffers from
// Rpc.EnqueueRequest until the continuation is called.
type Request struct {
	Type uint8
	Req  *MsgBuffer
	// Resp takes the response; its MaxSize bounds it. If it is nil the library
	// makes a buffer of the right size, which Done gets and must free.
	Resp *MsgBuffer
	// Done is called once, in the Rpc's thread. It may start other RPCs.
	Done Continuation
	// Tag is handed to Done.
	Tag uint64
	// Timeout ends the RPC with ErrDeadline after that time; 0 means never.
	Timeout time.Duration
}

// Completion is the end of one RPC. Both buffers are the application's again. Resp
// holds the response if Err is nil, else its contents are undefined.
type Completion struct {
	Rpc     *Rpc
	Session *Session
	Req     *MsgBuffer
	Resp    *MsgBuffer
	Tag     uint64
	Err     error
}

// Continuation is called when an RPC ends (eRPC, section 3.1). It must not block.
type Continuation func(c Completion)

// RequestID names a request that has been enqueued, for Rpc.Cancel.
type RequestID uint64

// op is a request between EnqueueRequest and its continuation.
type op struct {
	s        *Session
	done     Continuation
	req      *MsgBuffer
	resp     *MsgBuffer
	tag      uint64
	deadline int64 // ns, 0 if none
	gen      uint32
	used     bool
}

// opTable holds the requests under way; sessions know them by index.
type opTable struct {
	ops       []op
	free      []uint32
	deadlines int // ops with a deadline
}

func (t *opTable) alloc() uint32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	t.ops = append(t.ops, op{})
	return uint32(len(t.ops) - 1)
}

func (t *opTable) release(i uint32) {
	o := &t.ops[i]
	if o.deadline != 0 {
		t.deadlines--
		o.deadline = 0
	}
	o.gen++
	o.used = false
	o.s, o.done, o.req, o.resp = nil, nil, nil, nil
	t.free = append(t.free, i)
}

// EnqueueRequest starts an RPC on a client session. Packets leave at the end of the
// loop's pass. Nothing happens if it returns an error: ErrWrongThread, ErrRequest,
// ErrReqType, ErrClosed or the reason why the session ended, ErrBufferInUse,
// ErrBufferFreed, ErrTooLarge, ErrExhausted.
func (r *Rpc) EnqueueRequest(s *Session, q Request) (RequestID, error) {
	nested, err := r.enter()
	if err != nil {
		return 0, err
	}
	if !nested {
		defer r.leave()
	}
	return r.engine.start(s, &q)
}

// start is EnqueueRequest inside the loop.
func (e *engine) start(s *Session, q *Request) (RequestID, error) {
	switch {
	case s == nil || s.rpc != e.rpc || s.cl == nil || q.Req == nil || q.Req == q.Resp || q.Done == nil:
		return 0, ErrRequest
	case q.Type > wire.MaxReqType:
		return 0, ErrReqType
	case q.Req.Size() > e.cfg.MaxMessage:
		return 0, ErrTooLarge
	case s.err != nil:
		return 0, s.err
	}
	if e.cfg.Congestion.NoBatchedTime {
		e.now = e.rpc.clock()
	}
	if err := lendBoth(q.Req, q.Resp); err != nil {
		return 0, err
	}
	i := e.ops.alloc()
	o := &e.ops.ops[i]
	// Field by field, here and below: a struct that is written in parts and then copied
	// whole makes the processor wait for its own stores.
	o.s, o.done, o.req, o.resp, o.tag, o.used = s, q.Done, q.Req, q.Resp, q.Tag, true
	if q.Timeout > 0 {
		o.deadline = e.now + int64(q.Timeout)
		e.ops.deadlines++
	}
	id := RequestID(uint64(o.gen)<<32 | uint64(i))
	err := s.cl.Start(session.Op{Req: q.Req, Resp: q.Resp, Ref: i, ReqType: q.Type}, e.now, e.out)
	if err != nil {
		q.Req.Return()
		if q.Resp != nil {
			q.Resp.Return()
		}
		e.ops.release(i)
		return 0, err
	}
	e.stats.RequestsSent++
	e.activate(s)
	e.collect(s)
	return id, nil
}

func lendBoth(req, resp *MsgBuffer) error {
	if err := req.Lend(); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if resp == nil {
		return nil
	}
	if err := resp.Lend(); err != nil {
		req.Return()
		return fmt.Errorf("response: %w", err)
	}
	return nil
}

// succeed completes a request whose response is resp.
func (e *engine) succeed(ref uint32, resp *MsgBuffer) {
	e.ops.ops[ref].resp = resp
	e.complete(ref, nil)
}

// complete gives the buffers back and calls the continuation.
func (e *engine) complete(ref uint32, err error) {
	o := &e.ops.ops[ref]
	s, done, req, resp, tag := o.s, o.done, o.req, o.resp, o.tag
	req.Return()
	if resp != nil {
		resp.Return()
	}
	e.ops.release(ref)
	if err == nil {
		e.stats.Completed++
	} else {
		e.stats.Failed++
	}
	done(Completion{Rpc: e.rpc, Session: s, Req: req, Resp: resp, Tag: tag, Err: err})
	e.deactivate(s)
}

// Cancel ends a request with ErrCancelled. The server may have run it or may still
// do so. A request that has ended already is left alone; the error is only about
// the thread.
func (r *Rpc) Cancel(id RequestID) error {
	nested, err := r.enter()
	if err != nil {
		return err
	}
	if !nested {
		defer r.leave()
	}
	r.engine.cancel(id, ErrCancelled)
	return nil
}

func (e *engine) cancel(id RequestID, why error) {
	ref := uint32(id)
	if ref >= uint32(len(e.ops.ops)) {
		return
	}
	o := &e.ops.ops[ref]
	if !o.used || o.gen != uint32(id>>32) {
		return
	}
	s := o.s
	if _, ok := s.cl.Cancel(ref, e.now, e.out); !ok {
		return
	}
	e.collect(s)
	e.rpc.drain() // no queue refers to the buffers any more
	e.complete(ref, why)
}

// expire ends the requests whose deadlines have passed.
func (e *engine) expire() {
	if e.ops.deadlines == 0 {
		return
	}
	for i := 0; i < len(e.ops.ops); i++ { // continuations may add requests
		o := &e.ops.ops[i]
		if o.used && o.deadline != 0 && o.deadline <= e.now {
			e.cancel(RequestID(uint64(o.gen)<<32|uint64(i)), ErrDeadline)
		}
	}
}
