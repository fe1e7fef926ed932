package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/cli"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// drive is the client side of a measurement: one event loop.
type drive struct {
	ctx    context.Context
	path   path
	keys   *keyset
	slots  []slot
	r      *rand.Rand
	zipf   *zipf
	gets   float64 // share of GETs
	until  monotime.Time
	err    error
	t      tally
	fill   bool // PUT all keys
	next   uint64
	writes uint64
	value  []byte
	onGet  message.Done
	onPut  message.Done
}

// slot is an operation under way.
type slot struct {
	key   uint64 // its number
	start monotime.Time
	again bool // a closed loop: the next one follows
}

// tally holds the counts of a measurement.
type tally struct {
	gets, puts, missing, wrong uint64
	get, put                   erpc.Histogram
	free                       []uint64 // slots of an open loop
	began, end                 monotime.Time
}

// layouts asks each server for the addresses of its partitions.
func (f *clientFlags) layouts(e *cli.Env) (list []message.Layout, err error) {
	tr, err := f.listen("")
	if err != nil {
		return nil, err
	}
	loop, err := erpc.NewLoop(tr, f.config())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, loop.Close()) }()
	for _, addr := range f.Servers {
		c, err := loop.Dial(e.Ctx, addr)
		if err != nil {
			return nil, err
		}
		resp, err := c.Call(e.Ctx, message.Info, nil)
		if err != nil {
			return nil, err
		}
		l, err := message.ParseLayout(resp)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// sessions opens sessions with all partitions of the servers, for so many requests at a time.
func (f *clientFlags) sessions(e *cli.Env, depth int) (p *sessions, err error) {
	layouts, err := f.layouts(e)
	if err != nil {
		return nil, err
	}
	tr, err := f.listen("")
	if err != nil {
		return nil, err
	}
	cfg := f.config()
	for cfg.Slots = 8; cfg.Slots < depth && cfg.Slots < erpc.MaxSlots; cfg.Slots *= 2 {
	}
	var failed error
	connected, all := 0, 0
	cfg.OnSession = func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		switch ev {
		case erpc.SessionConnected:
			connected++
		case erpc.SessionClosed:
		default:
			if failed = s.Err(); failed == nil {
				failed = erpc.ErrDraining
			}
		}
	}
	nexus, err := erpc.NewNexus(cfg)
	if err != nil {
		return nil, errors.Join(err, tr.Close())
	}
	rpc, err := nexus.NewRpc(tr)
	if err != nil {
		return nil, errors.Join(err, nexus.Close())
	}
	p = &sessions{nexus: nexus, rpc: rpc}
	var servers []client.Sessions
	for i, l := range layouts {
		s := client.Sessions{Name: f.Servers[i]}
		for _, addr := range l.Addrs {
			sess, err := rpc.CreateSession(addr)
			if err != nil {
				return nil, errors.Join(err, p.Close())
			}
			s.Partitions = append(s.Partitions, sess)
			all++
		}
		servers = append(servers, s)
	}
	p.Loop, err = client.NewLoop(rpc, servers...)
	if err == nil {
		stop := context.AfterFunc(e.Ctx, rpc.Wake)
		defer stop()
		err = rpc.Run(func() bool { return failed != nil || connected == all || e.Ctx.Err() != nil })
		err = errors.Join(err, failed, e.Ctx.Err())
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (d *drive) close() error { return d.path.Close() }

// issue starts the next operation in a slot; start is when it was due.
func (d *drive) issue(i uint64, start monotime.Time) {
	s := &d.slots[i]
	s.start = start
	var key [keySize]byte
	get := false
	if d.fill {
		s.key = d.next
		d.next++
	} else {
		s.key = d.zipf.next(d.r)
		get = d.r.Float64() < d.gets
	}
	d.keys.put(&key, s.key)
	var err error
	if get {
		err = d.path.Get(key[:], i, d.onGet)
	} else {
		d.writes++
		d.keys.fill(d.value, s.key, d.writes)
		err = d.path.Put(key[:], d.value, i, d.onPut)
	}
	if err != nil && d.err == nil {
		d.err = err
	}
}

// ended records the end of an operation and starts the next one.
func (d *drive) ended(r *message.Result, h *erpc.Histogram) {
	s := &d.slots[r.Tag]
	now := monotime.Now()
	h.Add(int64(now.Sub(s.start)))
	if r.Err != nil && r.Err != mica.ErrNotFound && d.err == nil {
		d.err = r.Err
	}
	switch {
	case !s.again:
		d.t.free = append(d.t.free, r.Tag)
	case d.err == nil && now < d.until && (!d.fill || d.next < d.keys.n):
		d.issue(r.Tag, now)
	}
}

func (d *drive) got(r message.Result) {
	d.t.gets++
	switch {
	case r.Err == mica.ErrNotFound:
		d.t.missing++
	case r.Err == nil && !d.keys.right(r.Value.Value, d.slots[r.Tag].key):
		d.t.wrong++
	}
	d.ended(&r, &d.t.get)
}

func (d *drive) stored(r message.Result) {
	d.t.puts++
	d.ended(&r, &d.t.put)
}

// over reports whether a run has ended.
func (d *drive) over() bool { return d.err != nil || d.ctx.Err() != nil || d.path.Pending() == 0 }

// load puts all keys, with so many under way, and reports its progress.
func (d *drive) load(depth int, progress func(stored uint64)) error {
	d.fill, d.next, d.until = true, 0, monotime.Never
	told := uint64(0)
	return d.closed(depth, func() {
		if d.next-told >= max(d.keys.n/5, 1) {
			told = d.next
			progress(told)
		}
	})
}

// closed keeps depth operations under way until the time is over.
func (d *drive) closed(depth int, look func()) error {
	d.slots = d.slots[:0]
	d.t.began = monotime.Now()
	for range depth {
		d.slots = append(d.slots, slot{again: true})
	}
	for i := range min(uint64(depth), d.keys.n) {
		d.issue(i, d.t.began)
	}
	stop := context.AfterFunc(d.ctx, d.path.Wake)
	defer stop()
	err := d.path.Run(func() bool { look(); return d.over() })
	d.t.end = monotime.Now()
	return errors.Join(err, d.err, d.ctx.Err())
}

// most is how many operations an open loop has under way at most: beyond that the server is lost.
const most = 1 << 16

// open starts operations at random times, rate per second on average, until the time is over. An
// operation's latency counts from when it was due.
func (d *drive) open(rate float64) error {
	d.slots, d.t.free = d.slots[:0], nil
	now := monotime.Now()
	d.t.began = now
	due := now
	for !(now >= d.until && d.over()) && d.err == nil && d.ctx.Err() == nil {
		now = monotime.Now()
		for ; due <= now && due < d.until; due = due.Add(gap(d.r, rate)) {
			if len(d.t.free) == 0 {
				if len(d.slots) == most {
					return fmt.Errorf("%d operations wait: the server does not keep up", most)
				}
				d.t.free = append(d.t.free, uint64(len(d.slots)))
				d.slots = append(d.slots, slot{})
			}
			i := d.t.free[len(d.t.free)-1]
			d.t.free = d.t.free[:len(d.t.free)-1]
			d.issue(i, due)
		}
		if err := d.path.Pass(); err != nil {
			return err
		}
	}
	d.t.end = now
	return errors.Join(d.err, d.ctx.Err())
}

// gap draws the time to the next arrival of a Poisson process.
func gap(r *rand.Rand, rate float64) time.Duration {
	return time.Duration(-math.Log(1-r.Float64()) / rate * 1e9)
}
