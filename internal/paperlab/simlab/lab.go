package simlab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// Progress is told what is being done, and which part of it is done, 0 to 1. It
// may be nil.
type Progress func(what string, part float64)

// typeReply is the request type of all experiments: the response has as many
// bytes as the first four of the request say.
const typeReply = 1

const minRequest = 4 // bytes

// lab is a simulated network with the threads attached to it.
type lab struct {
	ctx      context.Context
	net      *sim.Network
	nexus    *erpc.Nexus
	threads  []*thread
	byRpc    map[*erpc.Rpc]*thread
	progress Progress
	what     string
	err      error // the first thing that went wrong inside a callback
}

// thread is one endpoint with its event loop.
type thread struct {
	lab     *lab
	ep      *sim.Endpoint
	rpc     *erpc.Rpc
	opened  int             // client sessions that are open
	backlog []*thread       // whom to open sessions to; see connect
	servers []*erpc.Session // client sessions, in the order in which they were opened
}

// newLab makes a network. The configuration's Clock, Seed and OnSession are the lab's.
func newLab(ctx context.Context, net sim.Config, cfg erpc.Config, progress Progress) (*lab, error) {
	n, err := sim.New(net)
	if err != nil {
		return nil, err
	}
	l := &lab{ctx: ctx, net: n, byRpc: map[*erpc.Rpc]*thread{}, progress: progress}
	cfg.Simulation.Clock = n.Now
	cfg.Simulation.Seed = net.Seed<<1 | 1 // 0 would mean random
	cfg.OnSession = l.onSession
	cfg.NoHugepages = true
	if l.nexus, err = erpc.NewNexus(cfg); err != nil {
		return nil, err
	}
	if err = l.nexus.Register(typeReply, erpc.Dispatch, l.serve); err != nil {
		return nil, err
	}
	return l, nil
}

// start adds a thread to a node.
func (l *lab) start(c sim.EndpointConfig) (*thread, error) {
	ep, err := l.net.NewEndpoint(c)
	if err != nil {
		return nil, err
	}
	return l.attach(ep)
}

// attach adds a thread with an endpoint.
func (l *lab) attach(ep *sim.Endpoint) (*thread, error) {
	r, err := l.nexus.NewRpc(ep)
	if err != nil {
		return nil, err
	}
	t := &thread{lab: l, ep: ep, rpc: r}
	l.threads = append(l.threads, t)
	l.byRpc[r] = t
	l.net.Attach(ep, t)
	return t, nil
}

// RunOnce implements sim.Driver.
func (t *thread) RunOnce() {
	if _, err := t.rpc.RunOnce(); err != nil && !errors.Is(err, transport.ErrClosed) {
		t.lab.fail(err)
	}
}

// NextWake implements sim.Driver.
func (t *thread) NextWake() sim.Time { return t.rpc.NextWake() }

// fail ends the experiment.
func (l *lab) fail(err error) {
	if l.err == nil && err != nil {
		l.err = fmt.Errorf("simulation, at %v: %w", l.net.Now().Sub(sim.StartTime), err)
	}
}

// serve is the handler.
func (l *lab) serve(h erpc.ReqHandle) {
	b := h.Data()
	if len(b) < minRequest {
		l.fail(h.RespondError(errors.New("short request")))
		return
	}
	buf, err := h.Alloc(int(binary.LittleEndian.Uint32(b)))
	if err == nil {
		err = h.Respond(buf)
	}
	l.fail(err)
}

func (l *lab) onSession(r *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
	if ev != erpc.SessionConnected {
		if !errors.Is(s.Err(), erpc.ErrClosed) {
			l.fail(fmt.Errorf("session with %s %v: %w", s.Peer().String(), ev, s.Err()))
		}
		return
	}
	if s.IsClient() {
		t := l.byRpc[r]
		t.opened++
		t.dialNext()
	}
}

// dialsAtOnce bounds the sessions that one thread is opening at a time, so that
// the packets of the handshakes fit the network's queues.
const dialsAtOnce = 16

// dial puts a session on the list of those that connect opens.
func (t *thread) dial(to *thread) { t.backlog = append(t.backlog, to) }

// dialNext starts to open the next session on the list.
func (t *thread) dialNext() {
	if len(t.backlog) == 0 {
		return
	}
	s, err := t.rpc.CreateSessionTo(t.backlog[0].ep.LocalAddr())
	t.backlog = t.backlog[1:]
	if err != nil {
		t.lab.fail(err)
		return
	}
	t.servers = append(t.servers, s)
}

// connectBound is the longest virtual time that opening all sessions may take.
const connectBound = 20 * time.Second

// connect opens the sessions on all lists.
func (l *lab) connect() error {
	want := 0
	for _, t := range l.threads {
		want += len(t.backlog)
		for range min(dialsAtOnce, len(t.backlog)) {
			t.dialNext()
		}
		t.ep.Wake()
	}
	end := l.net.Now().Add(connectBound)
	for {
		open := 0
		for _, t := range l.threads {
			open += t.opened
		}
		if l.tell("opening sessions", float64(open)/float64(max(1, want))); open == want {
			return l.stopped()
		}
		if err := l.stopped(); err != nil {
			return err
		}
		if l.net.Now() >= end {
			return fmt.Errorf("simulation: %d of %d sessions open after %v", open, want, connectBound)
		}
		l.net.RunUntil(l.net.Now().Add(slice))
	}
}

// slice is the virtual time between two looks at the context.
const slice = 50 * time.Microsecond

// run lets virtual time pass. Begin and end are the parts of the work done before
// and after it, for Progress.
func (l *lab) run(d time.Duration, begin, end float64) error {
	from := l.net.Now()
	until := from.Add(d)
	for now := from; now < until; {
		now = min(until, now.Add(slice))
		l.net.RunUntil(now)
		if err := l.stopped(); err != nil {
			return err
		}
		l.tell("", begin+(end-begin)*float64(now.Sub(from))/float64(d))
	}
	return nil
}

func (l *lab) stopped() error {
	if l.err != nil {
		return l.err
	}
	return l.ctx.Err()
}

func (l *lab) tell(what string, part float64) {
	if l.progress != nil {
		if what != "" {
			what = ": " + what
		}
		l.progress(l.what+what, part)
	}
}

// close frees what the threads hold. Requests under way end with errors, which
// concern nobody any more. Endpoints go first, so that nobody says goodbye to all
// peers of all sessions.
func (l *lab) close() {
	l.err = errOver
	for _, t := range l.threads {
		t.ep.Crash()
	}
	for _, t := range l.threads {
		_ = t.rpc.Close() // it complains of the buffers of requests that were under way
	}
	_ = l.nexus.Close()
}

// errOver keeps callbacks from starting anything while a lab closes.
var errOver = errors.New("the experiment is over")

// flow keeps one request after the other under way on a session.
type flow struct {
	lab       *lab
	thread    *thread
	session   *erpc.Session
	req, resp *erpc.MsgBuffer
	finish    erpc.Continuation
	done      uint64
	startedAt sim.Time
	onDone    func(f *flow, took time.Duration) // nil, or called with each latency; may change session
}

// newFlow prepares a flow of requests and responses of so many bytes.
func (t *thread) newFlow(s *erpc.Session, reqSize, respSize int) (*flow, error) {
	f := &flow{lab: t.lab, thread: t, session: s}
	f.finish = f.ended
	var err error
	if f.req, err = t.rpc.Alloc(max(reqSize, minRequest)); err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(f.req.Data(), uint32(respSize))
	if f.resp, err = t.rpc.Alloc(respSize); err != nil {
		f.req.Free()
		return nil, err
	}
	return f, nil
}

// issue starts the next request.
func (f *flow) issue() {
	f.startedAt = f.lab.net.Now()
	_, err := f.thread.rpc.EnqueueRequest(f.session,
		erpc.Request{Type: typeReply, Req: f.req, Resp: f.resp, Done: f.finish})
	f.lab.fail(err)
}

// begin starts the first request, from outside the event loop.
func (f *flow) begin() {
	f.issue()
	f.thread.ep.Wake()
}

func (f *flow) ended(c erpc.Completion) {
	if f.lab.err != nil || c.Err != nil {
		f.lab.fail(c.Err)
		f.req.Free()
		f.resp.Free()
		return
	}
	f.done++
	if f.onDone != nil {
		f.onDone(f, f.lab.net.Now().Sub(f.startedAt))
	}
	f.issue()
}
