package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// worker is one client thread: an endpoint, and the peer's thread that it talks to.
type worker struct {
	ep      *endpoint
	addr    string        // of the peer's thread
	control *erpc.Session // to it
	tasks   chan func(*worker) error
	results chan error
}

// team is the client threads of a measurement, and the server process if it was
// started for them.
type team struct {
	mu      sync.Mutex // guards workers between interrupt and openWorker
	workers []*worker
	server  *child
	guest   bool // the server is stopped by someone else
	stop    atomic.Bool
	cancel  func() bool
}

// peer is the server to talk to: at an address, or a process of this one's.
type peer struct {
	addr   string
	server *child
}

// openTeam opens the client threads and their sessions for control, and starts a
// server process if it is given none.
func openTeam(e *Env, f *NetFlags, faults *FaultFlags, p peer, threads int,
	serverFlags ...string) (t *team, err error) {
	f.notes = e.Err
	t = &team{cancel: func() bool { return true }, server: p.server, guest: p.server != nil}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	cores, err := f.cores(2 * threads) // the first half for the clients
	if err != nil {
		return t, err
	}
	loops := cores[:threads]
	if p.addr == "" { // the server shares the machine
		loops = cores
	}
	if said := crowded(loops, allowedCores()); said != "" && !e.crowdTold {
		e.crowdTold = true
		fmt.Fprintln(e.Err, said)
	}
	addrs := []string{p.addr}
	if p.addr == "" && t.server == nil {
		if t.server, err = StartServer(f, threads, pinList(cores[threads:]), serverFlags...); err != nil {
			return t, err
		}
	}
	if t.server != nil {
		addrs = t.server.Addrs
	}
	t.cancel = context.AfterFunc(e.Ctx, t.interrupt)
	for i := range threads {
		w, err := t.openWorker(f, faults, addrs[i%len(addrs)], cores[i])
		if err != nil {
			return t, err
		}
		if i == 0 && t.server == nil { // the server has other threads, perhaps
			var rep report
			if err := w.do(func(w *worker) (err error) {
				rep, err = w.ask(control{Op: "stats"})
				return err
			}); err != nil {
				return t, err
			}
			addrs = peersOf(f.medium(), p.addr, rep.Addrs)
		}
	}
	t.watchServer()
	return t, nil
}

// peersOf returns how to reach all threads of a server that is known by addr.
func peersOf(m medium, addr string, all []string) []string {
	out := []string{addr}
	for _, a := range all[min(1, len(all)):] {
		out = append(out, m.peer(addr, a))
	}
	return out
}

func pinList(cores []int) string {
	list := ""
	for _, c := range cores {
		if c < 0 {
			return "none"
		}
		list += fmt.Sprintf(",%d", c)
	}
	return list[1:]
}

// interrupt makes every loop return soon.
func (t *team) interrupt() {
	t.stop.Store(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.workers {
		w.ep.rpc.Wake()
	}
}

// watchServer stops the measurement when the server process dies.
func (t *team) watchServer() {
	if t.server == nil {
		return
	}
	go func() {
		<-t.server.ended
		t.interrupt()
	}()
}

func (t *team) openWorker(f *NetFlags, faults *FaultFlags, addr string, core int) (*worker, error) {
	local, err := f.Near(addr)
	if err != nil {
		return nil, err
	}
	tr, err := f.Listen(local)
	if err != nil {
		return nil, err
	}
	if tr, err = faults.Spoil(tr, uint64(len(t.workers))); err != nil {
		return nil, err
	}
	ep, err := openEndpoint(f, tr, core, &t.stop)
	if err != nil {
		return nil, err
	}
	w := &worker{ep: ep, addr: addr, tasks: make(chan func(*worker) error), results: make(chan error)}
	t.mu.Lock()
	t.workers = append(t.workers, w)
	t.mu.Unlock()
	go w.run()
	return w, w.do((*worker).connect)
}

// keepAlive is how often a thread without a task looks at its packets, so that the
// server does not take it for lost.
const keepAlive = 250 * time.Millisecond

// run does the thread's tasks until there will be no more, and closes the endpoint.
func (w *worker) run() {
	err := w.ep.lock()
	idle := time.NewTicker(keepAlive)
	defer idle.Stop()
	for {
		select {
		case task, ok := <-w.tasks:
			switch {
			case !ok:
				w.results <- errors.Join(w.ep.close(), w.ep.leave())
				return
			case err != nil:
				w.results <- err
			default:
				w.results <- task(w)
			}
		case <-idle.C:
			if _, rerr := w.ep.rpc.RunOnce(); err == nil {
				err = rerr // the next task tells it
			}
		}
	}
}

// do runs a task in the worker's thread.
func (w *worker) do(task func(*worker) error) error {
	w.tasks <- task
	return <-w.results
}

// each runs a task in all threads at the same time.
func (t *team) each(task func(*worker) error) error {
	for _, w := range t.workers {
		w.tasks <- task
	}
	var errs []error
	for _, w := range t.workers {
		errs = append(errs, <-w.results)
	}
	err := errors.Join(errs...)
	if t.server != nil && err != nil {
		select {
		case <-t.server.ended:
			return t.server.failure()
		default:
		}
	}
	return err
}

// close ends the threads and the server process.
func (t *team) close() error {
	t.cancel()
	var err error
	for _, w := range t.workers {
		close(w.tasks)
		err = errors.Join(err, <-w.results)
	}
	if t.server != nil && !t.guest {
		err = errors.Join(err, t.server.Stop())
	}
	return err
}

// dial opens a session and waits until it is open.
func (w *worker) dial() (*erpc.Session, error) {
	s, err := w.ep.rpc.CreateSession(w.addr)
	if err != nil {
		return nil, err
	}
	err = w.ep.rpc.Run(func() bool { return s.Connected() || s.Err() != nil || w.ep.stop.Load() })
	switch {
	case err != nil:
		return nil, err
	case errors.Is(s.Err(), erpc.ErrConnect):
		return nil, fmt.Errorf("nobody answers at %s; is \"erpc server\" running there?", w.addr)
	case s.Err() != nil:
		return nil, fmt.Errorf("%s: %w", w.addr, s.Err())
	case !s.Connected():
		return nil, cli.ErrStopped
	}
	return s, nil
}

func (w *worker) connect() (err error) {
	w.control, err = w.dial()
	return err
}

// ask sends a control to the peer's thread and waits for its report.
func (w *worker) ask(c control) (rep report, err error) {
	body, err := json.Marshal(c)
	if err != nil {
		return rep, err
	}
	resp, err := w.call(typeControl, body, controlTimeout)
	if err != nil {
		return rep, fmt.Errorf("control of the server at %s: %w", w.addr, err)
	}
	if err = json.Unmarshal(resp, &rep); err == nil && rep.Error != "" {
		err = errors.New(rep.Error)
	}
	return rep, err
}

const controlTimeout = 3 * time.Second

// call makes one RPC on the control session and waits for its end, also after
// Ctrl-C: what was measured so far is to be collected.
func (w *worker) call(typ uint8, body []byte, timeout time.Duration) (resp []byte, err error) {
	r := w.ep.rpc
	req, err := r.Alloc(len(body))
	if err != nil {
		return nil, err
	}
	copy(req.Data(), body)
	over := false
	done := func(c erpc.Completion) {
		over, err = true, c.Err
		c.Rpc.Wake() // a deadline is no packet: the loop might sleep before it sees over
		if c.Err == nil {
			resp = append([]byte{}, c.Resp.Data()...)
		}
		c.Req.Free()
		if c.Resp != nil {
			c.Resp.Free()
		}
	}
	if _, err := r.EnqueueRequest(w.control,
		erpc.Request{Type: typ, Req: req, Done: done, Timeout: timeout}); err != nil {
		req.Free()
		return nil, err
	}
	if rerr := r.Run(func() bool { return over }); rerr != nil {
		return nil, rerr
	}
	return resp, err
}

// prepare opens the sessions and buffers of a load.
func (w *worker) prepare(s Shape) (err error) {
	w.ep.load, err = newLoad(w.ep.rpc, s, w.dial)
	return err
}

// drainLimit bounds the wait for RPCs in flight at the end of a round.
const drainLimit = 2 * time.Second

// runFor runs the event loop until stop returns true, at most for d.
func runFor(r *erpc.Rpc, d time.Duration, stop func() bool) error {
	over := false
	timer, err := r.AfterFunc(d, func() { over = true })
	if err != nil {
		return err
	}
	return errors.Join(r.Run(func() bool { return stop() || over }), timer.Stop())
}

// load starts RPCs for d, and waits for those in flight then.
func (w *worker) load(d time.Duration, keepLatency bool) (round, error) {
	l, r := w.ep.load, w.ep.rpc
	l.pace = max(time.Millisecond, d/marksPerRound)
	l.begin(keepLatency)
	err := runFor(r, d, func() bool {
		l.tick()
		return l.dead != nil || w.ep.stop.Load()
	})
	if err != nil {
		return round{}, err
	}
	l.stopping = true
	err = w.drain()
	res := l.result()
	if l.dead != nil {
		err = fmt.Errorf("%s: %w", w.addr, l.dead)
	}
	return res, err
}

// settle serves until the peer's load has nothing in flight: a peer that is left
// alone with it would send it again and again.
func (w *worker) settle() error {
	for limit := monotime.Now().Add(drainLimit); monotime.Now() < limit; {
		if rep, err := w.ask(control{Op: "stats"}); err != nil || rep.InFlight == 0 {
			return err
		}
	}
	return nil
}

// drain waits until no RPC of the load is in flight. Both they and the wait count.
func (w *worker) drain() error {
	l, r := w.ep.load, w.ep.rpc
	err := runFor(r, drainLimit, func() bool {
		l.now = 0
		return l.inFlight == 0 || l.dead != nil
	})
	if l.inFlight > 0 {
		l.lastAt = l.clock()
	}
	if err == nil && l.done == 0 && l.dead == nil && !w.ep.stop.Load() {
		err = w.silent()
	}
	return err
}

// silent returns the error of a turn in which no RPC has ended.
func (w *worker) silent() error {
	l := w.ep.load
	if l.err == nil && w.answers() {
		return fmt.Errorf("%s: no RPC ended in %v, though the server answers: on this path a request of "+
			"%s and its response of %s take longer, %d at a time: set --size or --window lower", w.addr,
			monotime.Now().Sub(l.begun).Round(100*time.Millisecond), cli.BytesText(l.Size),
			cli.BytesText(l.RespSize), l.inFlight)
	}
	if l.err == nil {
		return fmt.Errorf("%s: no RPC ended, %d are in flight: nothing runs the server's loop, "+
			"or the machine is too busy", w.addr, l.inFlight)
	}
	return fmt.Errorf("%s: no RPC ended: %w", w.addr, l.err)
}

// answers reports whether something was heard of the server in the last second of a turn in which
// no RPC has ended.
func (w *worker) answers() bool {
	for _, s := range w.ep.load.sessions {
		if silent, rto := s.Silence(); s.Connected() && rto > 0 && silent < time.Second {
			return true
		}
	}
	return false
}
