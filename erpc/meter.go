package erpc

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

// NumCodes is the number of codes, CodeOK to CodeUnauthenticated.
const NumCodes = int(CodeUnauthenticated) + 1

// CallStats counts the calls of one request type on one side, from when counting began.
type CallStats struct {
	Started  uint64           // by a client: requests that it enqueued
	Ended    [NumCodes]uint64 // by code: those that ended at a client, or that a server answered
	Requests uint64           // bytes of the requests of those that ended
	Answers  uint64           // bytes of their responses
	// Latency, in ns: at a client from EnqueueRequest to the continuation, in times of the passes of
	// the loop; at a server from the last packet of the request until the response leaves, with the
	// other responses of the pass.
	Latency Histogram
	// Handler, in ns: how long handlers at a server took to answer, on the clock itself. Of those that
	// run inside the loop some are timed, chosen at random, and each counts for those before it that
	// were not: so Count is that of all but the last few, and Sum has no bias. Types with less than a
	// request in HandlerEvery, times the number of types, are timed each time. Batches are timed as a
	// whole, and each counts once.
	Handler Histogram
}

// Count returns how many calls ended, with whatever code.
func (c *CallStats) Count() (n uint64) {
	for _, k := range c.Ended {
		n += k
	}
	return n
}

// TypeStats counts the calls of one request type.
type TypeStats struct {
	Type   uint8
	Client *CallStats // nil if this side called none
	Server *CallStats // nil if this side answered none
}

// meter counts calls by request type. The loop owns it. The first call of Rpc.Snapshot makes it, so
// that endpoints which nobody watches pay nothing but a look whether there is one.
//
// Counting a call of the common case is four additions to memory that is in the cache, and no look
// at the clock. Calls that begin in one pass and end in one have the same latency. So they come in
// runs, and the histogram of latencies gets a run as a whole. At a server those of a run leave
// together, and the loop looks at the clock then.
type meter struct {
	calls   runs        // at this client
	answers answers     // of this server
	started [256]uint64 // calls by type
	sampler sampler     // of handlers in the loop

	client [MaxReqType + 1]*CallStats
	served [MaxReqType + 1]*CallStats
	traces []*CallTrace // by place in callTable
}

// stampOf puts a time and a type together. The time in it wraps after two years, and no call takes
// as long.
func stampOf(at Time, typ uint8) uint64 { return uint64(at)<<8 | uint64(typ) }

// sinceStamp returns the time from a stamp to now.
func sinceStamp(now Time, stamp uint64) time.Duration {
	return time.Duration(uint64(now)<<8-stamp&^0xFF) >> 8
}

// run sums up calls that ended one after the other, with the same type and the same latency, and
// with a response. Answers with errors are runs of their own.
type run struct {
	key                  uint64 // now<<8 - stamp, which only calls of one type and latency have
	n, requests, answers uint64
	stats                *CallStats // of the type; nil before the first run
	took                 time.Duration
	code                 uint8
	_                    [15]uint8 // it fills a cache line
}

// noKey is that of no call: its type would be 255.
const noKey = 1

// runs are those of types with the same lowest bits. So calls of some types in turns keep their
// runs.
type runs [4]run

func newRuns() (r runs) {
	for i := range r {
		r[i].key = noKey
	}
	return r
}

// more adds a call to its run. It reports whether the call belongs there.
func (rs *runs) more(now Time, stamp uint64, request, answer int) bool {
	r := &rs[stamp%4]
	if uint64(now)<<8-stamp != r.key {
		return false
	}
	r.n++
	r.requests += uint64(request)
	r.answers += uint64(answer)
	return true
}

// begin ends the run and begins another one, of the type that stats is about.
func (rs *runs) begin(stats *CallStats, now Time, stamp uint64, request, answer int) {
	r := &rs[stamp%4]
	r.fold()
	took := sinceStamp(now, stamp)
	*r = run{
		key: uint64(now)<<8 - stamp, n: 1, requests: uint64(request), answers: uint64(answer),
		stats: stats, took: took,
	}
}

func (rs *runs) fold() {
	for i := range rs {
		rs[i].fold()
	}
}

// fold gives the type what the run has. The run may go on.
func (r *run) fold() {
	if r.n == 0 {
		return
	}
	r.stats.Ended[r.code] += r.n
	r.stats.Requests += r.requests
	r.stats.Answers += r.answers
	r.stats.Latency.addSame(int64(r.took), r.n)
	r.n, r.requests, r.answers = 0, 0, 0
}

func (m *meter) calling(typ uint8) *CallStats {
	if m.client[typ] == nil {
		m.client[typ] = new(CallStats)
	}
	return m.client[typ]
}

func (m *meter) server(typ uint8) *CallStats {
	if m.served[typ] == nil {
		m.served[typ] = new(CallStats)
	}
	return m.served[typ]
}

// answers sums up the requests that a server has answered, until the answers leave.
type answers struct {
	runs
	ended []run // they wait for the others; it does not grow
}

// newAnswers has room for the types of a burst.
func newAnswers() answers { return answers{newRuns(), make([]run, 0, 64)} }

// leave counts the answers, which leave now.
func (a *answers) leave(now Time) {
	for i := range a.runs {
		a.runs[i].leave(now)
	}
	for i := range a.ended {
		a.ended[i].leave(now)
	}
	a.ended = a.ended[:0]
}

// leave is fold for a run of answers, whose key is that of time 0.
func (r *run) leave(now Time) {
	if r.n > 0 {
		r.took = sinceStamp(now, -r.key)
		r.fold()
	}
}

// startMeter makes the meter if there is none.
func (r *Rpc) startMeter() {
	if r.meter == nil {
		r.meter = &meter{calls: newRuns(), answers: newAnswers()}
		r.meter.sampler.init(r.cfg.Simulation.Seed, r.number)
	}
}

// timeHandler runs an inline handler and times it.
//
//go:noinline
func (r *Rpc) timeHandler(fn Handler, h ReqHandle) {
	m, pass, from := r.meter, r.engine.Now(), r.readClock()
	weight := m.sampler.next(h.Type(), from)
	fn(h)
	took := r.readClock().Sub(from)
	m.sampler.timed(pass, took)
	m.sampler.gaps[h.Type()].last = took
	m.server(h.Type()).Handler.addSame(int64(took), weight)
}

// meterBatch runs a batch of n requests and times it.
func (r *Rpc) meterBatch(b *batch, n int) {
	typ, pass, from := b.given[0].Type(), r.engine.Now(), r.readClock()
	b.fn(b.given[:n:n])
	took := r.readClock().Sub(from)
	r.meter.sampler.timed(pass, took)
	r.meter.server(typ).Handler.Add(int64(took))
}

// traceStart notes the trace of a request at place i, with the meter that it needs. It returns the
// session's name for the request.
func (r *Rpc) traceStart(i uint32, s *Session, q *Request) (ref uint32) {
	r.startMeter()
	m := r.meter
	for int(i) >= len(m.traces) {
		m.traces = append(m.traces, nil)
	}
	m.traces[i] = q.Trace
	q.Trace.begin(r.engine.Now(), s, q)
	return i | session.Marked
}

// traceEnd ends the trace of a request. It returns the request's place.
//
//go:noinline
func (r *Rpc) traceEnd(ref uint32, resp *MsgBuffer, err error, rtt time.Duration) uint32 {
	i := ref &^ session.Marked
	r.meter.traces[i].end(r.engine.Now(), rtt, resp, err)
	r.meter.traces[i] = nil
	return i
}

// refOf returns the session's name for the request at place i.
func (r *Rpc) refOf(i uint32) uint32 {
	if m := r.meter; m != nil && int(i) < len(m.traces) && m.traces[i] != nil {
		return i | session.Marked
	}
	return i
}

// mark notes a step of a traced request.
func (m *meter) mark(ev *session.Event, now monotime.Time) {
	t := m.traces[ev.Ref&^session.Marked]
	if t == nil {
		return
	}
	if ev.Kind == session.EventSent {
		t.Sent = now
	} else {
		t.Answered = now
	}
}

// meterEnd notes a call that does not belong to the run at hand.
//
//go:noinline
func (r *Rpc) meterEnd(c *call, resp *MsgBuffer, err error) {
	if c.stamp == 0 {
		return // it was under way before there was a meter
	}
	st := r.meter.calling(uint8(c.stamp))
	if err == nil {
		r.meter.calls.begin(st, r.engine.Now(), c.stamp, c.req.Size(), resp.Size())
		return
	}
	st.Ended[CodeOf(err)]++
	st.Requests += uint64(c.req.Size())
	st.Latency.Add(int64(sinceStamp(r.engine.Now(), c.stamp)))
}

// meterAnswer notes the answer of n bytes to a request, which does not belong to the run at hand.
//
//go:noinline
func (r *Rpc) meterAnswer(req session.Served, n int) {
	if req.ReqType > MaxReqType {
		return
	}
	stamp, a := stampOf(req.At, req.ReqType), r.roomForRun()
	last := &a.runs[stamp%4]
	if last.n > 0 {
		a.ended = append(a.ended, *last)
	}
	*last = run{
		key: -stamp, n: 1, requests: uint64(req.Size), answers: uint64(n),
		stats: r.meter.server(req.ReqType),
	}
}

// roomForRun returns the answers, with room for one more run that has ended. If there are many,
// they count as if they left now.
func (r *Rpc) roomForRun() *answers {
	a := &r.meter.answers
	if len(a.ended) == cap(a.ended) {
		a.leave(r.readClock())
	}
	return a
}

// meterError notes that the request in a slot is answered with an error.
func (r *Rpc) meterError(s *serverEnd, slot uint8, code Code) {
	req := s.half.Served(slot)
	if req.ReqType > MaxReqType || int(code) >= NumCodes {
		return
	}
	a := r.roomForRun()
	a.ended = append(a.ended, run{
		key: -stampOf(req.At, req.ReqType), n: 1, requests: uint64(req.Size), code: uint8(code),
		stats: r.meter.server(req.ReqType),
	})
}

// blind notes that the loop did not look for packets for a while.
//
//go:noinline
func (r *Rpc) blind(gap time.Duration) {
	r.stats.BlindSpells++
	r.stats.BlindTime += gap
	if r.recorder != nil {
		r.recorder.AddBlind(int64(r.engine.Now()), gap)
	}
	if r.meter != nil {
		r.meter.explain(r.polledAt, r.engine.Now())
	}
}

// types returns copies of what the meter counted, by type.
func (m *meter) types() (list []TypeStats) {
	m.calls.fold() // answers that have not left do not count yet
	for t := range m.client {
		if n := m.started[t]; n > 0 {
			m.calling(uint8(t)).Started = n
		}
		c, s := m.client[t], m.served[t]
		if c == nil && s == nil {
			continue
		}
		list = append(list, TypeStats{uint8(t), copyOf(c), copyOf(s)})
	}
	return list
}

func copyOf(c *CallStats) *CallStats {
	if c == nil {
		return nil
	}
	d := *c
	return &d
}

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

func (t *CallTrace) begin(now Time, s *Session, q *Request) {
	called := min(t.Called, now) // called may be later than the clock of a pass that had begun
	*t = CallTrace{
		Called: called, Enqueued: now, Type: q.Type, Peer: s.conn.End.Peer, Session: s.conn.End.Local,
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
