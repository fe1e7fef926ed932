package erpc

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
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
	// Trace, if it is not nil, gets the times of the RPC. It belongs to the library until Done.
	Trace *CallTrace
	// Timeout ends the RPC with ErrDeadline after that time; 0 means never. The handler can ask
	// for what is left, see ReqHandle.Deadline.
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

// call is a request between EnqueueRequest and its continuation.
type call struct {
	s        *Session
	done     Continuation
	req      *MsgBuffer
	resp     *MsgBuffer
	tag      uint64
	deadline monotime.Time // 0 if none
	stamp    uint64        // of the meter, see stampOf; 0 if there was none. It fills a cache line
	gen      uint32
	used     bool
}

// callTable holds the requests under way; sessions know them by index.
type callTable struct {
	calls     []call
	free      []uint32
	deadlines int           // calls with a deadline
	soonest   monotime.Time // no later than the first of these
}

// used returns how many requests are under way.
func (t *callTable) used() int { return len(t.calls) - len(t.free) }

// alloc returns the index of a call that is not in use.
func (t *callTable) alloc() uint32 {
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	t.calls = append(t.calls, call{})
	return uint32(len(t.calls) - 1)
}

// release makes index i free. Names of the call that was there do not fit the next one.
func (t *callTable) release(i uint32) {
	c := &t.calls[i]
	if c.deadline != 0 {
		t.deadlines--
		c.deadline = 0
	}
	c.gen++
	c.used = false
	c.s, c.done, c.req, c.resp = nil, nil, nil, nil
	t.free = append(t.free, i)
}

// id names the call at index i.
func (t *callTable) id(i uint32) RequestID {
	return RequestID(uint64(t.calls[i].gen)<<32 | uint64(i))
}

// find returns the index of the call with a name; false if it has ended.
func (t *callTable) find(id RequestID) (uint32, bool) {
	i := uint32(id)
	if i >= uint32(len(t.calls)) || !t.calls[i].used || t.calls[i].gen != uint32(id>>32) {
		return 0, false
	}
	return i, true
}

// EnqueueRequest starts an RPC on a client session. Packets leave at the end of the
// loop's pass. Nothing happens if it returns an error: ErrWrongThread, ErrRequest,
// ErrReqType, ErrClosed or the reason why the session ended, ErrDraining, ErrBufferInUse,
// ErrBufferFreed, ErrTooLarge, ErrExhausted.
func (r *Rpc) EnqueueRequest(s *Session, q Request) (RequestID, error) {
	nested, err := r.enter()
	if err != nil {
		return 0, err
	}
	id, err := r.start(s, &q, 0)
	if !nested {
		r.leave()
	}
	return id, err
}

// Cancel ends a request with ErrCancelled before it returns. The server may have run it or may
// still do so. A request that has ended already is left alone; the error is only about
// the thread.
func (r *Rpc) Cancel(id RequestID) error {
	nested, err := r.enter()
	if err != nil {
		return err
	}
	r.cancel(id, ErrCancelled)
	r.settle()
	if !nested {
		r.leave()
	}
	return nil
}

// start begins a request. If the request has no Timeout it carries the deadline, 0 for none, and
// the caller cancels the request then.
func (r *Rpc) start(s *Session, q *Request, deadline monotime.Time) (RequestID, error) {
	e := &r.engine
	switch {
	case s == nil || s.rpc != r || s.conn.Client == nil || q.Req == nil || q.Req == q.Resp ||
		q.Done == nil:
		return 0, ErrRequest
	case q.Type > wire.MaxReqType:
		return 0, ErrReqType
	case q.Req.Size() > r.cfg.MaxMessage:
		return 0, ErrTooLarge
	case s.conn.Ended():
		return 0, s.conn.Err()
	}
	if r.cfg.Experiment.NoBatchedTime {
		e.SetNow(r.readClock())
	}
	if err := lendBoth(q.Req, q.Resp); err != nil {
		return 0, err
	}
	i := r.calls.alloc()
	c := &r.calls.calls[i]
	// Field by field, here and below: a struct that is written in parts and then copied
	// whole makes the processor wait for its own stores.
	c.s, c.done, c.req, c.resp, c.tag, c.used = s, q.Done, q.Req, q.Resp, q.Tag, true
	if q.Timeout > 0 {
		deadline = e.Now().Add(q.Timeout)
		c.deadline = deadline
		if r.calls.deadlines++; r.calls.deadlines == 1 || deadline < r.calls.soonest {
			r.calls.soonest = deadline
		}
	}
	id := r.calls.id(i)
	op := session.Op{Req: q.Req, Resp: q.Resp, Ref: i, ReqType: q.Type}
	if q.Trace != nil {
		op.Ref = r.traceStart(i, s, q)
	}
	err := s.conn.Client.Start(op, deadline, e.Now(), e.Out)
	if err != nil {
		q.Req.Return()
		if q.Resp != nil {
			q.Resp.Return()
		}
		if q.Trace != nil {
			r.meter.traces[i] = nil
		}
		r.calls.release(i)
		return 0, engine.OwnError(err)
	}
	r.stats.RequestsSent++
	if r.meter != nil {
		c.stamp = stampOf(e.Now(), q.Type)
		r.meter.started[q.Type]++
	}
	e.Activate(&s.conn)
	return id, nil
}

func lendBoth(req, resp *MsgBuffer) error {
	if err := req.Lend(); err != nil {
		return fmt.Errorf("request: %w", engine.OwnError(err))
	}
	if resp == nil {
		return nil
	}
	if err := resp.Lend(); err != nil {
		req.Return()
		return fmt.Errorf("response: %w", engine.OwnError(err))
	}
	return nil
}

// complete gives the buffers back and calls the continuation. Resp is the response, or nil after an
// error: then what the application gave for it goes back.
func (r *Rpc) complete(ref uint32, resp *MsgBuffer, err error) {
	c := &r.calls.calls[ref]
	s, done, req, tag := c.s, c.done, c.req, c.tag
	if r.meter != nil {
		if err != nil || !r.meter.calls.more(r.engine.Now(), c.stamp, req.Size(), resp.Size()) {
			r.meterEnd(c, resp, err)
		}
	}
	if resp == nil {
		resp = c.resp
	}
	req.Return()
	if resp != nil {
		resp.Return()
	}
	if spare := c.resp; spare != nil && spare != resp { // it wraps too little
		spare.Return()
	}
	r.calls.release(ref)
	if err == nil {
		r.stats.Completed++
	} else {
		r.stats.Failed++
	}
	done(Completion{Rpc: r, Session: s, Req: req, Resp: resp, Tag: tag, Err: err})
	r.engine.Deactivate(&s.conn)
}

// cancel ends a request with the reason why, if it has not ended. Queues may refer to its
// buffers, so a flush comes first.
func (r *Rpc) cancel(id RequestID, why error) {
	if i, ok := r.calls.find(id); ok {
		r.engine.Out.Flush()
		r.calls.calls[i].s.conn.Client.Cancel(r.refOf(i), why, r.engine.Now(), r.engine.Out)
	}
}

// expire ends the requests whose deadlines have passed.
func (r *Rpc) expire() {
	if r.calls.deadlines == 0 || r.engine.Now() < r.calls.soonest {
		return
	}
	r.calls.soonest = monotime.Never
	for i := range r.calls.calls {
		c := &r.calls.calls[i]
		switch {
		case !c.used || c.deadline == 0:
		case c.deadline <= r.engine.Now():
			r.cancel(r.calls.id(uint32(i)), ErrDeadline)
		default:
			r.calls.soonest = min(r.calls.soonest, c.deadline)
		}
	}
}

// Timer is a call that Rpc.AfterFunc has arranged. Like its Rpc it belongs to the loop's thread.
type Timer struct {
	rpc   *Rpc
	fn    func()
	at    monotime.Time
	seq   uint64 // of timers due at the same time the lower one runs first
	place int    // in callTimers.heap, from 1; 0 if it does not run
}

// callTimers holds the timers of an endpoint that are to run.
type callTimers struct {
	at   monotime.Time // when the first one is due, Never without one
	ran  bool          // one did, since the loop last waited
	heap []*Timer      // a binary heap
	seq  uint64        // of the timer set last
}

func newCallTimers() callTimers { return callTimers{at: monotime.Never} }

// AfterFunc calls fn once, in the loop, in the first pass that begins d or more after this one did,
// or after this call if no pass is under way. A d of zero or less means the next pass. The loop
// does not sleep past that time, and NextWake knows it. fn is a callback like a Continuation: it
// may use the Rpc, must not block, and a panic in it is not caught.
//
// A timer that its Rpc outlives costs nothing more; Close drops those that have not run. Errors:
// ErrRequest if fn is nil, ErrWrongThread, ErrClosed.
func (r *Rpc) AfterFunc(d time.Duration, fn func()) (*Timer, error) {
	if fn == nil {
		return nil, ErrRequest
	}
	t := &Timer{rpc: r, fn: fn}
	if err := t.Reset(d); err != nil {
		return nil, err
	}
	return t, nil
}

// Reset makes the timer call its function d from now, as AfterFunc does, in place of what it was to
// do before. A timer that has run or was stopped runs again; its function may call Reset, for work
// that repeats. It does not allocate once the loop has had as many timers. Errors: ErrWrongThread,
// ErrClosed.
func (t *Timer) Reset(d time.Duration) error {
	nested, err := t.rpc.enter()
	if err != nil {
		return err
	}
	now := t.rpc.engine.Now()
	d = min(max(d, 0), time.Duration(math.MaxInt64-int64(now)))
	t.rpc.after.set(t, now.Add(d))
	if !nested {
		t.rpc.leave()
	}
	return nil
}

// Stop sees that the timer's function does not run any more, unless Reset is called. It is no error
// to stop a timer that has run, was stopped, or whose Rpc is closed. The error is ErrWrongThread:
// then nothing was stopped.
func (t *Timer) Stop() error {
	nested, err := t.rpc.enter()
	if err != nil {
		if errors.Is(err, ErrClosed) {
			return nil
		}
		return err
	}
	t.rpc.after.remove(t)
	if !nested {
		t.rpc.leave()
	}
	return nil
}

// set puts a timer in, or moves it.
func (c *callTimers) set(t *Timer, at monotime.Time) {
	c.remove(t)
	c.seq++
	t.at, t.seq = at, c.seq
	c.heap = append(c.heap, t)
	t.place = len(c.heap)
	c.up(t.place)
	c.changed()
}

// remove takes a timer out, if it is in.
func (c *callTimers) remove(t *Timer) {
	i, last := t.place, len(c.heap)
	if i == 0 {
		return
	}
	c.swap(i, last)
	c.heap[last-1] = nil
	c.heap = c.heap[:last-1]
	t.place = 0
	if i < last {
		c.down(i)
		c.up(i)
	}
	c.changed()
}

// changed follows each change of the heap.
func (c *callTimers) changed() {
	c.at = monotime.Never
	if len(c.heap) > 0 {
		c.at = c.heap[0].at
	}
	if invariants.Enabled {
		c.check()
	}
}

// less reports whether the timer at place i runs before that at place j.
func (c *callTimers) less(i, j int) bool {
	a, b := c.heap[i-1], c.heap[j-1]
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (c *callTimers) swap(i, j int) {
	c.heap[i-1], c.heap[j-1] = c.heap[j-1], c.heap[i-1]
	c.heap[i-1].place, c.heap[j-1].place = i, j
}

// up moves the timer at place i before those that run later.
func (c *callTimers) up(i int) {
	for ; i > 1 && c.less(i, i/2); i /= 2 {
		c.swap(i, i/2)
	}
}

// down moves the timer at place i behind those that run earlier.
func (c *callTimers) down(i int) {
	for {
		first := i
		for child := 2 * i; child <= min(2*i+1, len(c.heap)); child++ {
			if c.less(child, first) {
				first = child
			}
		}
		if first == i {
			return
		}
		c.swap(i, first)
		i = first
	}
}

// check panics if a timer is not in its place.
func (c *callTimers) check() {
	for i, t := range c.heap {
		if t.place != i+1 || i > 0 && c.less(i+1, (i+1)/2) {
			panic("erpc: a timer is not in its place")
		}
	}
}

// runTimers calls the functions that are due. Timers that are set meanwhile wait for the next pass.
//
//go:noinline
func (r *Rpc) runTimers() {
	c, now, last := &r.after, r.engine.Now(), r.after.seq
	for len(c.heap) > 0 && c.heap[0].at <= now && c.heap[0].seq <= last {
		t := c.heap[0]
		c.remove(t)
		c.ran = true
		t.fn()
		r.settle()
	}
}

// nextCall returns when the loop is to wake up for timers. Loops sleep for an hour, or without end.
func (r *Rpc) nextCall() monotime.Time {
	if len(r.after.heap) == 0 {
		return monotime.Never
	}
	return min(r.after.at, r.engine.Now().Add(time.Hour))
}
