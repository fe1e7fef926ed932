package erpc

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/flight"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
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
	Reserved int64 // taken from the system for this endpoint's loop
	Huge     int64 // ... of it in huge pages
	Used     int64 // ... of it in buffers that are in use
	Buffers  int   // that are in use
	Shared   int64 // ... for background handlers; Stats.Memory is both together
	HalfOpen int64 // of handshakes that clients have begun, which count as reserved for all endpoints
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
	MaxCredits int     // in use at present; see Config.Credits
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

// Rpcs returns the endpoint of the Client's loop; see Server.Rpcs. Clients of Dial may share it, so
// one collector should watch all of them, which has it once.
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
	r.startMeter()
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
		Types: r.meter.types(),
	}
	q := &s.Queues
	q.Commands, q.Handlers, q.Workers = r.commands.Len(), r.jobs.running, r.jobs.running
	q.Packets = len(e.Out.Tx)
	q.Paced = e.Paced()
	if r.snapshots.waiting != nil {
		q.Calls = r.snapshots.waiting()
	}
	s.Congestion = r.congestion(q)
	pool := r.pool.Stats()
	s.Memory = MemoryUse{
		Reserved: pool.ReservedBytes, Huge: pool.HugeBytes, Used: pool.UsedBytes,
		Buffers: pool.InUse, Process: r.nexus.memory.Budget().Used(),
		Limit: r.nexus.memory.Budget().Limit(), HalfOpen: e.HalfOpenBytes(),
	}
	if p := r.shared.Load(); p != nil {
		s.Memory.Shared = p.Stats().ReservedBytes
	}
	s.Sessions = r.sessionStates(min(opts.Sessions, MaxLook))
	return s
}

// congestion sums up the sessions that have requests, and counts those requests.
func (r *Rpc) congestion(q *Queues) (c CongestionState) {
	active := r.engine.Active()
	c.Active = len(active)
	for _, conn := range active[:min(c.Active, MaxLook)] {
		s := sessionOf(conn)
		in, queued := s.Pending()
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
func (r *Rpc) sessionStates(n int) (list []SessionState) {
	for _, c := range r.engine.Active() {
		if len(list) < n {
			list = append(list, sessionOf(c).describe())
		}
	}
	looked := 0
	for _, c := range r.engine.Conns() {
		if len(list) >= n || looked >= MaxLook {
			break
		}
		if c != nil && !c.Active() {
			looked++
			list = append(list, sessionOf(c).describe())
		}
	}
	slices.SortStableFunc(list, func(a, b SessionState) int {
		return cmp.Compare(b.InFlight+b.Queued, a.InFlight+a.Queued)
	})
	return list
}

// describe returns the state of a session.
func (s *Session) describe() SessionState {
	end := s.conn.End
	d := SessionState{
		Number: end.Local, Peer: end.Peer, Client: s.IsClient(), Connected: s.Connected(),
	}
	if server := s.conn.Server; server != nil {
		d.InFlight = server.Running()
		return d
	}
	client := s.conn.Client
	d.InFlight, d.Queued = client.Pending()
	d.Credits, d.MaxCredits = client.FreeCredits(), client.Window()
	d.Rate, d.Limited = s.Rate()
	rtt := client.RoundTrips()
	d.RTT, d.MinRTT, d.RTO = rtt.Smoothed, rtt.Least, rtt.Timeout
	return d
}

// Stats counts what an Rpc did since it was made.
type Stats struct {
	RxPackets, TxPackets uint64
	RxBundled, TxBundled uint64 // packets in bundles; each bundle counts as one above
	TxDropped            uint64 // packets that a full transport did not take
	Flushes              uint64 // TX queue flushes, each for a rare event

	RequestsSent   uint64 // by this side
	Completed      uint64 // with a response
	Failed         uint64 // with an error
	RequestsServed uint64 // given to a handler
	RequestsDenied uint64 // refused by Config.AuthorizeRequest

	SessionsOpened, SessionsEnded, SessionsRefused uint64

	SessionsMoved uint64 // to another address of their client; see Config.TLS
	KeyUpdates    uint64 // that this side has begun

	// Of those refused, because the client's address had its share; see Shares.
	SessionsOverShare uint64
	// Handshakes of clients that were given up, before they had an identity, for newer ones.
	HandshakesEvicted uint64
	WorkRefused       uint64 // background requests refused
	WorkOverShare     uint64 // ... because the client's address had its share

	// Packets dropped, by cause. More causes are in Protocol.
	DropMalformed uint64 // no valid header
	DropNoSession uint64 // no such session
	DropToken     uint64 // wrong token, checksum or sender
	DropConnects  uint64 // Connects beyond what an endpoint looks at in a second
	DropSealed    uint64 // could not be opened
	DropBundle    uint64 // bundles that the session did not agree on, or that can still be changed
	DropRole      uint64 // a client's packet at a client, or the reverse

	// Datagrams at another loop of the address than their own; see Nexus.NewRpcs.
	HandedOver   uint64 // given to their loop
	HandedIn     uint64 // taken from other loops; they are among RxPackets
	DropHandover uint64 // lost because many wait at their loop
	DropNoLoop   uint64 // their loop does not run

	// Times that the loop took slowPass or longer from one look for packets to the next, because of
	// a handler, a continuation, or the machine.
	BlindSpells uint64
	BlindTime   time.Duration

	Protocol  ProtocolStats
	Transport transport.Stats
	Sessions  int       // now
	RTT       Histogram // round trips without the server's hold, ns
	Memory    int64     // bytes reserved for message buffers, those of background handlers too
	MemoryAll int64     // the same for all Rpcs that share the limit
}

// histBuckets: 32 per power of two, up to 2^40 ns.
const (
	histBits    = 5
	histSub     = 1 << histBits
	histBuckets = (40 - histBits + 1) * histSub
)

// Histogram counts durations in buckets that are at most 3.2 % wide.
type Histogram struct {
	Count   uint64
	Sum     int64 // ns
	buckets [histBuckets]uint32
}

// Add counts one duration in ns.
func (h *Histogram) Add(ns int64) {
	h.Count++
	h.Sum += ns
	h.buckets[bucketOf(ns)]++
}

// addSame counts n durations of ns.
func (h *Histogram) addSame(ns int64, n uint64) {
	h.Count += n
	h.Sum += ns * int64(n)
	h.buckets[bucketOf(ns)] += uint32(n)
}

func bucketOf(ns int64) int {
	if ns < histSub {
		return int(max(ns, 0))
	}
	exp := bits.Len64(uint64(ns)) - 1 // at least histBits
	sub := int(ns>>(exp-histBits)) & (histSub - 1)
	return min((exp-histBits+1)*histSub+sub, histBuckets-1)
}

// floorOf is the least duration of bucket i, ns.
func floorOf(i int) int64 {
	if i < histSub {
		return int64(i)
	}
	return (histSub + int64(i%histSub)) << (i/histSub - 1)
}

// Merge adds the counts of other.
func (h *Histogram) Merge(other *Histogram) {
	h.Count += other.Count
	h.Sum += other.Sum
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
}

// Since returns what was counted after an earlier copy of the same histogram.
func (h *Histogram) Since(earlier *Histogram) Histogram {
	d := *h
	d.Count -= earlier.Count
	d.Sum -= earlier.Sum
	for i, n := range earlier.buckets {
		d.buckets[i] -= n
	}
	return d
}

// Bucket says how many durations were at least Low and less than High, ns.
type Bucket struct {
	Low, High int64
	Count     uint64
}

// Buckets yields the buckets that have samples, the shortest durations first.
func (h *Histogram) Buckets(yield func(Bucket) bool) {
	for i, n := range h.buckets {
		if n > 0 && !yield(Bucket{floorOf(i), floorOf(i + 1), uint64(n)}) {
			return
		}
	}
}

// histogramJSON is a Histogram in JSON, without its empty buckets: pairs of place and count.
type histogramJSON struct {
	Count   uint64
	Sum     int64
	Buckets [][2]uint32
}

// MarshalJSON implements json.Marshaler.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	j := histogramJSON{Count: h.Count, Sum: h.Sum, Buckets: [][2]uint32{}}
	for i, n := range h.buckets {
		if n > 0 {
			j.Buckets = append(j.Buckets, [2]uint32{uint32(i), n})
		}
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *Histogram) UnmarshalJSON(text []byte) error {
	var j histogramJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*h = Histogram{Count: j.Count, Sum: j.Sum}
	for _, b := range j.Buckets {
		if b[0] >= histBuckets {
			return fmt.Errorf("erpc: histogram: there is no bucket %d", b[0])
		}
		h.buckets[b[0]] = b[1]
	}
	return nil
}

// Quantile returns the duration that a fraction q of all samples do not exceed, to
// within the width of a bucket; 0 if there are none.
func (h *Histogram) Quantile(q float64) time.Duration {
	want := uint64(q * float64(h.Count))
	var sum uint64
	for i, n := range h.buckets {
		sum += uint64(n)
		if sum > want || sum == h.Count && n > 0 {
			return time.Duration(floorOf(i))
		}
	}
	return 0
}

// publishedStats is the copy that other goroutines read. The loop writes plain
// counters and copies them here once per epoch, a quarter of Timing.RTOMin.
type publishedStats struct {
	mu    sync.Mutex
	stats Stats
}

func (p *publishedStats) publish(r *Rpc) {
	if !p.mu.TryLock() {
		return // somebody reads; the next epoch will do
	}
	p.stats = r.snapshot()
	r.publishedAt = r.engine.Now()
	p.mu.Unlock()
}

func (r *Rpc) snapshot() Stats {
	s := r.stats
	s.addEngine(r.engine.Stats())
	s.TxBundled = r.engine.Out.Bundled
	s.Protocol = ProtocolStats(*r.engine.ProtocolStats())
	s.Transport = r.tr.Stats()
	s.Sessions = r.engine.Live()
	s.Memory = r.pool.Reserved()
	if p := r.shared.Load(); p != nil {
		s.Memory += p.Reserved()
	}
	s.MemoryAll = r.nexus.memory.Budget().Used()
	return s
}

// addEngine puts in what the engine counts.
func (s *Stats) addEngine(e *engine.Stats) {
	s.RxBundled = e.RxBundled
	s.SessionsOpened, s.SessionsEnded = e.SessionsOpened, e.SessionsEnded
	s.SessionsRefused, s.SessionsOverShare = e.SessionsRefused, e.SessionsOverShare
	s.HandshakesEvicted = e.HandshakesEvicted
	s.SessionsMoved, s.KeyUpdates = e.SessionsMoved, e.KeyUpdates
	s.DropMalformed, s.DropNoSession, s.DropToken = e.DropMalformed, e.DropNoSession, e.DropToken
	s.DropConnects, s.DropSealed, s.DropBundle = e.DropConnects, e.DropSealed, e.DropBundle
	s.DropRole, s.HandedOver = e.DropRole, e.HandedOver
	s.DropHandover, s.DropNoLoop = e.DropHandover, e.DropNoLoop
}

// Stats returns the counters, at most a quarter of Timing.RTOMin old while the loop runs.
// It is safe in any goroutine.
func (r *Rpc) Stats() Stats {
	if r.state.Load() == vacant && r.state.CompareAndSwap(vacant, awake) {
		r.takeOver()
		r.published.publish(r) // callers have run it
		r.giveBack()
	}
	r.published.mu.Lock()
	defer r.published.mu.Unlock()
	return r.published.stats
}

// recordRx keeps the datagrams of a burst.
func (r *Rpc) recordRx(pkts []transport.RxPacket) {
	for i := range pkts {
		r.recorder.Add(flight.Received, int64(r.engine.Now()), &pkts[i].From, pkts[i].Data, nil)
	}
}

// recordTx keeps datagrams that the transport has taken. Batches with answers have the time just
// before they were offered, not that of the pass: so a handler that takes long is seen. Others
// have that of the pass, which costs no look at the clock.
func (r *Rpc) recordTx(items []session.Tx) {
	for i := range items {
		t := &items[i]
		r.recorder.Add(flight.Sent, int64(r.leaving), &t.Dst, t.Head, t.Data)
	}
}

// Record makes the loop keep its last n datagrams or some more, up to a million, from its next pass
// on, for Flight. 0 ends that and gives the memory back; it is off at first. Package flight says
// what is kept. It is safe in any goroutine but the loop's. Errors: ErrClosed, or those of a
// context as in Client.Call if the loop does not answer before its end: then nothing has changed.
func (r *Rpc) Record(ctx context.Context, n int) error {
	var ring *flight.Ring
	if n > 0 {
		ring = flight.NewRing(n)
	}
	return r.blockingPost(ctx, func(r *Rpc) { r.recorder = ring })
}

// Recording returns how many datagrams the loop keeps, 0 if it does not record. Safety and errors
// are those of Record.
func (r *Rpc) Recording(ctx context.Context) (n int, err error) {
	err = r.blockingPost(ctx, func(r *Rpc) {
		if r.recorder != nil {
			n = r.recorder.Size()
		}
	})
	return n, err
}

// Flight returns what the loop recorded, nil if it does not record. The loop goes on with an
// empty recorder. Safety and errors are those of Record: a loop that is stuck keeps its record for
// the next call.
func (r *Rpc) Flight(ctx context.Context) (*flight.Dump, error) {
	n, err := r.Recording(ctx) // the next ring is made here, not in the loop
	if n == 0 || err != nil {
		return nil, err
	}
	next := flight.NewRing(n)
	var full *flight.Ring
	var shift int64
	err = r.blockingPost(ctx, func(r *Rpc) {
		if full = r.recorder; full != nil {
			r.recorder = next
		}
		shift = monotime.Wall().UnixNano() - int64(r.clock())
	})
	if full == nil || err != nil {
		return nil, err
	}
	return full.Dump(r.LocalAddr(), r.number, shift), nil
}
