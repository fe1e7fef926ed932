package simlab

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// WorkloadConfig describes an open loop: each node of a cluster sends requests to others at
// random, at random times (Poisson) that do not wait for answers, with sizes of one of Homa's
// workloads. An answer is as large as its request, as in the measurements of Homa.
type WorkloadConfig struct {
	Workload   string // a name of Workloads
	Algorithms []erpc.CCAlgorithm
	Load       float64       // part of each link that the packets of echoes take on average
	Nodes      int           // at one switch, at least 2
	Credits    int           // per session; 0: the library's default
	Warmup     time.Duration // virtual, before anything counts
	Duration   time.Duration // virtual, in which the echoes begin that count
	Seed       uint64
}

// Workloads has the names of the workloads.
var Workloads = []string{"W2", "W3", "W4", "W5"}

// Slowdown is how much longer echoes take than on an idle network.
type Slowdown struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// SizeRow is the slowdown of the echoes of some sizes, bytes.
type SizeRow struct {
	Least  int     `json:"least"`
	Most   int     `json:"most"`
	Share  float64 `json:"share"` // of all messages of the workload
	Echoes int     `json:"echoes"`
	Slowdown
	Homa *Slowdown `json:"homa,omitempty"`
}

// WorkloadRow is the run of one congestion control.
type WorkloadRow struct {
	CC     string `json:"cc"`
	Echoes int    `json:"echoes"` // that count
	// Unfinished are those without an answer at the end, Duration after the last began. They count
	// with the time until then.
	Unfinished  int       `json:"unfinished"`
	Busy        float64   `json:"busy"`            // part of the links that was used
	MaxQueue    int       `json:"max_queue_bytes"` // of the switch ports
	Drops       uint64    `json:"switch_drops"`
	Retransmits uint64    `json:"retransmits"`
	Sizes       []SizeRow `json:"sizes"`
}

// WorkloadResult is the result of Workload.
type WorkloadResult struct {
	Sim         string        `json:"sim"`
	Workload    string        `json:"workload"`
	Load        float64       `json:"load"`
	Nodes       int           `json:"nodes"`
	Seed        uint64        `json:"seed"`
	Warmup      float64       `json:"warmup_s"`
	Duration    float64       `json:"duration_s"`
	Rows        []WorkloadRow `json:"rows"`
	Interrupted bool          `json:"interrupted,omitempty"`
}

// homaLinkBits is the rate of the links of Homa's clusters, bits per second.
const homaLinkBits = 10e9

// Workload runs every algorithm.
func Workload(ctx context.Context, c WorkloadConfig, progress Progress) (WorkloadResult, error) {
	res := WorkloadResult{Sim: "workload", Workload: c.Workload, Load: c.Load, Nodes: c.Nodes,
		Seed: c.Seed, Warmup: c.Warmup.Seconds(), Duration: c.Duration.Seconds()}
	idle, err := c.idle(ctx, progress)
	for _, a := range c.Algorithms {
		var row WorkloadRow
		if err == nil {
			row, err = c.one(ctx, a, idle, progress)
		}
		if err != nil {
			res.Interrupted, err = interrupted(ctx, err)
			break
		}
		res.Rows = append(res.Rows, row)
	}
	return res, err
}

// workload is a run under way.
type workload struct {
	*lab
	cfg   *WorkloadConfig
	sizes []sizeShare
	every time.Duration // mean time between two requests of a node
	begun []*echo       // those that count
	until sim.Time      // when the last of them begins
	from  sim.Time      // when the first does
}

// echo is one request and its answer.
type echo struct {
	size  int // index in sizes
	begun sim.Time
	took  time.Duration // 0 while it is under way
}

// build makes a cluster.
func (c *WorkloadConfig) build(ctx context.Context, a erpc.CCAlgorithm, nodes int,
	progress Progress) (*workload, error) {
	net, sizes := sim.CX4(c.Seed), homaWorkloads[c.Workload]
	net.MTU, net.LinkBitsPerSec, net.Racks, net.ECN = sim.DefaultMTU, homaLinkBits, 1, marksFor(a)
	l, err := newLab(ctx, net, erpc.Config{Credits: c.Credits, MaxMessage: sizes[len(sizes)-1].size,
		Congestion: erpc.Congestion{Algorithm: a}}, progress)
	if err != nil {
		return nil, err
	}
	w := &workload{lab: l, cfg: c, sizes: sizes}
	for node := range nodes {
		if _, err = l.cx4Thread(node); err != nil {
			return w, err
		}
	}
	for i, t := range l.threads {
		for j := 1; j < nodes; j++ {
			t.dial(l.threads[(i+j)%nodes])
		}
	}
	return w, l.connect()
}

// ask sends a request of a size.
func (w *workload) ask(t *thread, s *erpc.Session, e *echo) {
	size := max(w.sizes[e.size].size, minRequest)
	req, err := t.rpc.Alloc(size)
	if err != nil {
		w.fail(err)
		return
	}
	resp, err := t.rpc.Alloc(size)
	if err != nil {
		req.Free()
		w.fail(err)
		return
	}
	binary.LittleEndian.PutUint32(req.Data(), uint32(size))
	_, err = t.rpc.EnqueueRequest(s, erpc.Request{Type: typeReply, Req: req, Resp: resp,
		Done: func(c erpc.Completion) {
			e.took = w.net.Now().Sub(e.begun)
			req.Free()
			resp.Free()
			w.fail(c.Err)
		}})
	w.fail(err)
	t.ep.Wake()
}

// idleEcho is an echo on an idle network.
type idleEcho struct {
	took time.Duration
	wire uint64 // bytes that it puts on the links
}

// idle measures an echo of each size between two nodes: the best of some.
func (c *WorkloadConfig) idle(ctx context.Context, progress Progress) ([]idleEcho, error) {
	w, err := c.build(ctx, erpc.CCNone, 2, progress)
	if w != nil {
		defer w.close()
	}
	if err != nil {
		return nil, err
	}
	w.what = fmt.Sprintf("%s on an idle network", c.Workload)
	all := make([]idleEcho, len(w.sizes))
	for i := range all {
		for range 4 {
			e, before := &echo{size: i, begun: w.net.Now()}, w.wire()
			w.ask(w.threads[0], w.threads[0].servers[0], e)
			for done := float64(i) / float64(len(all)); e.took == 0; {
				if err := w.run(100*time.Microsecond, done, done); err != nil {
					return nil, err
				}
			}
			if b := &all[i]; b.took == 0 || e.took < b.took {
				*b = idleEcho{e.took, w.wire() - before}
			}
		}
	}
	return all, nil
}

// wire returns the bytes that went to all nodes by now.
func (w *workload) wire() (n uint64) {
	for i := range w.threads {
		port, err := w.net.HostPort(i)
		w.fail(err)
		n += port.Bytes
	}
	return n
}

// one runs one algorithm.
func (c *WorkloadConfig) one(ctx context.Context, a erpc.CCAlgorithm, idle []idleEcho,
	progress Progress) (WorkloadRow, error) {
	row := WorkloadRow{CC: a.String()}
	w, err := c.build(ctx, a, c.Nodes, progress)
	if w != nil {
		defer w.close()
	}
	if err != nil {
		return row, err
	}
	w.what = fmt.Sprintf("%s, cc %s", c.Workload, row.CC)
	mean, shares := 0.0, 0.0
	for i, s := range w.sizes {
		mean, shares = mean+s.share*float64(idle[i].wire), shares+s.share
	}
	w.every = time.Duration(mean / shares * 8 / (c.Load * homaLinkBits) * 1e9)
	w.from = w.net.Now().Add(c.Warmup)
	w.until = w.from.Add(c.Duration)
	for _, t := range w.threads {
		w.next(t)
	}
	return row, w.measure(&row, idle)
}

// next has a thread send a request after a random time, and so on.
func (w *workload) next(t *thread) {
	rnd := w.net.Rand()
	w.net.After(time.Duration(rnd.ExpFloat64()*float64(w.every)), func() {
		if w.err != nil {
			return
		}
		e := &echo{size: w.pick(rnd.Float64()), begun: w.net.Now()}
		if e.begun >= w.from && e.begun < w.until {
			w.begun = append(w.begun, e)
		}
		w.ask(t, t.anyServer(), e)
		w.next(t)
	})
}

// pick returns the size at which so much of all messages is smaller.
func (w *workload) pick(part float64) int {
	for i, s := range w.sizes {
		if part -= s.share; part < 0 {
			return i
		}
	}
	return len(w.sizes) - 1
}

// measure fills in row.
func (w *workload) measure(row *WorkloadRow, idle []idleEcho) error {
	c := w.cfg
	whole := float64(c.Warmup + 2*c.Duration)
	warm, counted := float64(c.Warmup)/whole, float64(c.Warmup+c.Duration)/whole
	if err := w.run(c.Warmup, 0, warm); err != nil {
		return err
	}
	w.net.ResetMaxDepth()
	wire, drops, again := w.wire(), dropsAt(w.net), w.retransmits()
	if err := w.run(c.Duration, warm, counted); err != nil {
		return err
	}
	row.Busy = float64(w.wire()-wire) * 8 / (homaLinkBits * c.Duration.Seconds() * float64(c.Nodes))
	row.Drops, row.Retransmits = dropsAt(w.net)-drops, w.retransmits()-again
	for i := range w.threads {
		port, err := w.net.HostPort(i)
		if err != nil {
			return err
		}
		row.MaxQueue = max(row.MaxQueue, port.MaxDepth)
	}
	const looks = 100
	for i := range looks {
		if w.unfinished() == 0 {
			break
		}
		at := counted + (1-counted)*float64(i)/looks
		if err := w.run(c.Duration/looks, at, at); err != nil {
			return err
		}
	}
	row.Echoes, row.Unfinished = len(w.begun), w.unfinished()
	row.Sizes = w.bands(idle)
	return nil
}

func (w *workload) retransmits() (n uint64) {
	for _, t := range w.threads {
		n += t.rpc.Stats().Protocol.Retransmits
	}
	return n
}

func (w *workload) unfinished() (n int) {
	for _, e := range w.begun {
		if e.took == 0 {
			n++
		}
	}
	return n
}

// bandShare is the part of all messages that the sizes of a row have at least, but for the last.
const bandShare = 0.1

// bands sorts the slowdowns into rows of sizes.
func (w *workload) bands(idle []idleEcho) (rows []SizeRow) {
	slow := make([][]float64, len(w.sizes))
	for _, e := range w.begun {
		took := e.took
		if took == 0 {
			took = w.net.Now().Sub(e.begun)
		}
		slow[e.size] = append(slow[e.size], float64(took)/float64(idle[e.size].took))
	}
	var r SizeRow
	var all []float64
	var homa Slowdown
	for i, s := range w.sizes {
		if r.Share == 0 {
			r.Least = s.size
		}
		r.Most, r.Share = s.size, r.Share+s.share
		all = append(all, slow[i]...)
		homa.P50 += s.share * s.homa50
		homa.P99 += s.share * s.homa99
		if r.Share < bandShare && i < len(w.sizes)-1 {
			continue
		}
		if r.Echoes = len(all); r.Echoes > 0 {
			slices.Sort(all)
			r.P50, r.P99 = all[len(all)/2], all[len(all)*99/100]
		}
		if homa.P50 > 0 {
			r.Homa = &Slowdown{homa.P50 / r.Share, homa.P99 / r.Share}
		}
		rows = append(rows, r)
		r, all, homa = SizeRow{}, nil, Slowdown{}
	}
	return rows
}
