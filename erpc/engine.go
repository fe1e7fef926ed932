package erpc

import (
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/ratelimit/carousel"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// engine is the endpoint without I/O: it takes packets and the time, and queues
// packets. The loop in loop.go moves the bytes.
type engine struct {
	rpc      *Rpc
	cfg      *Config
	now      int64        // ns; read once per pass of the loop (eRPC, section 5.2.2)
	out      *session.Out // its Tx is the TX batch
	ahead    []*Session   // of prefetch
	handlers *[wire.MaxReqType + 1]handlerEntry
	refuse   [256]wire.Code // per request type: why it is refused
	pool     *msgbuf.Pool
	pacing   *session.Pacing           // congestion control; nil for none
	wheel    *carousel.Wheel[*Session] // sessions whose next packet is not due; nil until needed
	rng      *rand.Rand
	epoch    uint64
	cookies  *session.Cookies
	mtu      int
	rxRing   int  // packets that can wait at the transport
	rxShared bool // a peer can still change what it has sent; see transport.Caps
	checksum bool

	sessions   []*Session // by number; nil is free
	freeNums   []uint32
	numLive    int // sessions in the table
	byKey      map[connKey]*Session
	epochs     map[transport.Addr]*peerEpoch
	peers      map[peerKey]*peer
	watched    []*peer
	active     []*Session // client sessions that may have packets outstanding
	changing   []*Session // sessions that connect or disconnect
	ops        opTable
	jobs       []*job // free ones
	numJobs    int    // background requests that wait or run
	resetsLeft int
	refuseNew  bool // shutting down: no new sessions or requests
	closing    bool // in Rpc.Close: nobody would end the requests of a session made now

	idleFor   int64  // whenIdle: how long, ns
	idleSince int64  // whenIdle: since when no handler runs, ns; 0 if one does
	onIdle    func() // whenIdle; nil if nobody waits

	nextScan  int64
	nextSweep int64
	stats     Stats
	proto     session.Stats
}

// coldSessions is from how many sessions on their state is asked for ahead of a burst.
const coldSessions = 256

// prefetch asks for the sessions of a burst, and then for what they point to, before any
// packet is looked at, so that their cache misses overlap.
func (e *engine) prefetch(pkts []transport.RxPacket) {
	e.ahead = e.ahead[:0]
	for i := range pkts {
		if n, ok := wire.SessionOf(pkts[i].Data); ok && n < uint32(len(e.sessions)) && e.sessions[n] != nil {
			s := e.sessions[n]
			sys.Prefetch(&s.live, hotSession+session.ClientHot)
			e.ahead = append(e.ahead, s)
		}
	}
	for step := range session.PrefetchSteps {
		for _, s := range e.ahead {
			if s.sv != nil {
				s.sv.Prefetch(step)
			}
		}
	}
}

// onPacket takes one received packet.
func (e *engine) onPacket(p *transport.RxPacket) {
	if e.cfg.Congestion.NoBatchedTime {
		e.now = e.rpc.clock()
	}
	var h wire.Header
	if err := h.Parse(p.Data); err != nil {
		e.stats.DropMalformed++
		return
	}
	if h.Type == wire.TypeMgmt {
		e.onMgmt(&h, p)
		return
	}
	if h.Session >= uint32(len(e.sessions)) || e.sessions[h.Session] == nil {
		e.stats.DropNoSession++
		return
	}
	s := e.sessions[h.Session]
	token := wire.Token(p.Data)
	if s.checksum {
		token ^= wire.Checksum(p.Data, nil)
	}
	if token != s.token || p.From != s.peer || s.state != sessConnected {
		e.stats.DropToken++
		return
	}
	s.live.Heard(e.now)
	s.other.watch.Heard(e.now)
	if s.sv != nil {
		e.onServerPacket(s, &h, p)
	} else {
		e.onClientPacket(s, &h, p)
	}
}

func (e *engine) onServerPacket(s *Session, h *wire.Header, p *transport.RxPacket) {
	switch h.Type {
	case wire.TypeReq:
		ev := s.sv.OnReq(h, p.Data[wire.HeaderSize:], p.CE, e.now, e.out)
		e.collect(s)
		if ev.Kind == session.EventRequest {
			e.dispatch(s, ev.Slot)
		}
	case wire.TypeRFR:
		s.sv.OnRFR(h, p.CE, e.now, e.out)
		e.collect(s)
	default:
		e.stats.DropRole++
	}
}

func (e *engine) onClientPacket(s *Session, h *wire.Header, p *transport.RxPacket) {
	var ev session.Event
	if p.CE {
		h.Flags |= wire.FlagCE // the answer met congestion: for RFRs that is what counts
	}
	switch h.Type {
	case wire.TypeCR:
		ev = s.cl.OnCR(h, e.now, e.out)
	case wire.TypeResp:
		ev = s.cl.OnResp(h, p.Data[wire.HeaderSize:], e.now, e.out)
	default:
		e.stats.DropRole++
		return
	}
	e.collect(s)
	last := &e.out.Last
	if last.RTT > 0 {
		e.stats.RTT.Add(last.RTT)
	}
	switch ev.Kind {
	case session.EventDone:
		if ev.Code == wire.CodeOK {
			e.succeed(ev.Ref, last.Resp)
		} else {
			e.complete(ev.Ref, &RemoteError{Code: ev.Code, Text: string(last.Text)})
		}
	case session.EventError:
		e.complete(ev.Ref, last.Err)
	}
}

// collect does what the session asked for beside the packets that it put into the TX
// batch. It is called after each call of a session.
func (e *engine) collect(s *Session) {
	if e.out.Todo {
		e.attend(s)
	}
}

// attend is the rare part of collect.
func (e *engine) attend(s *Session) {
	o := e.out
	o.Todo = false
	if o.Unaddressed() {
		o.Address(s.peer)
	}
	if o.Flush {
		o.Flush = false
		e.rpc.drain() // a retransmission: no queue may refer to its buffer later
	}
	if o.Pace {
		o.Pace = false
		e.schedule(s)
	}
	if len(o.Done) > 0 {
		e.finishDone()
	}
}

// slowPass is how long a pass may take, ns, until it is accounted for. Below it the
// difference is not worth rewriting headers.
const slowPass = 10_000

// noteHold adds what this pass took to the hold times in the answers that leave now: it
// is time that the server held the requests. Else slow handlers would look like congestion.
func (e *engine) noteHold() {
	late := e.rpc.clock() - e.now
	if late < slowPass {
		late = 0
	}
	e.out.Delayed(late)
}

// finishDone ends the requests that a session gave back without a packet. Their
// continuations may cause more.
func (e *engine) finishDone() {
	done := e.out.Done
	e.out.Done = nil
	for _, d := range done {
		e.complete(d.Ref, d.Err)
	}
}

// dispatch gives the complete request in slot to its handler.
func (e *engine) dispatch(s *Session, slot uint8) {
	typ, num, data := s.sv.Request(slot)
	entry := &e.handlers[typ]
	e.stats.RequestsServed++
	h := ReqHandle{s: s, reqNum: num, bits: uint64(slot)<<slotShift | uint64(typ)}
	if entry.mode == Background {
		e.background(h, entry.fn)
		return
	}
	if (e.cfg.NoZeroCopy || e.rxShared && len(data)+wire.HeaderSize > transport.PrivateBytes) && s.sv.Unborrow(slot) != nil {
		_ = h.RespondError(wire.CodeExhausted, "no memory for the request")
		return
	}
	entry.fn(h)
	if s.state == sessConnected && s.sv.Handling(slot, num) {
		if err := s.sv.Unborrow(slot); err != nil {
			_ = h.RespondError(wire.CodeExhausted, "no memory for the request")
		}
	}
}

// background hands a request to the executor.
func (e *engine) background(h ReqHandle, fn Handler) {
	if e.numJobs >= e.cfg.MaxBackground {
		_ = h.RespondError(wire.CodeExhausted, "too many background requests")
		return
	}
	buf, err := h.s.sv.Take(h.slot())
	if err != nil {
		_ = h.RespondError(wire.CodeExhausted, "no memory for the request")
		return
	}
	j := e.newJob()
	gen := uint32(j.state.Load()>>1) + 1
	j.state.Store(uint64(gen) << 1)
	h.job = j
	h.bits |= uint64(gen) << genShift
	j.handle, j.req, j.fn = h, buf, fn
	e.numJobs++
	if !e.rpc.exec.Submit(j) {
		_ = j.claim(gen)
		j.resp, j.code, j.text = nil, wire.CodeExhausted, "background workers are busy"
		e.finishJob(j)
	}
}

func (e *engine) newJob() *job {
	if n := len(e.jobs); n > 0 {
		j := e.jobs[n-1]
		e.jobs = e.jobs[:n-1]
		return j
	}
	return new(job)
}

// finishJob sends the response of a background request, if its session still waits for it.
func (e *engine) finishJob(j *job) {
	h := j.handle
	h.job = nil
	e.numJobs--
	if h.s.state == sessConnected && h.s.sv.Handling(h.slot(), h.reqNum) {
		if j.code != wire.CodeOK {
			_ = h.RespondError(j.code, j.text)
		} else if err := h.Respond(j.resp); err != nil {
			_ = h.RespondError(codeOf(err), "")
			j.resp.Free()
		}
	} else if j.resp != nil {
		j.resp.Free()
	}
	j.req.Free()
	j.handle, j.req, j.resp, j.fn, j.text = ReqHandle{}, nil, nil, nil, ""
	e.jobs = append(e.jobs, j)
}
