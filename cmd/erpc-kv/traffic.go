package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/loadgen"
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
	arrivals                   loadgen.Arrivals // of an open loop
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

// Sessions with a partition, at most, and the requests that each has before there is a second one.
// One session with 64 requests has a fifth of the rate of eight with eight.
const (
	mostSessions = 8
	perSession   = 8
)

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
	n := min((depth+perSession-1)/perSession, mostSessions)
	for cfg.Slots = perSession; cfg.Slots*n < depth && cfg.Slots < erpc.MaxSlots; cfg.Slots *= 2 {
	}
	end, err := loadgen.Open(tr, cfg)
	if err != nil {
		return nil, err
	}
	p = &sessions{Endpoint: end}
	for range n {
		if err == nil {
			err = p.add(f.Servers, layouts)
		}
	}
	if err == nil {
		err = end.Wait(e.Ctx)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// add opens one more session with each partition.
func (p *sessions) add(names []string, layouts []message.Layout) error {
	var servers []client.Sessions
	for i, l := range layouts {
		s := client.Sessions{Name: names[i]}
		for _, addr := range l.Addrs {
			sess, err := p.Dial(addr)
			if err != nil {
				return err
			}
			s.Partitions = append(s.Partitions, sess)
		}
		servers = append(servers, s)
	}
	l, err := client.NewLoop(p.Rpc, servers...)
	if err == nil {
		p.loops = append(p.loops, l)
	}
	return err
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
		d.t.arrivals.Ended(r.Tag)
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

// open starts operations at random times, rate per second on average, until the time is over. An
// operation's latency counts from when it was due.
func (d *drive) open(rate float64) (err error) {
	d.slots = d.slots[:0]
	d.t.arrivals = loadgen.Arrivals{Rate: rate, Until: d.until, Over: d.over,
		Stopped: func() bool { return d.err != nil || d.ctx.Err() != nil },
		Issue: func(i uint64, due monotime.Time) {
			if i == uint64(len(d.slots)) {
				d.slots = append(d.slots, slot{})
			}
			d.issue(i, due)
		}, Pass: d.path.Pass}
	if d.t.began, d.t.end, err = d.t.arrivals.Run(d.r); err != nil {
		return err
	}
	return errors.Join(d.err, d.ctx.Err())
}
