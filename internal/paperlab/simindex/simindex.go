package simindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/erpc/simhost"
	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/index/message"
	"github.com/userspace-rpc/erpc/index/server"
	"github.com/userspace-rpc/erpc/transport/sim"
)

// Model holds the processor times of the server and the way to it.
type Model struct {
	Name string
	// Run is the time of a pass of an event loop, Packet that of each packet in it.
	Run, Packet time.Duration
	// Get is the time of a lookup, Batched that of one of several that come together.
	Get, Batched time.Duration
	// Scan is the time of a sum of 128, HandOver the loop's own time when a worker does it.
	Scan, HandOver time.Duration
	// Spread is the part of lookups and sums that is random, exponentially distributed, 0 to 1:
	// their times depend on what is in the caches.
	Spread float64
	// Way is the time from a machine to its switch, or back.
	Way time.Duration
}

// Paper is a model that gives the paper's figures: a lookup as fast as Masstree's (1.5 M/s per
// thread), packets so that 14 threads make 14.3 M/s, the way so that a GET at low load
// takes 2.7 us.
// The time of a sum is fitted to the two percentiles.
var Paper = Model{Name: "the paper's", Run: 50, Packet: 140, Get: 670, Batched: 670,
	Scan: 11 * time.Microsecond, HandOver: 100, Spread: 0.7, Way: 390}

// Here has the lookups and sums of this index as labs/performance.md has them, with 1 M keys. The
// rest is assumed.
var Here = Model{Name: "measured here", Run: 50, Packet: 120, Get: 390, Batched: 190,
	Scan: 1500, HandOver: time.Microsecond, Spread: 0.7, Way: 390}

// Config describes a run.
type Config struct {
	Model        Model
	Seed         uint64
	Keys         int
	Loops        int // dispatch threads
	Workers      int // for scans; 0: they run in the loops
	Clients      int
	Outstanding  int
	Scans        float64 // part of the requests
	Warmup, Time time.Duration
}

// Result has the rates and times that the clients saw.
type Result struct {
	GETs      uint64
	Rate      float64 // of GETs, per second
	Get, Scan erpc.Histogram
	Busy      float64 // part of the workers' time
}

// ErrConfig is matched by errors about a Config.
var ErrConfig = errors.New("simindex: bad configuration")

// machines are those of the clients.
const machines = 8

type run struct {
	Config
	net     *sim.Network
	m       *index.Map
	counts  bool
	over    bool
	result  Result
	err     error
	server  *simhost.Process
	loops   []*simhost.Loop
	workers *sim.Workers
	users   []*simhost.Process
}

// check returns an error that names the first bad field.
func (c *Config) check() error {
	for _, f := range []struct {
		name   string
		v, min int
	}{{"Keys", c.Keys, 1}, {"Loops", c.Loops, 1}, {"Workers", c.Workers, 0},
		{"Clients", c.Clients, 1}, {"Outstanding", c.Outstanding, 1}} {
		if f.v < f.min {
			return fmt.Errorf("%w: %s is %d, must be at least %d", ErrConfig, f.name, f.v, f.min)
		}
	}
	switch {
	case !(c.Scans >= 0 && c.Scans <= 1):
		return fmt.Errorf("%w: Scans is %v, must be 0 to 1", ErrConfig, c.Scans)
	case c.Warmup <= 0:
		return fmt.Errorf("%w: Warmup is %v, must be positive", ErrConfig, c.Warmup)
	case c.Time <= 0:
		return fmt.Errorf("%w: Time is %v, must be positive", ErrConfig, c.Time)
	}
	return nil
}

// Run runs the experiment. Errors about c match ErrConfig.
func Run(c Config) (*Result, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	net, err := sim.New(sim.Config{Seed: c.Seed, PropDelay: c.Model.Way})
	if err != nil {
		return nil, err
	}
	r := &run{Config: c, net: net, m: index.NewMap()}
	for i := range uint64(c.Keys) {
		if _, _, err := r.m.Put(key(i), i+1); err != nil {
			return nil, err
		}
	}
	defer r.close()
	if err := errors.Join(r.serve(), r.load()); err != nil {
		return nil, err
	}
	net.RunUntil(net.Now().Add(c.Warmup))
	r.counts = true
	busy := r.busy()
	net.RunUntil(net.Now().Add(c.Time))
	r.counts, r.over = false, true
	r.result.Rate = float64(r.result.GETs) / c.Time.Seconds()
	if c.Workers > 0 {
		r.result.Busy = float64(r.busy()-busy) / float64(c.Time) / float64(c.Workers)
	}
	return &r.result, errors.Join(r.err, r.server.Err())
}

// key spreads numbers over all keys of 8 bytes.
func key(i uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, i*0x9E3779B97F4A7C15)
}

func (r *run) busy() time.Duration {
	if r.workers == nil {
		return 0
	}
	s, _ := r.workers.Stats()
	return s.Busy
}

// cost is a simhost.Config.Cost.
func (r *run) cost(w simhost.Work) (sum time.Duration) {
	each := r.Model.Batched
	switch {
	case w.Type == message.Sum:
		each = r.Model.Scan
	case len(w.Requests) == 1:
		each = r.Model.Get
	}
	for range w.Requests {
		d := float64(each) * (1 - r.Model.Spread + r.Model.Spread*r.net.Rand().ExpFloat64())
		sum += time.Duration(d)
	}
	return sum
}

var polls = sim.Waiting{SpinFor: sim.SpinForever}

// serve starts the server, on as many cores as it has threads.
func (r *run) serve() error {
	p, err := r.net.NewProcessor(sim.ProcessorConfig{Cores: r.Loops + r.Workers})
	if err == nil && r.Workers > 0 {
		r.workers, err = p.NewWorkers(r.Workers, 0, polls)
	}
	if err != nil {
		return err
	}
	r.server, err = simhost.New(simhost.Config{Net: r.net, Workers: r.workers, Cost: r.cost,
		HandOver: r.Model.HandOver, Erpc: erpc.Config{NoHugepages: true, NoBundles: true}})
	if err == nil {
		err = server.New(r.m, server.Config{ScanInLoop: r.Workers == 0}).Register(r.server)
	}
	for range r.Loops {
		var l *simhost.Loop
		if err == nil {
			l, err = r.server.Loop(sim.EndpointConfig{Node: 0, Processor: p, Wait: polls,
				RunCost: r.Model.Run, PacketCost: r.Model.Packet})
		}
		r.loops = append(r.loops, l)
	}
	return err
}

// load starts the clients, each on a core of its own.
func (r *run) load() error {
	u, err := simhost.New(simhost.Config{Net: r.net,
		Erpc: erpc.Config{NoHugepages: true, NoBundles: true}})
	if err != nil {
		return err
	}
	r.users = append(r.users, u)
	for i := range r.Clients {
		p, err := r.net.NewProcessor(sim.ProcessorConfig{Cores: 1})
		if err != nil {
			return err
		}
		l, err := u.Loop(sim.EndpointConfig{Node: 1 + i%machines, Processor: p, Wait: polls,
			RunCost: r.Model.Run, PacketCost: r.Model.Packet})
		if err != nil {
			return err
		}
		l.Do(func() { r.begin(l, r.loops[i%r.Loops]) })
	}
	return nil
}

// begin opens a client's session, and starts its requests.
func (r *run) begin(l, to *simhost.Loop) {
	s, err := l.Rpc().CreateSessionTo(to.Endpoint().LocalAddr())
	if err != nil {
		r.fail(err)
		return
	}
	loop, err := client.NewLoop(l.Rpc(), client.One(s))
	if err != nil {
		r.fail(err)
		return
	}
	for range r.Outstanding {
		r.next(loop)
	}
}

func (r *run) fail(err error) {
	if r.err == nil && !r.over {
		r.err = err
	}
}

// next makes a request, and one after it.
func (r *run) next(l *client.Loop) {
	if r.over {
		return
	}
	began, i := r.net.Now(), r.net.Rand().Uint64N(uint64(r.Keys))
	var err error
	if r.net.Rand().Float64() < r.Scans {
		err = l.SumAfter(key(i), 128, 0, func(a client.Result) {
			r.ended(l, a, &r.result.Scan, began)
		})
	} else {
		err = l.Get(key(i), i+1, func(a client.Result) {
			if a.Err == nil && (!a.Found || a.Value != a.Tag) {
				r.fail(fmt.Errorf("simindex: a GET found %d (%v), want %d", a.Value, a.Found, a.Tag))
			}
			if r.counts {
				r.result.GETs++
			}
			r.ended(l, a, &r.result.Get, began)
		})
	}
	if err != nil {
		r.fail(err)
	}
}

func (r *run) ended(l *client.Loop, a client.Result, h *erpc.Histogram, began sim.Time) {
	if a.Err != nil {
		r.fail(a.Err)
		return
	}
	if r.counts {
		h.Add(int64(r.net.Now().Sub(began)))
	}
	r.next(l)
}

func (r *run) close() {
	r.over = true
	for _, u := range r.users {
		u.Crash()
	}
	if r.server != nil {
		r.server.Crash()
	}
}
