package simlab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cc"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// IncastConfig describes incasts on the paper's CX4 cluster (section 6.5): clients
// on Degree nodes, one thread and one session each, keep one large request to the
// same server outstanding.
type IncastConfig struct {
	Degrees   []int
	CC        []bool           // with congestion control, without, or both
	Algorithm erpc.CCAlgorithm // the one that is on
	Size      int              // bytes of a large message
	Credits   int              // per session; 0: the library's default
	// Reverse turns the messages round: the victim asks for large responses.
	Reverse bool
	// Background adds a thread to each node but the victim's. They exchange RPCs of
	// 64 kB both ways, each with one outstanding, to others at random.
	Background bool
	Warmup     time.Duration // virtual, before anything counts
	Duration   time.Duration // virtual, that counts
	Seed       uint64
	ECN        sim.ECN       // what the switches mark; zero: REDMarks for DCQCN, else nothing
	control    *cc.Algorithm // in place of the algorithm's own controllers
}

// REDMarks is how switches mark packets for DCQCN here. The paper of DCQCN
// (SIGCOMM'15, section 5) marks from 5 KB at 1 % on 40 Gbit/s for hardware that
// spaces out every packet; an endpoint in software sends up to a session's credits
// (32 kB) at once, so that marks begin above one such burst. At 25 Gbit/s 40 KB are
// 13 us of queueing and 160 KB are 52 us.
var REDMarks = sim.ECN{Kmin: 40_000, Kmax: 160_000, Pmax: 0.2}

// marksFor returns how switches mark for an algorithm: not at all if it takes no notice.
func marksFor(a erpc.CCAlgorithm) (marks sim.ECN) {
	if a == erpc.CCDCQCN {
		marks = REDMarks
	}
	return marks
}

// backgroundSize is the load of the extra threads of an incast, bytes both ways.
const backgroundSize = 64 << 10

// Processor time of an endpoint of the CX4 cluster: a thread of the paper issues
// and serves 5 M small RPCs per second each, 20 M packets in all.
const (
	cx4RunCost    = 40 * time.Nanosecond
	cx4PacketCost = 49 * time.Nanosecond
)

// IncastRow is one incast. Times are microseconds, rates Gbit/s of message data.
type IncastRow struct {
	Degree      int      `json:"degree"`
	CC          string   `json:"cc"` // the algorithm, or "none"
	Gbps        float64  `json:"gbps"`
	P50         float64  `json:"p50_us"` // of the round trip of each packet
	P99         float64  `json:"p99_us"`
	Packets     uint64   `json:"rtt_samples"`
	Jain        float64  `json:"jain"`
	MaxQueue    int      `json:"max_queue_bytes"` // of the switch port to the victim
	Drops       uint64   `json:"switch_drops"`
	Retransmits uint64   `json:"retransmits"`
	Background  *Latency `json:"background,omitempty"`
	Paper       *Table5  `json:"paper,omitempty"`
}

// Latency is the latency of whole RPCs, microseconds.
type Latency struct {
	Rpcs uint64  `json:"rpcs"`
	P50  float64 `json:"p50_us"`
	P99  float64 `json:"p99_us"`
}

// IncastPair compares the runs of one degree with and without congestion control.
type IncastPair struct {
	Degree int         `json:"degree"`
	P50    float64     `json:"p50_ratio"` // without / with
	P99    float64     `json:"p99_ratio"`
	Share  float64     `json:"share_of_bandwidth"` // with / without: 1 is all that can be had
	Paper  *IncastPair `json:"paper,omitempty"`
}

// IncastResult is the result of Incast.
type IncastResult struct {
	Sim         string          `json:"sim"`
	Algorithm   string          `json:"algorithm"`
	Seed        uint64          `json:"seed"`
	Size        int             `json:"size"`
	Credits     int             `json:"credits"`
	Reverse     bool            `json:"reverse,omitempty"`
	Warmup      float64         `json:"warmup_s"`
	Duration    float64         `json:"duration_s"`
	Rows        []IncastRow     `json:"rows"`
	Pairs       []IncastPair    `json:"pairs,omitempty"`
	Fairness    *FairnessResult `json:"fairness,omitempty"` // the caller's to add
	Interrupted bool            `json:"interrupted,omitempty"`
}

// Incast runs every degree with every setting of congestion control.
func Incast(ctx context.Context, c IncastConfig, progress Progress) (IncastResult, error) {
	res := IncastResult{Sim: "incast", Algorithm: c.Algorithm.String(), Seed: c.Seed,
		Size: c.Size, Credits: c.Credits,
		Reverse: c.Reverse, Warmup: c.Warmup.Seconds(), Duration: c.Duration.Seconds()}
	for _, degree := range c.Degrees {
		for _, on := range c.CC {
			row, err := c.one(ctx, degree, on, progress)
			if err != nil {
				res.pair()
				res.Interrupted, err = interrupted(ctx, err)
				return res, err
			}
			res.Rows = append(res.Rows, row)
		}
	}
	res.pair()
	return res, nil
}

// interrupted turns the end of the context into success: the result says it.
func interrupted(ctx context.Context, err error) (bool, error) {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return true, nil
	}
	return false, err
}

// pair finds the rows that belong together.
func (r *IncastResult) pair() {
	for i := range r.Rows {
		for j := range r.Rows {
			on, off := &r.Rows[i], &r.Rows[j]
			if on.CC == "none" || off.CC != "none" || on.Degree != off.Degree {
				continue
			}
			p := IncastPair{on.Degree, ratio(off.P50, on.P50), ratio(off.P99, on.P99),
				ratio(on.Gbps, off.Gbps), nil}
			if a, b := on.Paper, off.Paper; a != nil && b != nil {
				p.Paper = &IncastPair{on.Degree, ratio(b.P50, a.P50), ratio(b.P99, a.P99),
					ratio(a.Gbps, b.Gbps), nil}
			}
			r.Pairs = append(r.Pairs, p)
		}
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// incast is one incast under way.
type incast struct {
	*lab
	cfg     *IncastConfig
	victim  *thread
	clients []*thread // on the other nodes; with Reverse they serve
	flows   []*flow
	others  []*thread // of the background load
	latency erpc.Histogram
	counts  bool // the warm-up is over
}

// one runs one incast.
func (c *IncastConfig) one(ctx context.Context, degree int, on bool,
	progress Progress) (IncastRow, error) {
	algorithm := erpc.CCNone
	if on {
		algorithm = c.Algorithm
	}
	row := IncastRow{Degree: degree, CC: algorithm.String()}
	if !c.Reverse && !c.Background {
		row.Paper = paperIncast(degree, on)
	}
	x, err := c.build(ctx, degree, algorithm, progress)
	if x != nil {
		defer x.close()
	}
	if err == nil {
		err = x.beginAll()
	}
	if err == nil {
		err = x.measure(&row)
	}
	return row, err
}

// build makes the cluster and prepares the load.
func (c *IncastConfig) build(ctx context.Context, degree int, algorithm erpc.CCAlgorithm,
	progress Progress) (*incast, error) {
	l, err := cx4(ctx, c, algorithm, progress)
	if err != nil {
		return nil, err
	}
	x := &incast{lab: l, cfg: c}
	l.what = fmt.Sprintf("incast of %d, cc %s", degree, algorithm.String())
	if err = x.populate(degree); err != nil {
		return x, err
	}
	if err = l.connect(); err != nil {
		return x, err
	}
	return x, x.prepare()
}

// cx4 makes the paper's cluster without nodes.
func cx4(ctx context.Context, c *IncastConfig, algorithm erpc.CCAlgorithm,
	progress Progress) (*lab, error) {
	net := sim.CX4(c.Seed)
	if net.ECN = c.ECN; net.ECN == (sim.ECN{}) {
		net.ECN = marksFor(algorithm)
	}
	return newLab(ctx, net, erpc.Config{
		Credits: c.Credits, MaxMessage: max(c.Size, backgroundSize),
		Congestion: c.congestion(algorithm),
	}, progress)
}

// congestion returns the endpoints' congestion control.
func (c *IncastConfig) congestion(algorithm erpc.CCAlgorithm) erpc.Congestion {
	if c.control != nil {
		return erpc.Congestion{Algorithm: erpc.CCCustom, Custom: *c.control}
	}
	return erpc.Congestion{Algorithm: algorithm}
}

// cx4Thread starts a thread of the paper's cluster.
func (l *lab) cx4Thread(node int) (*thread, error) {
	return l.start(sim.EndpointConfig{Node: node, RunCost: cx4RunCost, PacketCost: cx4PacketCost})
}

// populate starts the threads: the victim on node 0, the others on the nodes after it.
func (x *incast) populate(degree int) (err error) {
	if x.victim, err = x.cx4Thread(0); err != nil {
		return err
	}
	for node := 1; node <= degree; node++ {
		t, err := x.cx4Thread(node)
		if err != nil {
			return err
		}
		x.clients = append(x.clients, t)
		if x.cfg.Reverse {
			x.victim.dial(t)
		} else {
			t.dial(x.victim)
		}
		if x.cfg.Background {
			if t, err = x.cx4Thread(node); err != nil {
				return err
			}
			x.others = append(x.others, t)
		}
	}
	for i := range x.others {
		for j := 1; j < len(x.others); j++ {
			x.others[i].dial(x.others[(i+j)%len(x.others)])
		}
	}
	return nil
}

// prepare makes the flows of large messages.
func (x *incast) prepare() error {
	for i, t := range x.clients {
		from, at, request, response := t, 0, x.cfg.Size, smallMessage
		if x.cfg.Reverse {
			from, at, request, response = x.victim, i, smallMessage, x.cfg.Size
		}
		f, err := from.newFlow(from.servers[at], request, response)
		if err != nil {
			return err
		}
		x.flows = append(x.flows, f)
	}
	return nil
}

// smallMessage is the size in bytes of what answers or asks for a large message.
const smallMessage = 32

// beginAll starts all flows at once, and the background load.
func (x *incast) beginAll() error {
	for _, f := range x.flows {
		f.begin()
	}
	for _, t := range x.others {
		if len(t.servers) == 0 {
			continue
		}
		f, err := t.newFlow(t.anyServer(), backgroundSize, backgroundSize)
		if err != nil {
			return err
		}
		f.onDone = x.answered
		f.begin()
	}
	return x.err
}

// anyServer returns one of the thread's sessions at random.
func (t *thread) anyServer() *erpc.Session {
	return t.servers[t.lab.net.Rand().IntN(len(t.servers))]
}

// answered takes the latency of a background RPC.
func (x *incast) answered(f *flow, took time.Duration) {
	if x.counts {
		x.latency.Add(int64(took))
	}
	f.session = f.thread.anyServer()
}

// measure fills in row.
func (x *incast) measure(row *IncastRow) error {
	c := x.cfg
	part := float64(c.Warmup) / float64(c.Warmup+c.Duration)
	if err := x.run(c.Warmup, 0, part); err != nil {
		return err
	}
	x.counts = true
	x.net.ResetMaxDepth()
	victim, clients := x.victim.mark(), marks(x.clients)
	drops, begin := dropsAt(x.net), x.net.Now()
	if err := x.run(c.Duration, part, 1); err != nil {
		return err
	}
	row.Gbps = gbps(x.victim.received(&victim, !c.Reverse), x.net.Now().Sub(begin))
	row.Drops = dropsAt(x.net) - drops
	port, err := x.net.HostPort(0)
	if err != nil {
		return err
	}
	row.MaxQueue = port.MaxDepth
	x.account(row, &victim, clients)
	return nil
}

// account sums up what the threads have counted since the marks.
func (x *incast) account(row *IncastRow, victim *mark, clients []mark) {
	v := x.victim.mark()
	row.Retransmits = v.rpc.Protocol.Retransmits - victim.rpc.Protocol.Retransmits
	rtt := v.rpc.RTT.Since(&victim.rpc.RTT) // with Reverse; else empty
	shares := make([]float64, len(x.clients))
	for i, t := range x.clients {
		now, then := t.mark(), &clients[i]
		row.Retransmits += now.rpc.Protocol.Retransmits - then.rpc.Protocol.Retransmits
		d := now.rpc.RTT.Since(&then.rpc.RTT)
		rtt.Merge(&d)
		// The receiver answers each data packet with one packet.
		shares[i] = float64(now.tr.RxPackets - then.tr.RxPackets)
	}
	row.Jain = jain(shares)
	row.Packets = rtt.Count
	row.P50, row.P99 = us(rtt.Quantile(.5)), us(rtt.Quantile(.99))
	if x.cfg.Background {
		row.Background = &Latency{Rpcs: x.latency.Count, P50: us(x.latency.Quantile(.5)),
			P99: us(x.latency.Quantile(.99))}
	}
}
