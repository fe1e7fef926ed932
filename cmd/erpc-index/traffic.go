package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/index/client"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/loadgen"
)

// sumKeys is how many keys a scan of the workload adds, as in the paper.
const sumKeys = 128

// drive is the client side of a measurement: one event loop with several clients, a session each.
type drive struct {
	ctx     context.Context
	end     *loadgen.Endpoint
	rpc     *erpc.Rpc
	keys    *keyset
	clients []*client.Loop
	slots   []slot
	r       *rand.Rand
	scans   float64 // share of scans
	until   monotime.Time
	err     error
	t       tally
	fill    bool // PUT all keys
	next    uint64
	onGet   client.Done
	onSum   client.Done
	onPut   client.Done
}

// slot is an operation under way.
type slot struct {
	client int
	key    uint64 // its number
	start  monotime.Time
	again  bool // a closed loop: the next one follows
}

// tally holds the counts of a measurement.
type tally struct {
	gets, sums uint64
	wrong      uint64 // answers that are not those of the key
	get, sum   erpc.Histogram
	arrivals   loadgen.Arrivals // of an open loop
	began, end monotime.Time
}

// connect opens n clients to the servers.
func (f *clientFlags) connect(e *cli.Env, n int, keys *keyset) (d *drive, err error) {
	list, err := f.list()
	if err != nil {
		return nil, err
	}
	tr, err := f.listen("")
	if err != nil {
		return nil, err
	}
	end, err := loadgen.Open(tr, f.config())
	if err != nil {
		return nil, err
	}
	d = &drive{ctx: e.Ctx, end: end, rpc: end.Rpc, keys: keys}
	d.onGet, d.onSum, d.onPut = d.gotValue, d.gotSum, d.stored
	for range n {
		var ranges client.Ranges[*erpc.Session]
		for _, s := range list {
			sess, err := end.Dial(s.addr)
			if err != nil {
				return nil, errors.Join(err, d.close())
			}
			ranges = append(ranges, client.Range[*erpc.Session]{From: s.from, Server: sess})
		}
		c, err := client.NewLoop(d.rpc, ranges)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		d.clients = append(d.clients, c)
	}
	if err := end.Wait(e.Ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *drive) close() error { return d.end.Close() }

// issue starts the next operation in a slot; start is when it was due.
func (d *drive) issue(i uint64, start monotime.Time) {
	s := &d.slots[i]
	s.start = start
	var key [8]byte
	var err error
	c := d.clients[s.client]
	switch {
	case d.fill:
		s.key = d.next
		d.next++
		d.keys.put(&key, s.key)
		err = c.Put(key[:], s.key+1, i, d.onPut)
	default:
		s.key = d.r.Uint64N(d.keys.n)
		d.keys.put(&key, s.key)
		if d.scans > 0 && d.r.Float64() < d.scans {
			err = c.SumAfter(key[:], sumKeys, i, d.onSum)
		} else {
			err = c.Get(key[:], i, d.onGet)
		}
	}
	if err != nil && d.err == nil {
		d.err = err
	}
}

// ended records the end of an operation and starts the next one.
func (d *drive) ended(r *client.Result, h *erpc.Histogram) {
	s := &d.slots[r.Tag]
	now := monotime.Now()
	if h != nil {
		h.Add(int64(now.Sub(s.start)))
	}
	if r.Err != nil && d.err == nil {
		d.err = r.Err
	}
	switch {
	case !s.again:
		d.t.arrivals.Ended(r.Tag)
	case d.err == nil && now < d.until && (!d.fill || d.next < d.keys.n):
		d.issue(r.Tag, now)
	}
}

func (d *drive) gotValue(r client.Result) {
	d.t.gets++
	if r.Err == nil && (!r.Found || r.Value != d.slots[r.Tag].key+1) {
		d.t.wrong++
	}
	d.ended(&r, &d.t.get)
}

func (d *drive) gotSum(r client.Result) {
	d.t.sums++
	sum, n := d.keys.sum(d.slots[r.Tag].key, sumKeys)
	if r.Err == nil && (r.Value != sum || r.Count != uint64(n)) {
		d.t.wrong++
	}
	d.ended(&r, &d.t.sum)
}

func (d *drive) stored(r client.Result) { d.ended(&r, nil) }

// pending returns how many operations are under way.
func (d *drive) pending() (n int) {
	for _, c := range d.clients {
		n += c.Pending()
	}
	return n
}

// over reports whether a run has ended.
func (d *drive) over() bool {
	return d.err != nil || d.ctx.Err() != nil || d.pending() == 0
}

// load puts all keys, with so many under way, and reports its progress.
func (d *drive) load(depth int, progress func(stored uint64)) error {
	d.fill, d.next, d.until = true, 0, monotime.Never
	told := uint64(0)
	return d.closed(depth, func() {
		if d.next-told >= d.keys.n/10 {
			told = d.next
			progress(told)
		}
	})
}

// closed keeps depth operations under way until the time is over.
func (d *drive) closed(depth int, look func()) error {
	d.slots = d.slots[:0]
	d.t.began = monotime.Now()
	for i := range depth {
		d.slots = append(d.slots, slot{client: i % len(d.clients), again: true})
	}
	for i := range min(uint64(depth), d.keys.n) {
		d.issue(i, d.t.began)
	}
	stop := context.AfterFunc(d.ctx, d.rpc.Wake)
	defer stop()
	err := d.rpc.Run(func() bool { look(); return d.over() })
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
				d.slots = append(d.slots, slot{client: len(d.slots) % len(d.clients)})
			}
			d.issue(i, due)
		},
		Pass: func() error {
			_, err := d.rpc.RunOnce()
			return err
		}}
	if d.t.began, d.t.end, err = d.t.arrivals.Run(d.r); err != nil {
		return err
	}
	return errors.Join(d.err, d.ctx.Err())
}
