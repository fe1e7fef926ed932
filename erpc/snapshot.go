package erpc

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// Snapshot is the state of one event loop at one time. It shares no memory with the loop.
type Snapshot struct {
	Addr transport.Addr // of the endpoint
	Loop int            // its number among the loops of that address, from 1; 0 if there is one
	At   time.Time      // the time of day
	// Late says that the loop did not answer in time: Stats are the last ones that it published,
	// and all that follows is missing.
	Late bool

	Stats      Stats
	Types      []TypeStats // counted since the first snapshot, by type
	Queues     Queues
	Congestion CongestionState
	Memory     MemoryUse
	Sessions   []SessionState // some of them; see SnapshotOptions
}

// Queues says what waits in an endpoint.
type Queues struct {
	Commands int // for the loop, from other goroutines
	Calls    int // calls of Clients that wait for a session or a slot
	Requests int // requests that wait for a slot of their session
	InFlight int // requests in slots
	Handlers int // requests whose handlers have not answered
	Workers  int // ... of them those in the background
	Packets  int // that a full transport has not taken yet
	Paced    int // sessions whose next packet is not due
}

// CongestionState sums up the client sessions that have requests.
type CongestionState struct {
	Active  int     // such sessions; at most MaxLook of them were looked at
	Limited int     // of them those below link rate
	Rate    float64 // of all of them together, bits per second; 0 without congestion control
	MinRate float64 // of the slowest one
}

// MemoryUse says where the memory of message buffers is, in bytes.
type MemoryUse struct {
	Reserved int64 // taken from the system for this endpoint
	Huge     int64 // ... of it in huge pages
	Used     int64 // ... of it in buffers that are in use
	Buffers  int   // that are in use
	Shared   int64 // reserved for background handlers
	Process  int64 // reserved by all endpoints that share the limit
	Limit    int64 // for those; 0 if there is none
}

// SessionState describes one session.
type SessionState struct {
	Number    uint32
	Peer      transport.Addr
	Client    bool // this side sends the requests
	Connected bool
	InFlight  int // a client's requests in slots, a server's handlers at work
	Queued    int // requests that wait for a slot

	// Of client sessions.
	Credits    int     // free
	MaxCredits int     // agreed
	Rate       float64 // that congestion control allows, bits per second
	Limited    bool    // it is less than the link's
	RTT        time.Duration
	MinRTT     time.Duration
	RTO        time.Duration
}

// SnapshotOptions say what a snapshot has beside counters.
type SnapshotOptions struct {
	// Sessions is how many sessions are described: those with requests first. At most MaxLook.
	Sessions int
}

// MaxLook bounds the sessions that one snapshot looks at, so that the loop is back within some
// tens of microseconds.
const MaxLook = 256

// snapshotRequest is a snapshot under way. Everybody who asks meanwhile gets the same.
type snapshotRequest struct {
	opts SnapshotOptions
	done chan struct{} // closed when snap is there
	snap *Snapshot     // nil if the loop has ended
}

// snapshots hands snapshots from the loop to other goroutines. One is under way at a time, so a
// loop that is stuck does not gather requests for them.
type snapshots struct {
	mu      sync.Mutex
	pending *snapshotRequest
	waiting func() int // calls that wait for a session; nil if the endpoint has no Clients
}

// Snapshot returns the state of the endpoint. It is safe in any goroutine but the loop's. The first
// call makes the loop count calls by type from then on. If the loop does not answer before ctx ends
// the snapshot has the counters that were published last, and Late is set: the loop is stuck in
// a callback, or nobody runs it. A closed endpoint gives its last counters.
func (r *Rpc) Snapshot(ctx context.Context, opts SnapshotOptions) *Snapshot {
	p := &r.snapshots
	p.mu.Lock()
	a := p.pending
	if a == nil {
		a = &snapshotRequest{opts: opts, done: make(chan struct{})}
		p.pending = a
		go func() { // Post waits while the ring is full
			if r.Post(func(r *Rpc) { r.answer(a) }) != nil {
				r.tell(a, nil)
			}
		}()
	}
	p.mu.Unlock()
	select {
	case <-a.done:
		if a.snap != nil {
			return a.snap
		}
	case <-ctx.Done():
	}
	return &Snapshot{
		Addr: r.LocalAddr(), Loop: r.number, At: monotime.Wall(), Late: !r.closed.Load(),
		Stats: r.Stats(),
	}
}

// Rpcs returns the endpoint itself; see Watched.
func (r *Rpc) Rpcs() []*Rpc { return []*Rpc{r} }

// Rpcs returns the endpoints of all loops. Of their methods only those that are safe anywhere may
// be used; see Rpc.
func (s *Server) Rpcs() (list []*Rpc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.rpcs {
		list = append(list, r.Rpc)
	}
	return list
}

// Rpcs returns the Loop's endpoint; see Server.Rpcs.
func (l *Loop) Rpcs() []*Rpc { return []*Rpc{l.rpc} }

// Rpcs returns the endpoint of the Client's loop; see Server.Rpcs.
func (c *Client) Rpcs() []*Rpc { return []*Rpc{c.rpc} }

// Watched has endpoints that can be watched: a Server, a Loop, a Client, an Rpc.
type Watched interface {
	// Rpcs returns the endpoints that there are now.
	Rpcs() []*Rpc
}

// Snapshots returns the snapshots of all endpoints of what is watched, each once. It waits for all
// of them together until ctx ends.
func Snapshots(ctx context.Context, opts SnapshotOptions, watched ...Watched) []*Snapshot {
	var rpcs []*Rpc
	for _, w := range watched {
		for _, r := range w.Rpcs() {
			if !slices.Contains(rpcs, r) {
				rpcs = append(rpcs, r)
			}
		}
	}
	snaps := make([]*Snapshot, len(rpcs))
	var wg sync.WaitGroup
	for i, r := range rpcs {
		wg.Go(func() { snaps[i] = r.Snapshot(ctx, opts) })
	}
	wg.Wait()
	return snaps
}

// answer takes the snapshot that is under way, in the loop.
func (r *Rpc) answer(a *snapshotRequest) {
	r.engine.startMeter()
	r.tell(a, r.takeSnapshot(a.opts))
}

// tell ends a snapshot under way, if it has not ended: a request that comes beside Close may be
// answered and refused.
func (r *Rpc) tell(a *snapshotRequest, snap *Snapshot) {
	p := &r.snapshots
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pending == a {
		p.pending = nil
		a.snap = snap
		close(a.done)
	}
}

// takeSnapshot takes a snapshot.
func (r *Rpc) takeSnapshot(opts SnapshotOptions) *Snapshot {
	e := &r.engine
	s := &Snapshot{
		Addr: r.LocalAddr(), Loop: r.number, At: monotime.Wall(), Stats: r.snapshot(),
		Types: e.meter.types(),
	}
	q := &s.Queues
	q.Commands, q.Handlers, q.Workers = r.commands.Len(), e.jobs.running, e.jobs.running
	q.Packets = len(e.out.Tx)
	if w := e.timers.wheel; w != nil {
		q.Paced = w.Len()
	}
	if r.snapshots.waiting != nil {
		q.Calls = r.snapshots.waiting()
	}
	s.Congestion = e.congestion(q)
	pool := e.pool.Stats()
	s.Memory = MemoryUse{
		Reserved: pool.ReservedBytes, Huge: pool.HugeBytes, Used: pool.UsedBytes,
		Buffers: pool.InUse, Process: e.quotas.book.budget.Used(),
		Limit: e.quotas.book.budget.Limit(),
	}
	if p := r.shared.Load(); p != nil {
		s.Memory.Shared = p.Stats().ReservedBytes
	}
	s.Sessions = e.sessionStates(min(opts.Sessions, MaxLook))
	return s
}

// congestion sums up the sessions that have requests, and counts those requests.
func (e *engine) congestion(q *Queues) (c CongestionState) {
	c.Active = len(e.timers.active)
	for _, s := range e.timers.active[:min(c.Active, MaxLook)] {
		in, queued := s.cl.Pending()
		q.InFlight += in
		q.Requests += queued
		rate, limited := s.Rate()
		if limited {
			c.Limited++
		}
		c.Rate += rate
		if c.MinRate == 0 || rate < c.MinRate {
			c.MinRate = rate
		}
	}
	return c
}

// sessionStates describes at most n sessions: those that have requests first, then others, by
// number.
func (e *engine) sessionStates(n int) (list []SessionState) {
	for _, s := range e.timers.active {
		if len(list) < n {
			list = append(list, s.describe())
		}
	}
	looked := 0
	for _, s := range e.table.byNumber {
		if len(list) >= n || looked >= MaxLook {
			break
		}
		if s != nil && s.activeAt == 0 {
			looked++
			list = append(list, s.describe())
		}
	}
	slices.SortStableFunc(list, func(a, b SessionState) int {
		return cmp.Compare(b.InFlight+b.Queued, a.InFlight+a.Queued)
	})
	return list
}

// describe returns the state of a session.
func (s *Session) describe() SessionState {
	d := SessionState{
		Number: s.end.Local, Peer: s.end.Peer, Client: s.IsClient(), Connected: s.Connected(),
	}
	if s.sv != nil {
		d.InFlight = s.sv.Running()
		return d
	}
	d.InFlight, d.Queued = s.cl.Pending()
	d.Credits, d.MaxCredits = s.cl.FreeCredits(), s.end.Params.Credits
	d.Rate, d.Limited = s.Rate()
	rtt := s.cl.RoundTrips()
	d.RTT, d.MinRTT, d.RTO = rtt.Smoothed, rtt.Least, rtt.Timeout
	return d
}
