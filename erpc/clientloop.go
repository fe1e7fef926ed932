package erpc

import (
	"container/heap"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// Loop is an event loop that Clients share: one transport, one Rpc and one goroutine, however many
// Clients. Dial makes such Loops by itself, and ends them. A program makes one, or one per core, to
// decide which Clients share it, and how long it lives.
//
// The Loop owns its transport. It has the configuration of all its Clients, and their counters. A
// Client owns its sessions, its queue of calls and its times; MaxQueue bounds each Client, and
// MaxSessions all of them together. A Client whose name resolves slowly, whose server is dead, or
// that is closed does not keep the others waiting. They share the loop's time: OnSession
// must not block. An idle Client costs a ping and its answer in 1.5 s, see Timing.
//
// While one goroutine calls, again as soon as it has its answer, it runs the loop itself. Between
// its calls, what servers say by themselves, such as that they drain, is heard 10 ms later at most.
//
// A Loop takes no sessions, as with Config.DialOnly: a server reaches the Client that called it
// through the sessions of that Client alone, and others are refused. A server that sends garbage or
// floods the port costs the Loop what it costs any Rpc.
type Loop struct {
	rpc    *Rpc
	nexus  *Nexus
	done   chan struct{} // the loop has ended
	closed atomic.Bool
	err    error // why the loop ended; read after done
	copies copies
	lead   lead

	// In the loop only.
	clients []*Client
	alarms  alarmHeap
	over    bool // the loop is ending
}

// NewLoop makes a Loop on tr, which it owns from now on, also when it fails. Close ends it. Errors:
// a *ConfigError, ErrTransportInUse as of Nexus.NewRpc, or ErrExhausted.
func NewLoop(tr transport.Transport, cfg Config) (*Loop, error) {
	c, err := take(tr)
	if err != nil {
		return nil, err
	}
	return newLoop(c, cfg)
}

// newLoop is NewLoop with a transport that the caller has taken.
func newLoop(own *claim, cfg Config) (*Loop, error) {
	l := &Loop{done: make(chan struct{})}
	cfg.DialOnly = true // nobody can register handlers
	user := cfg.OnSession
	cfg.OnSession = func(r *Rpc, s *Session, ev SessionEvent) {
		if s.ofClient != nil {
			s.ofClient.client.onSession(s, ev)
		}
		if user != nil {
			user(r, s, ev)
		}
	}
	var err error
	if l.nexus, err = NewNexus(cfg); err != nil {
		return nil, errors.Join(err, own.close())
	}
	if l.rpc, err = l.nexus.rpcOn(own); err != nil {
		return nil, errors.Join(err, l.nexus.Close())
	}
	l.rpc.snapshots.waiting = l.waiting
	l.rpc.handout.begin()
	l.rpc.back = make(chan struct{}, 1)
	l.lead.timer = time.NewTimer(time.Hour)
	go l.run()
	return l, nil
}

// Dial makes a Client of the server at addr (text that the Loop's transport resolves) and waits
// until its session is open. The Client's Close leaves the Loop as it is. Errors: ErrClosed, or a
// *DialError with all addresses and ErrResolve with the cause that the transport gave, ErrRefused,
// ErrConnect, or the context's as in Client.Call. If ctx ends while the transport's Resolve is at
// work, a goroutine stays until that returns.
func (l *Loop) Dial(ctx context.Context, addr string) (*Client, error) {
	to, err := resolve(ctx, l.rpc.tr, addr)
	if err != nil {
		if l.closed.Load() {
			return nil, ErrClosed
		}
		return nil, dialError(addr, l.rpc.tr, to, err)
	}
	return l.dial(ctx, addr, to)
}

// dial is Dial with the addresses that addr was resolved to.
func (l *Loop) dial(ctx context.Context, addr string, to []transport.Addr) (*Client, error) {
	c, err := l.add(addr, to)
	if err != nil {
		return nil, err
	}
	if err := c.Ready(ctx); err != nil {
		return nil, errors.Join(dialError(addr, l.rpc.tr, to, err), c.Close())
	}
	return c, nil
}

// add makes a Client without a session.
func (l *Loop) add(addr string, to []transport.Addr) (*Client, error) {
	c := l.newClient(addr)
	c.addrs = to
	return c, l.rpc.Post(func(*Rpc) { l.join(c) })
}

// newClient makes a Client that is not in the loop.
func (l *Loop) newClient(addr string) *Client {
	c := &Client{loop: l, rpc: l.rpc, text: addr, done: make(chan struct{}), at: -1}
	c.alarm.fn = c.onAlarm
	return c
}

// join takes a Client into the loop. It reports false if one of them has ended.
func (l *Loop) join(c *Client) bool {
	if l.over || c.over {
		c.over = true
		close(c.done)
		return false
	}
	c.at = len(l.clients)
	l.clients = append(l.clients, c)
	return true
}

// run runs the event loop until Close.
func (l *Loop) run() {
	defer close(l.done)
	l.rpc.takeOver()
	defer l.rpc.unbind(0)
	defer l.release()
	for !l.closed.Load() {
		work, err := l.rpc.RunOnce()
		if err == nil {
			err = l.pause(work)
		}
		if err != nil {
			l.err = err
			break
		}
	}
	l.over = true
	l.closed.Store(true)
	for _, c := range l.clients {
		c.over = true
		c.tell(ErrClosed)
		if c.member != nil {
			c.member.update()
		}
	}
	l.copies.end()
	l.err = errors.Join(l.err, l.rpc.Close(), l.nexus.Close())
	l.rpc.handout.wake(false)
	for _, c := range l.clients {
		close(c.done)
	}
}

// pause waits after a pass, or until callers have run the loop for a while.
func (l *Loop) pause(work int) error {
	left, err := l.leave()
	if errors.Is(err, errLoopExit) {
		runtime.Goexit() // as if the callback had run here
	}
	if left || err != nil {
		return err
	}
	return l.rpc.pause(work, -1)
}

// release lets go who waits for the loop alone, also if a callback has ended its goroutine.
func (l *Loop) release() {
	l.rpc.handout.end()
	for !l.rpc.fresh.empty() {
		l.rpc.fresh.epoch()
	}
}

// Close ends all Clients, and then the loop and its transport. Calls under way end with ErrClosed.
// It does not wait for lookups of names, which cannot be ended: their goroutines end when the
// transport's Resolve returns. It must not be called in the loop, by OnSession.
func (l *Loop) Close() error {
	if !l.closed.Swap(true) {
		l.rpc.Wake()
	}
	<-l.done
	return l.err
}

// Stats returns the counters of the Loop's Rpc, which are those of all its Clients together.
func (l *Loop) Stats() Stats { return l.rpc.Stats() }

// Post runs fn in the loop, in its next pass. It is safe in any goroutine; fn is a callback, as of
// Rpc.Post. The error is ErrClosed.
func (l *Loop) Post(fn func(*Rpc)) error { return l.rpc.Post(fn) }

// Ended reports whether the loop has ended, by Close or because its transport failed.
func (l *Loop) Ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// waiting returns how many calls wait for a session or a slot.
func (l *Loop) waiting() (n int) {
	for _, c := range l.clients {
		n += c.queue.n + c.large.n
	}
	return n
}

// finish ends all that a Client has, when it alone is closed.
func (c *Client) finish() {
	if c.over {
		return
	}
	c.over = true
	if c.at < 0 {
		return // join follows
	}
	c.alarms = clientAlarms{}
	c.redial.awaiting = false
	c.arm()
	c.tell(ErrClosed)
	for _, list := range [][]*clientSession{slices.Clone(c.all), slices.Clone(c.retired)} {
		for _, l := range list {
			c.detach(l)
			c.rpc.drop(l.s)
		}
	}
	c.rpc.settle() // its calls end
	if c.shared != nil {
		c.rpc.drain() // the server is told before Close returns: the process may end then
	}
	if c.member != nil {
		c.member.update()
	}
	l := c.loop
	last := len(l.clients) - 1
	l.clients[c.at] = l.clients[last]
	l.clients[c.at].at = c.at
	l.clients[last] = nil
	l.clients = l.clients[:last]
	c.rpc.published.publish(c.rpc) // what Stats says after Close
	close(c.done)
}

// loopAlarm is a call that is due in a Loop at some time. A Loop has many, and its Rpc one.
type loopAlarm struct {
	at    monotime.Time
	fn    func()
	place int // in the heap, from 1; 0 if it is not set
}

// set has a called at a time; monotime.Never takes that back.
func (l *Loop) set(a *loopAlarm, at monotime.Time) {
	switch {
	case at == monotime.Never && a.place == 0:
		return
	case at == monotime.Never:
		heap.Remove(&l.alarms, a.place-1)
	case a.place == 0:
		a.at = at
		heap.Push(&l.alarms, a)
	default:
		a.at = at
		heap.Fix(&l.alarms, a.place-1)
	}
	l.arm()
}

// arm has the Rpc call onAlarm when the first alarm is due.
func (l *Loop) arm() {
	if len(l.alarms) == 0 {
		l.rpc.setAlarm(0, nil)
		return
	}
	l.rpc.setAlarm(l.alarms[0].at, l.onAlarm)
}

// onAlarm calls what is due.
func (l *Loop) onAlarm() {
	now := l.rpc.readClock()
	for n := len(l.alarms); n > 0 && len(l.alarms) > 0 && l.alarms[0].at <= now; n-- {
		a := heap.Pop(&l.alarms).(*loopAlarm)
		a.fn()
	}
	l.arm()
}

// alarmHeap holds alarms, the first one in front.
type alarmHeap []*loopAlarm

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *alarmHeap) Push(x any) {
	a := x.(*loopAlarm)
	*h = append(*h, a)
	a.place = len(*h)
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.place = 0
	return a
}
