package simlab

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// PathsConfig describes the experiment of several paths between two racks, one of which is
// congested: a client in one rack keeps Window requests of Size under way to a server in the other
// one. A leaf-spine fabric has Paths spines, and a flow's ports say which it takes. On the first
// path Rivals other clients, each with a server of its own, send as much as they can.
type PathsConfig struct {
	Paths     int
	Rivals    int
	Size      int // bytes of a request; responses have 32
	Window    int // requests under way
	Algorithm erpc.CCAlgorithm
	Warmup    time.Duration
	Duration  time.Duration
	Seed      uint64
}

// PathsRow is one way to use the paths.
type PathsRow struct {
	Policy string    `json:"policy"`
	Gbps   float64   `json:"gbps"` // of message data
	P50    float64   `json:"p50_us"`
	P99    float64   `json:"p99_us"`
	Shares []float64 `json:"share_of_calls"` // by path
}

// PathsResult is the result of Paths.
type PathsResult struct {
	Sim         string     `json:"sim"`
	Seed        uint64     `json:"seed"`
	Algorithm   string     `json:"algorithm"`
	Paths       int        `json:"paths"`
	Rivals      int        `json:"rivals"`
	Size        int        `json:"size"`
	Window      int        `json:"window"`
	Warmup      float64    `json:"warmup_s"`
	Duration    float64    `json:"duration_s"`
	Rows        []PathsRow `json:"rows"`
	Interrupted bool       `json:"interrupted,omitempty"`
}

// pathPolicy says which of a client's sessions, one for each path, the next request takes.
type pathPolicy struct {
	name   string
	choose func(x *pathsRun) int
}

// pathPolicies are those that are compared. The last one is that of erpc.LeastLoaded.
var pathPolicies = []pathPolicy{
	{"one path, a free one", func(x *pathsRun) int { return len(x.busy) - 1 }},
	{"one path, the congested one", func(*pathsRun) int { return 0 }},
	{"all paths in turn", func(x *pathsRun) int { x.turn++; return x.turn % len(x.busy) }},
	{"all paths, the one with the fewest calls", func(x *pathsRun) int {
		x.turn++
		best := x.turn % len(x.busy)
		for i := range x.busy {
			if j := (x.turn + i) % len(x.busy); x.busy[j] < x.busy[best] {
				best = j
			}
		}
		return best
	}},
}

// Paths runs every policy.
func Paths(ctx context.Context, c PathsConfig, progress Progress) (PathsResult, error) {
	res := PathsResult{Sim: "paths", Seed: c.Seed, Algorithm: c.Algorithm.String(), Paths: c.Paths,
		Rivals: c.Rivals, Size: c.Size, Window: c.Window, Warmup: c.Warmup.Seconds(),
		Duration: c.Duration.Seconds()}
	for _, p := range pathPolicies {
		row, err := c.one(ctx, p, progress)
		if err != nil {
			res.Interrupted, err = interrupted(ctx, err)
			return res, err
		}
		res.Rows = append(res.Rows, row)
	}
	return res, nil
}

// pathsRun is one run under way.
type pathsRun struct {
	*lab
	cfg     *PathsConfig
	policy  pathPolicy
	paths   []*thread // the client's, by path
	busy    []int     // requests under way by path
	calls   []int     // that counted, by path
	turn    int
	latency erpc.Histogram
	counts  bool
}

// pathFlow is one request of the client after the other, each on the path that the policy says.
type pathFlow struct {
	run  *pathsRun
	path int
	at   sim.Time
}

const (
	pathsClient = 0 // nodes: rack 0 has the even ones, rack 1 the odd ones
	pathsServer = 1
)

func (c *PathsConfig) one(ctx context.Context, p pathPolicy, progress Progress) (row PathsRow,
	err error) {
	row.Policy = p.name
	net := sim.CX4(c.Seed)
	net.Racks, net.Uplinks, net.Spines, net.UplinkBitsPerSec = 2, c.Paths, true, net.LinkBitsPerSec
	net.ECN = marksFor(c.Algorithm)
	l, err := newLab(ctx, net, erpc.Config{MaxMessage: c.Size, Timing: patient,
		Congestion: erpc.Congestion{Algorithm: c.Algorithm}}, progress)
	if err != nil {
		return row, err
	}
	defer func() { l.close() }()
	l.what = p.name
	x := &pathsRun{lab: l, cfg: c, policy: p, busy: make([]int, c.Paths), calls: make([]int, c.Paths)}
	clients, err := x.populate()
	if err == nil {
		err = l.connect()
	}
	if err == nil {
		err = x.begin(clients)
	}
	if err == nil {
		err = l.run(c.Warmup, 0, .3)
	}
	if err != nil {
		return row, err
	}
	x.counts = true
	begin := l.net.Now()
	if err = l.run(c.Duration, .3, 1); err != nil {
		return row, err
	}
	took := l.net.Now().Sub(begin)
	all := 0
	for _, n := range x.calls {
		all += n
	}
	for _, n := range x.calls {
		row.Shares = append(row.Shares, float64(n)/float64(max(all, 1)))
	}
	row.Gbps = gbps(float64(all*c.Size), took)
	row.P50, row.P99 = us(x.latency.Quantile(.5)), us(x.latency.Quantile(.99))
	return row, nil
}

// populate starts the threads: the client has one for each path, whose port leads there, as a
// program has that opens sockets until it knows the paths apart.
func (x *pathsRun) populate() (clients []*thread, err error) {
	c := x.cfg
	server, err := x.cx4Thread(pathsServer)
	if err != nil {
		return nil, err
	}
	for path := range c.Paths {
		t, err := x.threadOn(pathsClient, server, path)
		if err != nil {
			return nil, err
		}
		t.dial(server)
		clients = append(clients, t)
	}
	for i := range c.Rivals {
		to, err := x.cx4Thread(pathsServer + 2*(i+1))
		if err != nil {
			return nil, err
		}
		t, err := x.threadOn(pathsClient+2*(i+1), to, 0)
		if err != nil {
			return nil, err
		}
		t.dial(to)
		clients = append(clients, t)
	}
	return clients, nil
}

// threadOn starts a thread whose packets to a server take a path.
func (x *pathsRun) threadOn(node int, to *thread, path int) (*thread, error) {
	for port := sim.FirstPort; port < sim.FirstPort+1000; port++ {
		ep, err := x.net.NewEndpoint(sim.EndpointConfig{Node: node, Port: port, RunCost: cx4RunCost,
			PacketCost: cx4PacketCost})
		if err != nil {
			continue // it has another path
		}
		if ep.UplinkTo(to.ep.LocalAddr()) == path {
			return x.attach(ep)
		}
		ep.Crash()
	}
	return nil, fmt.Errorf("simulation: no port leads to path %d", path)
}

// begin starts the load.
func (x *pathsRun) begin(clients []*thread) error {
	x.paths = clients[:x.cfg.Paths]
	for range x.cfg.Window {
		f := &pathFlow{run: x}
		f.issue()
	}
	for _, t := range clients[x.cfg.Paths:] {
		for range 2 {
			f, err := t.newFlow(t.servers[0], x.cfg.Size, 32)
			if err != nil {
				return err
			}
			f.begin()
		}
	}
	return x.stopped()
}

// issue starts the next request.
func (f *pathFlow) issue() {
	x := f.run
	f.path, f.at = x.policy.choose(x), x.net.Now()
	x.busy[f.path]++
	t := x.paths[f.path]
	req, err := t.rpc.Alloc(x.cfg.Size)
	if err != nil {
		x.fail(err)
		return
	}
	binary.LittleEndian.PutUint32(req.Data(), 32)
	resp, err := t.rpc.Alloc(32)
	if err != nil {
		x.fail(err)
		return
	}
	_, err = t.rpc.EnqueueRequest(t.servers[0],
		erpc.Request{Type: typeReply, Req: req, Resp: resp, Done: f.ended})
	x.fail(err)
	t.ep.Wake()
}

func (f *pathFlow) ended(c erpc.Completion) {
	x := f.run
	c.Req.Free()
	c.Resp.Free()
	if x.err != nil || c.Err != nil {
		x.fail(c.Err)
		return
	}
	x.busy[f.path]--
	if x.counts {
		x.latency.Add(int64(x.net.Now().Sub(f.at)))
		x.calls[f.path]++
	}
	f.issue()
}
