package simlab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// ScaleConfig describes the session scalability experiment (section 6.3, figure 5):
// every thread of every node has a client session to every other thread of the
// cluster, issues small RPCs over sessions taken at random, and serves those of the
// others.
type ScaleConfig struct {
	Nodes     int
	Peers     int   // threads that each one has client sessions to; 0: all others
	Spines    int   // racks of RackNodes below so many switches; 0: the paper's five racks
	Threads   []int // per node, one row each
	Algorithm erpc.CCAlgorithm
	Size      int // bytes of a request and of a response
	Batch     int // RPCs issued together
	Window    int // RPCs in flight per thread
	Warmup    time.Duration
	Duration  time.Duration
	Seed      uint64
}

// ScaleRow is one number of threads per node.
type ScaleRow struct {
	Threads     int        `json:"threads"`
	Sessions    int        `json:"sessions_per_node"` // client and server
	Rpcs        uint64     `json:"rpcs"`
	Mrps        float64    `json:"mrps_per_node"` // issued, and as many served
	Gbps        float64    `json:"gbps_per_node"` // sent, on the wire
	P50         float64    `json:"p50_us"`
	P99         float64    `json:"p99_us"`
	P999        float64    `json:"p999_us"`
	P9999       float64    `json:"p9999_us"`
	Retransmits float64    `json:"retransmits_per_node_s"`
	Drops       uint64     `json:"switch_drops"`
	Setup       float64    `json:"setup_s"` // virtual time to open all sessions
	Events      float64    `json:"events_per_rpc"`
	Paper       *Section63 `json:"paper,omitempty"`
	// Heap and Buffers are the bytes of Go's heap and of message buffers in use, with
	// all of the simulation, per end of a session. They are this machine's, so not
	// part of the JSON, which is the same for the same seed.
	Heap    float64 `json:"-"`
	Buffers float64 `json:"-"`
}

// ScaleResult is the result of Scale.
type ScaleResult struct {
	Sim         string     `json:"sim"`
	Seed        uint64     `json:"seed"`
	Nodes       int        `json:"nodes"`
	Peers       int        `json:"peers,omitempty"`
	Spines      int        `json:"spines,omitempty"`
	Algorithm   string     `json:"algorithm"`
	Size        int        `json:"size"`
	Batch       int        `json:"batch"`
	Window      int        `json:"window"`
	Warmup      float64    `json:"warmup_s"`
	Duration    float64    `json:"duration_s"`
	Rows        []ScaleRow `json:"rows"`
	Interrupted bool       `json:"interrupted,omitempty"`
}

// Scale runs the cluster with every number of threads.
func Scale(ctx context.Context, c ScaleConfig, progress Progress) (ScaleResult, error) {
	res := ScaleResult{Sim: "scale", Seed: c.Seed, Nodes: c.Nodes, Peers: c.Peers, Spines: c.Spines,
		Algorithm: c.Algorithm.String(), Size: c.Size, Batch: c.Batch,
		Window: c.Window, Warmup: c.Warmup.Seconds(), Duration: c.Duration.Seconds()}
	for _, threads := range c.Threads {
		row, err := c.one(ctx, threads, progress)
		if err != nil {
			res.Interrupted, err = interrupted(ctx, err)
			return res, err
		}
		res.Rows = append(res.Rows, row)
	}
	return res, nil
}

// one runs the cluster with so many threads per node.
func (c *ScaleConfig) one(ctx context.Context, threads int, progress Progress) (row ScaleRow,
	err error) {
	before := heapInUse()
	net := sim.CX4(c.Seed)
	net.RackOf, net.ECN = c.rackOf, marksFor(c.Algorithm)
	if c.Spines > 0 {
		net.Racks, net.Spines, net.Uplinks = (c.Nodes+RackNodes-1)/RackNodes, true, c.Spines
	}
	l, err := newLab(ctx, net, erpc.Config{
		Slots: c.slots(threads), MaxQueue: max(64, c.Window), Burst: 32, MaxBackground: 1,
		MaxMessage:  4096,
		NoBundles:   true, // the paper has none, and what a packet costs is its measure
		MaxSessions: 2 * threads * c.Nodes, Timing: patient,
		Congestion: erpc.Congestion{Algorithm: c.Algorithm},
	}, progress)
	if err != nil {
		return row, err
	}
	defer func() { l.close() }()
	l.what = fmt.Sprintf("%d nodes of %d threads", c.Nodes, threads)
	if err = c.populate(l, threads); err != nil {
		return row, err
	}
	begin := l.net.Now()
	if err = l.connect(); err != nil {
		return row, err
	}
	row = ScaleRow{Threads: threads, Sessions: 2 * threads * c.peers(threads),
		Setup: float64(l.net.Now().Sub(begin)) / 1e9}
	if c.Peers == 0 && c.Spines == 0 {
		row.Paper = paperScale(c.Nodes, threads)
	}
	if err = c.measure(l, &row); err != nil {
		return row, err
	}
	sessions := float64(row.Sessions * c.Nodes)
	row.Heap = float64(heapInUse()-before) / sessions
	for _, t := range l.threads {
		row.Buffers += float64(t.rpc.Stats().Memory) / sessions
	}
	return row, nil
}

// slots returns the requests in flight that a session of this cluster takes: the
// library's default of 8, or 4 to save memory where sessions are many, and more where
// they are so few that the window would not fit.
func (c *ScaleConfig) slots(threads int) int {
	sessions := c.peers(threads)
	slots := session.DefaultSlots
	if sessions > 300 {
		slots /= 2
	}
	for slots < session.MaxSlots && slots*sessions < 4*c.Window {
		slots *= 2
	}
	return slots
}

// peers returns how many client sessions a thread has.
func (c *ScaleConfig) peers(threads int) int {
	if c.Peers > 0 {
		return c.Peers
	}
	return threads*c.Nodes - 1
}

// RackNodes is how many nodes a rack of a fabric with spines has: eight spines of 100 Gbit/s carry
// four fifths of their 25 Gbit/s each.
const RackNodes = 40

// racks is how many of 100 nodes are in the racks up to each one. The paper's
// racks had 14 to 27 nodes, so that the larger ones were oversubscribed.
var racks = [...]int{14, 32, 52, 73, 100}

// rackOf returns the rack of a node.
func (c *ScaleConfig) rackOf(node int) int {
	if c.Spines > 0 {
		return node / RackNodes
	}
	for r, end := range racks {
		if node*100 < end*c.Nodes {
			return r
		}
	}
	return len(racks) - 1
}

// patient spares the idle sessions of a short run their heartbeats.
var patient = erpc.Timing{Heartbeat: 10 * time.Second, FailureTimeout: 30 * time.Second,
	ConnectTimeout: 10 * time.Second}

// populate starts the threads and lists their sessions: thread i begins with those
// to the threads after it, so that no thread is asked by all at a time.
func (c *ScaleConfig) populate(l *lab, threads int) error {
	for i := range threads * c.Nodes {
		if _, err := l.cx4Thread(i % c.Nodes); err != nil {
			return err
		}
	}
	n := len(l.threads)
	for i, t := range l.threads {
		peers := c.peers(threads)
		t.backlog = make([]*thread, 0, peers)
		t.servers = make([]*erpc.Session, 0, peers)
		for j := range peers { // all others, or some all over the fabric
			t.dial(l.threads[(i+1+j*(n-1)/peers)%n])
		}
	}
	return nil
}

// issuer keeps a thread's window of small RPCs in flight, in batches.
type issuer struct {
	lab    *lab
	thread *thread
	cfg    *ScaleConfig
	ops    []issued
	idle   []uint32 // ops to start
	random *rand.Rand
	total  *scaleTotal
	finish erpc.Continuation
}

// scaleTotal is shared by the threads.
type scaleTotal struct {
	latency erpc.Histogram
	counts  bool // the time that counts
	over    bool // nothing new is issued
}

type issued struct {
	req, resp *erpc.MsgBuffer
	at        sim.Time
}

// newIssuer prepares the load of thread i.
func (c *ScaleConfig) newIssuer(t *thread, i int, total *scaleTotal) (*issuer, error) {
	x := &issuer{lab: t.lab, thread: t, cfg: c, random: rand.New(rand.NewPCG(c.Seed, uint64(i))),
		total: total}
	x.finish = x.ended
	for k := range c.Window {
		f, err := t.newFlow(nil, c.Size, c.Size)
		if err != nil {
			return nil, err
		}
		x.ops = append(x.ops, issued{req: f.req, resp: f.resp})
		x.idle = append(x.idle, uint32(k))
	}
	return x, nil
}

// issue starts all that is idle, each on a session taken at random.
func (x *issuer) issue() {
	now := x.lab.net.Now()
	for _, i := range x.idle {
		o := &x.ops[i]
		o.at = now
		s := x.thread.servers[x.random.IntN(len(x.thread.servers))]
		_, err := x.thread.rpc.EnqueueRequest(s,
			erpc.Request{Type: typeReply, Req: o.req, Resp: o.resp, Done: x.finish, Tag: uint64(i)})
		x.lab.fail(err)
	}
	x.idle = x.idle[:0]
}

func (x *issuer) ended(e erpc.Completion) {
	if x.lab.err != nil || e.Err != nil {
		x.lab.fail(e.Err)
		e.Req.Free()
		e.Resp.Free()
		return
	}
	if x.total.counts {
		x.total.latency.Add(int64(x.lab.net.Now().Sub(x.ops[e.Tag].at)))
	}
	x.idle = append(x.idle, uint32(e.Tag))
	if !x.total.over && len(x.idle) >= x.cfg.Batch {
		x.issue()
	}
}

// measure runs the load.
func (c *ScaleConfig) measure(l *lab, row *ScaleRow) error {
	var total scaleTotal
	for i, t := range l.threads {
		x, err := c.newIssuer(t, i, &total)
		if err != nil {
			return err
		}
		x.issue()
		t.ep.Wake()
	}
	part := float64(c.Warmup) / float64(c.Warmup+c.Duration)
	if err := l.run(c.Warmup, 0, part); err != nil {
		return err
	}
	total.counts = true
	drops, wire, begin, events := dropsAt(l.net), c.wireBytes(l), l.net.Now(), l.net.Stats().Events
	if err := l.run(c.Duration, part, 1); err != nil {
		return err
	}
	took := l.net.Now().Sub(begin)
	perNode := 1 / float64(c.Nodes)
	h := &total.latency
	row.Rpcs = h.Count
	row.Events = float64(l.net.Stats().Events-events) / float64(max(1, h.Count))
	row.Mrps = float64(h.Count) * perNode / float64(took) * 1e3
	row.Gbps = gbps(c.wireBytes(l)-wire, took) * perNode
	row.P50, row.P99, row.P999, row.P9999 = us(h.Quantile(.5)), us(h.Quantile(.99)),
		us(h.Quantile(.999)), us(h.Quantile(.9999))
	row.Drops = dropsAt(l.net) - drops

	// The threads' counters are up to a millisecond old. With nothing new to do that
	// millisecond passes quickly.
	total.counts, total.over = false, true
	if err := l.run(settle, 1, 1); err != nil {
		return err
	}
	row.Retransmits = float64(l.retransmits()) * perNode / (c.Warmup + c.Duration).Seconds()
	return nil
}

// settle is longer than the age of an Rpc's published counters.
const settle = 2 * time.Millisecond

// retransmits returns the packets that all threads sent again.
func (l *lab) retransmits() (n uint64) {
	for _, t := range l.threads {
		n += t.rpc.Stats().Protocol.Retransmits
	}
	return n
}

// wireBytes returns what all nodes have sent.
func (c *ScaleConfig) wireBytes(l *lab) (bytes float64) {
	for node := range c.Nodes {
		if s, err := l.net.NIC(node); err == nil {
			bytes += float64(s.Bytes)
		}
	}
	return bytes
}

// heapInUse returns the bytes of live heap, at the price of a collection.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
