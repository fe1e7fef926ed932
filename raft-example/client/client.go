package client

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// The errors of the client; the others are those of package kv.
var (
	ErrDeadline = errors.New("client: deadline exceeded")
	ErrClosed   = errors.New("client: closed")
	ErrConfig   = errors.New("client: bad config")
	ErrNoServer = errors.New("client: no address of a server is known yet")
	// ErrSessions comes with ErrDeadline: a write waited for one of Config.Sessions until then.
	ErrSessions = errors.New("client: all sessions have writes under way")
	// ErrUnknown means that a write may have been applied, once, or not at all.
	ErrUnknown = errors.New("client: outcome unknown: the write may have been applied")
)

// Config configures a Client.
type Config struct {
	Cluster uint64
	// Servers are addresses of replicas, to begin with and to return to; the cluster tells
	// the others. Empty if Resolver finds them.
	Servers []string
	// Resolver finds replicas when none that is known answers. Default: none.
	Resolver Resolver
	// Refresh is how often the members are asked for. Default 10 s.
	Refresh time.Duration
	// Members is called in the Rpc's thread with the addresses of all members, when they are first
	// known and when they have changed: for a program that wants to know them when it starts again.
	Members func(addrs []string)
	// Anywhere sends reads to all members in turn, not to the leader alone. They are linearizable
	// all the same: a follower asks the leader up to where its log must be applied.
	Anywhere bool
	// Attempt is how long to wait for one answer before asking again. Default 250 ms.
	Attempt time.Duration
	// Sessions bounds the sessions with the store, each of which has one write under way. Further
	// writes wait. All clients of a store share kv.MaxSessions. Default 1024.
	Sessions int
	// Backoff is the pause before a request is repeated. Default 5 ms.
	Backoff time.Duration
	// Clock returns the time, which never goes backwards. Default: the system's.
	Clock func() monotime.Time
}

// Result is the end of a request: an answer if Err is nil. NotFound and Mismatch are
// answers, not errors.
type Result struct {
	Answer   kv.Answer
	Err      error
	Attempts int
}

// Client is a client in the thread of its Rpc.
type Client struct {
	cfg     Config
	rpc     *erpc.Rpc
	members members
	leader  *server // the one to ask first
	lanes   lanes
	calls   []call
	free    []uint32
	later   []uint32 // calls that wait to be repeated
	done    erpc.Continuation
	closed  bool
}

type call struct {
	cmd      kv.Command
	lane     *lane // of a write
	deadline monotime.Time
	again    monotime.Time // when to repeat, if it is in later
	server   *server
	attempts int
	last     error
	refusals int // attempts that ended so, one after the other
	done     func(Result)
	opening  bool // the lane's session comes first
	unknown  bool // an attempt of the write ended without an answer: it may be applied
}

// New makes a client on an Rpc.
func New(r *erpc.Rpc, cfg Config) (*Client, error) {
	if cfg.Attempt == 0 {
		cfg.Attempt = 250 * time.Millisecond
	}
	if cfg.Backoff == 0 {
		cfg.Backoff = 5 * time.Millisecond
	}
	if cfg.Clock == nil {
		cfg.Clock = monotime.Now
	}
	if cfg.Refresh == 0 {
		cfg.Refresh = 10 * time.Second
	}
	if cfg.Sessions == 0 {
		cfg.Sessions = kv.MaxSessions / 16
	}
	if len(cfg.Servers) == 0 && cfg.Resolver == nil || cfg.Attempt < 0 || cfg.Backoff < 0 ||
		cfg.Refresh < 0 || cfg.Sessions < 0 {
		return nil, fmt.Errorf("%w: %d servers, attempt %v, backoff %v, refresh %v, %d sessions",
			ErrConfig, len(cfg.Servers), cfg.Attempt, cfg.Backoff, cfg.Refresh, cfg.Sessions)
	}
	c := &Client{cfg: cfg, rpc: r}
	c.done, c.members.done = c.onDone, c.onMembers
	for _, addr := range cfg.Servers {
		c.server(addr)
	}
	if len(cfg.Servers) == 0 {
		c.roots(cfg.Clock())
	}
	return c, nil
}

// Do starts a request. Only Op, Absent, Key, Value and Old of cmd count. Done is called
// once, in the Rpc's thread, maybe before Do returns.
func (c *Client) Do(cmd kv.Command, deadline monotime.Time, done func(Result)) {
	if c.closed {
		done(Result{Err: ErrClosed})
		return
	}
	cmd.Session, cmd.Seq, cmd.Format = 0, 0, 0
	cmd.Anywhere = cmd.Op == kv.Get && c.cfg.Anywhere
	i := c.begin(cmd, deadline, done)
	if cmd.Op != kv.Get && cmd.Op != kv.Open {
		c.write(i)
		return
	}
	c.try(i)
}

// begin makes a call of a request.
func (c *Client) begin(cmd kv.Command, deadline monotime.Time, done func(Result)) (i uint32) {
	cmd.Cluster = c.cfg.Cluster
	if len(c.free) == 0 {
		c.free = append(c.free, uint32(len(c.calls)))
		c.calls = append(c.calls, call{})
	}
	i = c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	c.calls[i] = call{cmd: cmd, deadline: deadline, done: done}
	return i
}

// anyone returns the next of the members, for a read.
func (c *Client) anyone() *server {
	m := &c.members
	if len(m.list) == 0 {
		return nil
	}
	m.turn++
	return m.list[m.turn%len(m.list)]
}

// number gives a write its request id.
func (k *call) number() {
	if !k.opening {
		k.lane.seq++
		k.cmd.Session, k.cmd.Seq = k.lane.session, k.lane.seq
	}
}

// try sends a call to the server that leads, as far as known.
func (c *Client) try(i uint32) {
	k := &c.calls[i]
	left := k.deadline.Sub(c.cfg.Clock())
	if left <= 0 {
		c.end(i, Result{Err: k.failed(errors.Join(ErrDeadline, k.last))})
		return
	}
	k.attempts++
	if k.server = c.leader; k.cmd.Anywhere && k.attempts == 1 {
		k.server = c.anyone()
	}
	if k.server == nil {
		c.repeat(i, ErrNoServer)
		return
	}
	if err := c.send(i, min(left, c.cfg.Attempt)); err != nil {
		c.next(k)
		c.repeat(i, err)
	}
}

func (c *Client) send(i uint32, timeout time.Duration) error {
	k := &c.calls[i]
	s, err := c.session(k.server)
	if err != nil {
		return err
	}
	cmd := &k.cmd
	if k.opening {
		cmd = &kv.Command{Op: kv.Open, Cluster: c.cfg.Cluster}
	}
	req, err := c.rpc.Alloc(cmd.Size())
	if err != nil {
		return err
	}
	cmd.Append(req.Data()[:0])
	_, err = c.rpc.EnqueueRequest(s, erpc.Request{Type: node.TypeKV, Req: req, Done: c.done,
		Tag: uint64(i), Timeout: timeout})
	if err != nil {
		req.Free()
	}
	return err
}

// session returns the one with a server. After an attempt without an answer it is another one, once
// in a while: the server may have started again and say nothing to sessions that it does not know.
func (c *Client) session(s *server) (*erpc.Session, error) {
	if s.sess != nil && s.sess.Err() == nil {
		now := c.cfg.Clock()
		if !s.doubted || !s.sess.Connected() || now < s.dialed.Add(4*c.cfg.Attempt) && s.dialed != 0 {
			return s.sess, nil
		}
		c.members.left = append(c.members.left, &server{sess: s.sess})
		s.dialed = now
	}
	var err error
	s.doubted = false
	s.sess, err = c.rpc.CreateSession(s.addr)
	return s.sess, err
}

// next asks another server, if nobody has found a better one meanwhile.
func (c *Client) next(k *call) { c.after(k.server) }

// lost notes that an attempt ended without an answer.
func (k *call) lost() { k.unknown = k.unknown || k.lane != nil && !k.opening }

// failed adds to err what is known of the outcome.
func (k *call) failed(err error) error {
	if k.unknown {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}

// repeat tries a call again, after a pause.
func (c *Client) repeat(i uint32, why error) {
	k := &c.calls[i]
	if k.last == nil || !errors.Is(why, erpc.ErrDeadline) { // else an answer says more
		k.last = why
	}
	if c.closed {
		c.end(i, Result{Err: k.failed(ErrClosed)})
		return
	}
	if !errors.Is(why, erpc.ErrDenied) && !errors.Is(why, erpc.ErrInsecure) {
		k.refusals = 0
	} else if k.refusals++; k.refusals > len(c.members.list) {
		c.end(i, Result{Err: k.failed(why)}) // each server was asked, and none wants this side
		return
	}
	k.again = min(c.cfg.Clock().Add(c.cfg.Backoff), k.deadline)
	c.later = append(c.later, i)
}

// onDone takes an answer.
func (c *Client) onDone(d erpc.Completion) {
	i := uint32(d.Tag)
	k := &c.calls[i]
	d.Req.Free()
	if d.Err != nil {
		if !errors.Is(d.Err, erpc.ErrNotRun) {
			k.lost()
		}
		c.mute(k.server)
		k.server.doubted = true
		c.silent()
		c.next(k)
		c.repeat(i, d.Err)
		return
	}
	c.members.silent, k.server.mute, k.server.doubted = 0, 0, false
	a, err := kv.ParseAnswer(d.Resp.Data())
	d.Resp.Free()
	if err != nil {
		k.lost()
		c.next(k)
		c.repeat(i, err)
		return
	}
	c.answered(i, k, a)
}

func (c *Client) answered(i uint32, k *call, a kv.Answer) {
	if a.Status != kv.NotLeader {
		c.members.lost = 0
	}
	switch a.Status {
	case kv.NotLeader:
		c.stray()
		if a.Number == 0 || a.Value.Len() == 0 {
			c.next(k)
			c.repeat(i, a.Status.Err())
			return
		}
		hint := c.hinted(a.Value.String())
		if c.muted(hint) {
			c.next(k)
			c.repeat(i, a.Status.Err())
			return
		}
		was := k.server
		c.leader = hint
		if c.leader == was || k.attempts%8 == 0 { // hints that go round
			c.repeat(i, a.Status.Err())
			return
		}
		c.try(i)
	case kv.Full:
		c.crowded(i)
	case kv.Retry, kv.Busy:
		if a.Status == kv.Retry {
			k.lost()
		}
		c.repeat(i, a.Status.Err())
	case kv.OK:
		if k.opening {
			k.opening, k.lane.session = false, a.Number
			k.number()
			c.try(i)
			return
		}
		c.end(i, Result{Answer: a})
	case kv.NotFound, kv.Mismatch:
		c.end(i, Result{Answer: a})
	case kv.Expired:
		c.expired(i, k, a)
	default:
		c.end(i, Result{Answer: a, Err: k.refused(a.Status)})
	}
}

// expired takes the end of a session. A write of which no attempt can have been applied goes
// on in a new one; of another one the outcome is unknown, since with the session its answer
// was forgotten.
func (c *Client) expired(i uint32, k *call, a kv.Answer) {
	if k.unknown {
		k.lane = nil
		c.lanes.made--
		c.end(i, Result{Answer: a, Err: k.refused(a.Status)})
		return
	}
	*k.lane = lane{}
	k.opening = true
	c.repeat(i, a.Status.Err())
}

// refused is the error of a status. It is not the status's own error after an attempt
// without an answer, since that says that nothing was applied.
func (k *call) refused(s kv.Status) error {
	if k.unknown {
		return fmt.Errorf("%w: an attempt had no answer, and a later one: %v", ErrUnknown, s.Err())
	}
	return s.Err()
}

// end ends a call.
func (c *Client) end(i uint32, r Result) {
	k := &c.calls[i]
	r.Attempts = k.attempts
	done := k.done
	if k.lane != nil {
		c.lanes.free = append(c.lanes.free, k.lane)
	}
	*k = call{}
	c.free = append(c.free, i)
	done(r)
	c.give()
}

// Poll repeats what is to be repeated. Call it after each pass of the loop. It reports
// whether it sent anything.
func (c *Client) Poll() (sent bool) {
	now := c.cfg.Clock()
	c.late(now)
	sent = c.refresh(now)
	if len(c.later) == 0 {
		return sent
	}
	var due []uint32
	c.later = slices.DeleteFunc(c.later, func(i uint32) bool {
		if c.calls[i].again > now {
			return false
		}
		due = append(due, i)
		return true
	})
	for _, i := range due {
		c.try(i)
	}
	return sent || len(due) > 0
}

// NextWake returns when Poll wants to be called next.
func (c *Client) NextWake() monotime.Time {
	wake := c.members.next
	if c.members.asking != nil {
		wake = monotime.Never
	}
	if len(c.lanes.waiting) > 0 {
		wake = min(wake, c.lanes.soonest)
	}
	for _, i := range c.later {
		wake = min(wake, c.calls[i].again)
	}
	return wake
}

// Pending returns the number of calls under way.
func (c *Client) Pending() int { return len(c.calls) - len(c.free) }

// Close ends all calls with ErrClosed, those that the Rpc has under way when it ends them.
func (c *Client) Close() {
	c.closed = true
	later := append(c.later, c.lanes.waiting...)
	c.later, c.lanes.waiting = nil, nil
	for _, i := range later {
		c.end(i, Result{Err: c.calls[i].failed(ErrClosed)})
	}
}
