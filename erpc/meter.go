package erpc

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
)

// NumCodes is the number of codes, CodeOK to CodeUnauthenticated.
const NumCodes = int(CodeUnauthenticated) + 1

// CallStats counts the calls of one request type on one side, from when counting began.
type CallStats struct {
	Started  uint64           // by a client: requests that it enqueued
	Ended    [NumCodes]uint64 // by code: those that ended at a client, or that a server answered
	Requests uint64           // bytes of the requests of those that ended
	Answers  uint64           // bytes of their responses
	// Latency, in ns: at a client from EnqueueRequest to the continuation, at a server from the last
	// packet of the request to the response. Times are those of the passes of the loop, so that of
	// an inline handler is 0 here.
	Latency Histogram
	// Handler, in ns: how long handlers at a server took to answer. Those that run inside the loop
	// are timed one in HandlerSample; batches are timed as a whole, and each counts once.
	Handler Histogram
}

// HandlerSample says how many inline handlers run for each one that is timed.
const HandlerSample = 16

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
type meter struct {
	client  [MaxReqType + 1]*CallStats
	served  [MaxReqType + 1]*CallStats
	calls   []meteredCall // by place in callTable
	inline  uint          // handlers inside the loop so far
	started Time
}

// meteredCall notes a request under way for the meter; typ is meaningless if at is 0.
type meteredCall struct {
	at    monotime.Time // 0: it was under way before there was a meter
	size  int
	trace *CallTrace
	typ   uint8
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

// startMeter makes the meter if there is none.
func (e *engine) startMeter() {
	if e.meter != nil {
		return
	}
	e.meter = &meter{started: e.in.Now}
	timed := *e.handlers
	for t := range timed {
		if h := &timed[t]; h.mode == Dispatch && h.fn != nil {
			h.fn = e.timedHandler(h.fn)
		}
	}
	e.handlers = &timed
}

// timedHandler returns a handler that runs fn and times it now and then.
func (e *engine) timedHandler(fn Handler) Handler {
	return func(r ReqHandle) {
		m := e.meter
		if m.inline++; m.inline%HandlerSample != 0 {
			fn(r)
			return
		}
		from := e.port.readClock()
		fn(r)
		m.server(r.Type()).Handler.Add(int64(e.port.readClock().Sub(from)))
	}
}

// meterBatch runs a batch of n requests and times it.
func (e *engine) meterBatch(b *batch, n int) {
	typ := b.given[0].Type()
	from := e.port.readClock()
	b.fn(b.given[:n:n])
	e.meter.server(typ).Handler.Add(int64(e.port.readClock().Sub(from)))
}

// meterStart notes a request that is enqueued at place i. It returns the session's name for it.
func (e *engine) meterStart(i uint32, s *Session, q *Request) (ref uint32) {
	e.startMeter()
	m := e.meter
	for int(i) >= len(m.calls) {
		m.calls = append(m.calls, meteredCall{})
	}
	c := &m.calls[i]
	c.at, c.size, c.trace, c.typ = e.in.Now, q.Req.Size(), q.Trace, q.Type
	m.calling(q.Type).Started++
	if c.trace != nil {
		c.trace.begin(e, s, q)
	}
	return e.refOf(i)
}

// meterUndo takes meterStart back.
func (e *engine) meterUndo(i uint32) {
	if m := e.meter; m != nil && int(i) < len(m.calls) && m.calls[i].at != 0 {
		m.calling(m.calls[i].typ).Started--
		m.calls[i].at, m.calls[i].trace = 0, nil
	}
}

// refOf returns the session's name for the request at place i.
func (e *engine) refOf(i uint32) uint32 {
	if m := e.meter; m != nil && int(i) < len(m.calls) && m.calls[i].trace != nil {
		return i | session.Marked
	}
	return i
}

// meterEnd is complete for requests that the meter may know.
func (e *engine) meterEnd(ref uint32, resp *MsgBuffer, err error, rtt time.Duration) {
	ref &^= session.Marked
	m := e.meter
	if m == nil || int(ref) >= len(m.calls) || m.calls[ref].at == 0 {
		e.complete(ref, resp, err)
		return
	}
	c := &m.calls[ref]
	st, code := m.calling(c.typ), CodeOK
	if err != nil {
		code = CodeOf(err)
	}
	st.Ended[code]++
	st.Requests += uint64(c.size)
	if resp != nil {
		st.Answers += uint64(resp.Size())
	}
	st.Latency.Add(int64(e.in.Now.Sub(c.at)))
	if c.trace != nil {
		c.trace.end(e.in.Now, rtt, resp, err)
	}
	c.at, c.trace = 0, nil
	e.complete(ref, resp, err)
}

// mark notes a step of a traced request.
func (m *meter) mark(ev *session.Event, now monotime.Time) {
	t := m.calls[ev.Ref&^session.Marked].trace
	if t == nil {
		return
	}
	if ev.Kind == session.EventSent {
		t.Sent = now
	} else {
		t.Answered = now
	}
}

// meterAnswer notes the answer to the request in a slot.
func (e *engine) meterAnswer(s *Session, slot uint8, code Code, size int) {
	if e.meter == nil {
		return
	}
	req := s.sv.Served(slot)
	if req.ReqType > MaxReqType || int(code) >= NumCodes {
		return
	}
	st := e.meter.server(req.ReqType)
	st.Ended[code]++
	st.Requests += uint64(req.Size)
	st.Answers += uint64(size)
	st.Latency.Add(int64(e.in.Now.Sub(req.At)))
}

// respondMetered is respond with a meter.
func (s *Session) respondMetered(slot uint8, buf *MsgBuffer) error {
	n, e := buf.Size(), s.engine
	err := s.sv.Respond(slot, buf, e.in.Now, e.out)
	if err == nil {
		e.meterAnswer(s, slot, CodeOK, n)
	}
	return err
}

// blind notes that the loop did not look for packets for a while.
//
//go:noinline
func (e *engine) blind(gap time.Duration) {
	e.stats.BlindSpells++
	e.stats.BlindTime += gap
	if e.recorder != nil {
		e.recorder.AddBlind(int64(e.in.Now), gap)
	}
}

// types returns copies of what the meter counted, by type.
func (m *meter) types() (list []TypeStats) {
	for t := range m.client {
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
