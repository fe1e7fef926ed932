package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// loops are clients in event loops: each loop has some of them, without a goroutine for each.
type loops struct{ all []*loop }

// loop is one endpoint with its event loop in a goroutine. All but the first four fields belong to
// the loop.
type loop struct {
	nexus *erpc.Nexus
	rpc   *erpc.Rpc
	stop  chan struct{}
	ended chan error

	cl      *client.Client
	clients int
	work    *work // nil between jobs
	free    *call
}

// work is a job of one loop.
type work struct {
	j     *job
	rng   *rand.Rand
	hist  *hdrhistogram.Histogram
	end   monotime.Time
	next  monotime.Time   // when the next request of an open loop is due
	late  []monotime.Time // due, and all clients have a request under way; from head on
	head  int
	fly   int // requests under way
	fill  int // keys that are left to store, from the last on; -1: none are
	err   error
	ended chan error
	timer *erpc.Timer
}

// dialLoops returns clients in event loops.
func dialLoops(_ context.Context, members map[uint64]string, endpoints, clients int) (
	crowd, error,
) {
	c := &loops{}
	for i := range endpoints {
		n := clients / endpoints
		if i < clients%endpoints {
			n++
		}
		l, err := newLoop(members, n)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.all = append(c.all, l)
	}
	return c, nil
}

func newLoop(members map[uint64]string, clients int) (l *loop, err error) {
	l = &loop{stop: make(chan struct{}), ended: make(chan error, 1), clients: clients}
	if l.nexus, err = erpc.NewNexus(erpc.Config{NoHugepages: true, Slots: clientSlots}); err != nil {
		return nil, err
	}
	var tr transport.Transport
	if tr, err = udp.Listen("127.0.0.1:0", udp.Config{}); err == nil {
		l.rpc, err = l.nexus.NewRpc(tr)
	}
	if err != nil {
		return nil, errors.Join(err, l.nexus.Close())
	}
	if l.cl, err = client.New(l.rpc, clientConfig(members)); err != nil {
		return nil, errors.Join(err, l.rpc.Close(), l.nexus.Close())
	}
	go func() { l.ended <- l.run() }()
	return l, nil
}

// run is the loop's goroutine.
func (l *loop) run() error {
	err := l.rpc.Run(func() bool {
		if l.pass() {
			l.rpc.Wake()
		}
		select {
		case <-l.stop:
			return true
		default:
			return false
		}
	})
	l.cl.Close()
	return errors.Join(err, l.rpc.Close(), l.nexus.Close())
}

// pass does what is due. It reports whether there may be packets to send.
func (l *loop) pass() (sent bool) {
	sent = l.cl.Poll()
	w := l.work
	if w == nil || w.j.rate == 0 {
		return sent
	}
	now := monotime.Now()
	for w.next <= now && w.next < w.end && w.err == nil {
		w.late = append(w.late, w.next)
		w.next = w.next.Add(loadgen.Gap(w.rng, w.j.rate))
		if sent = true; len(w.late)-w.head > mostDue {
			w.err = fmt.Errorf("%d %w", mostDue, errBehind)
		}
	}
	l.begin()
	if w.next < w.end { // in each pass: the timer may have run a little early
		w.err = errors.Join(w.err, w.timer.Reset(w.next.Sub(now)))
	}
	l.over()
	return sent
}

// begin begins what is due while a client is free.
func (l *loop) begin() {
	w := l.work
	for w.head < len(w.late) && w.fly < l.clients && w.err == nil {
		at := w.late[w.head]
		w.head++
		l.do(at, w.rng.IntN(len(w.j.names)))
	}
	if w.head >= len(w.late)/2 { // each entry is moved once at most, on average
		w.late = append(w.late[:0], w.late[w.head:]...)
		w.head = 0
	}
}

// again begins what a client does next when its last request has ended.
func (l *loop) again() {
	w := l.work
	switch {
	case w.err != nil:
	case w.fill >= 0:
		if w.fill > 0 {
			w.fill--
			l.do(monotime.Now(), w.fill)
		}
	case w.j.rate > 0:
		l.begin()
	default:
		if now := monotime.Now(); now < w.end {
			l.do(now, w.rng.IntN(len(w.j.names)))
		}
	}
}

// zeros is the value that is written.
var zeros [kv.MaxValue]byte

// do does one request.
func (l *loop) do(due monotime.Time, key int) {
	w := l.work
	w.fly++
	cmd := kv.Command{Op: kv.Get}
	cmd.Key, _ = kv.MakeKey(w.j.names[key])
	if w.j.write {
		cmd.Op = kv.Put
		cmd.Value, _ = kv.MakeValue(zeros[:])
	}
	c := l.free
	if c == nil {
		c = &call{l: l}
		c.done = c.onDone
	} else {
		l.free = c.next
	}
	c.due = due
	l.cl.Do(cmd, monotime.Now().Add(10*time.Second), c.done)
}

// call is a request under way.
type call struct {
	l    *loop
	due  monotime.Time
	done func(client.Result) // onDone, which would allocate each time
	next *call               // that is free
}

func (c *call) onDone(r client.Result) {
	l, w, due := c.l, c.l.work, c.due
	c.next, l.free = l.free, c
	w.fly--
	err := r.Err
	if err == nil {
		err = r.Answer.Status.Err()
	}
	if err == nil {
		err = w.hist.RecordValue(int64(monotime.Now().Sub(due)))
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	l.again()
	l.over()
}

// over ends the job when there is nothing left to do.
func (l *loop) over() {
	w := l.work
	if w == nil || w.fly > 0 || w.err == nil && (w.fill > 0 || w.head < len(w.late) ||
		w.j.rate > 0 && w.next < w.end) {
		return
	}
	l.work = nil
	w.ended <- errors.Join(w.err, w.timer.Stop())
}

// start begins a job in the loop. Its end comes in w.ended.
func (l *loop) start(w *work) error {
	return l.rpc.Post(func(r *erpc.Rpc) {
		l.work = w
		w.timer, w.err = r.AfterFunc(0, func() {})
		for range l.clients {
			if w.j.rate == 0 {
				l.again()
			}
		}
		l.over()
	})
}

// job does a job in all loops. fill is how many keys to store, -1: none.
func (c *loops) job(ctx context.Context, j job, fill int) (d done, err error) {
	began := monotime.Now()
	j.rate /= float64(len(c.all))
	var list []*work
	for i, l := range c.all {
		w := &work{j: &j, rng: rand.New(rand.NewPCG(uint64(i), 7)), hist: newHist(),
			end: began.Add(j.each), next: began, fill: -1, ended: make(chan error, 1)}
		if fill >= 0 && i == 0 {
			w.fill = fill
		} else if fill >= 0 {
			continue
		}
		if err := l.start(w); err != nil {
			return d, err
		}
		list = append(list, w)
	}
	for _, w := range list {
		select {
		case e := <-w.ended:
			err = errors.Join(err, e)
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
	d = done{list[0].hist, monotime.Now().Sub(began)}
	for _, w := range list[1:] {
		d.hist.Merge(w.hist)
	}
	return d, err
}

func (c *loops) run(ctx context.Context, j *job) (done, error) { return c.job(ctx, *j, -1) }

func (c *loops) fill(ctx context.Context, names []string) error {
	_, err := c.job(ctx, job{write: true, names: names}, len(names))
	return err
}

func (c *loops) close() (err error) {
	for _, l := range c.all {
		close(l.stop)
		l.rpc.Wake()
		err = errors.Join(err, <-l.ended)
	}
	return err
}
