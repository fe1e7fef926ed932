package run

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/userspace-rpc/erpc/ycsb"
)

// Spec describes a run.
type Spec struct {
	Workload ycsb.Workload
	Schema   ycsb.Schema
	Records  int64 // loaded before
	Clients  int
	Conns    int           // connections that they share; 0: one each
	Duration time.Duration // of what is measured; 0: until Ops are done
	Ops      int64         // of all clients together; 0: until Duration is over
	Warmup   time.Duration // before that
	Seed     uint64
	First    uint32        // ID of the first client, at least 1; runs on one store need others each
	GiveUp   time.Duration // a client whose calls fail for that long ends; default 2 s
	// Each is called once a second with what was measured since. May be nil.
	Each func(Progress)
}

// Progress is an interval of a run.
type Progress struct {
	Elapsed time.Duration
	Ops     int64 // in the interval
	Counts  ycsb.Counts
	Hists   [ycsb.Ops]*hdrhistogram.Histogram // of the interval; ns; nil: none
}

// ErrSpec is the error of a Spec that makes no sense.
var ErrSpec = errors.New("run: bad spec")

// NewHist returns an empty histogram of times in nanoseconds, up to a minute, to three digits.
func NewHist() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60e9, 3) }

// worker is a client and what it has measured. Its mutex guards the histograms and the counts.
type worker struct {
	client *ycsb.Client
	db     ycsb.DB
	mu     sync.Mutex
	hists  [ycsb.Ops]*hdrhistogram.Histogram
	counts ycsb.Counts
	firsts map[string]int64 // error texts
}

// maxTexts bounds the different error texts that are kept.
const maxTexts = 8

// run holds the state that the workers share.
type run struct {
	spec     Spec
	left     atomic.Int64 // operations, if Spec.Ops
	stop     atomic.Bool
	measured atomic.Bool // the warm-up is over
	lost     atomic.Int64
	workers  []*worker
}

// Do runs the clients. dial returns connection i; Do closes none. The error is that of the Spec or
// of dial; all else is in the Result.
func Do(ctx context.Context, spec Spec, dial func(i int) (ycsb.DB, error)) (*Result, error) {
	r, err := prepare(spec, dial)
	if err != nil {
		return nil, err
	}
	return r.run(ctx), nil
}

func (s *Spec) complete() error {
	if s.Conns <= 0 || s.Conns > s.Clients {
		s.Conns = s.Clients
	}
	if s.GiveUp <= 0 {
		s.GiveUp = 2 * time.Second
	}
	s.First = max(s.First, 1)
	switch {
	case s.Clients < 1 || s.Clients > 1<<14:
		return fmt.Errorf("%w: %d clients", ErrSpec, s.Clients)
	case s.Records < 1:
		return fmt.Errorf("%w: %d records", ErrSpec, s.Records)
	case s.Duration <= 0 && s.Ops <= 0:
		return fmt.Errorf("%w: neither a duration nor a number of operations", ErrSpec)
	}
	return s.Workload.Check()
}

// inserts guesses how many records a run adds, for the spread of the hashed ranks.
func (s *Spec) inserts() int64 {
	ops := float64(s.Ops)
	if s.Ops <= 0 {
		ops = min(s.Duration.Seconds()*100_000, float64(s.Records)*20)
	}
	return int64(ops * s.Workload.Shares[ycsb.Insert])
}

func prepare(spec Spec, dial func(i int) (ycsb.DB, error)) (*run, error) {
	if err := spec.complete(); err != nil {
		return nil, err
	}
	r := &run{spec: spec}
	r.left.Store(spec.Ops)
	var sorted [][]byte
	if spec.Workload.Shares[ycsb.Scan] > 0 {
		sorted = ycsb.SortedKeys(spec.Records)
	}
	keys := ycsb.NewKeyspace(spec.Records, spec.inserts())
	conns := make([]ycsb.DB, spec.Conns)
	for i := range conns {
		var err error
		if conns[i], err = dial(i); err != nil {
			return nil, fmt.Errorf("run: connection %d: %w", i, err)
		}
	}
	for i := range spec.Clients {
		c, err := ycsb.NewClient(ycsb.Config{
			Workload: spec.Workload, Schema: spec.Schema, Keys: keys, ID: spec.First + uint32(i),
			Seed: spec.Seed, Sorted: sorted,
		})
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, &worker{
			client: c, db: conns[i%len(conns)], firsts: map[string]int64{}})
	}
	return r, nil
}

// run starts all workers and waits for them.
func (r *run) run(ctx context.Context) *Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.spec.Duration > 0 { // a server that is stopped answers nothing
		limit := r.spec.Warmup + r.spec.Duration + r.spec.GiveUp
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, limit)
		defer end()
	}
	if r.spec.Warmup == 0 {
		r.measured.Store(true)
	}
	var all sync.WaitGroup
	for _, w := range r.workers {
		all.Go(func() { r.work(ctx, w) })
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	return r.watch(ctx, done)
}

// work is the life of a client.
func (r *run) work(ctx context.Context, w *worker) {
	var failing time.Time // since when
	before := ycsb.Counts{}
	for !r.stop.Load() && ctx.Err() == nil {
		measured := r.measured.Load()
		if measured && r.spec.Ops > 0 && r.left.Add(-1) < 0 {
			return
		}
		begin := time.Now()
		op, err := w.client.Step(ctx, w.db)
		end := time.Now()
		now := w.client.Counts()
		failed := now.Failed > before.Failed
		if failed && (ctx.Err() != nil || r.stop.Load()) {
			return // the end of the run is no failure of the store
		}
		if measured {
			w.note(op, end.Sub(begin), err, failed, before, now)
		}
		before = now
		if !failed {
			failing = time.Time{}
			continue
		}
		if failing.IsZero() {
			failing = begin
		}
		if end.Sub(failing) > r.spec.GiveUp {
			r.lost.Add(1)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// note keeps the measurements of an operation. Failed ones have no latency.
func (w *worker) note(
	op ycsb.Op, took time.Duration, err error, failed bool, before, now ycsb.Counts,
) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Add(ycsb.Counts{
		Done: now.Done - before.Done, Missing: now.Missing - before.Missing,
		Wrong: now.Wrong - before.Wrong, Stale: now.Stale - before.Stale,
		Failed: now.Failed - before.Failed,
	})
	if err != nil {
		if text := err.Error(); w.firsts[text] > 0 || len(w.firsts) < maxTexts {
			w.firsts[text]++
		}
	}
	if failed {
		return
	}
	if w.hists[op] == nil {
		w.hists[op] = NewHist()
	}
	_ = w.hists[op].RecordValue(min(int64(took), 60e9)) // in range
}

// watch ends the run in time and puts its results together.
func (r *run) watch(ctx context.Context, done chan struct{}) *Result {
	over := false
	if r.spec.Warmup > 0 {
		over = wait(ctx, done, r.spec.Warmup)
		r.measured.Store(true)
	}
	begin, cpu := time.Now(), CPUTime()
	res := &Result{Conns: r.spec.Conns, Clients: r.spec.Clients}
	tick := time.Second
	if r.spec.Each == nil {
		tick = max(r.spec.Duration, time.Hour)
	}
	for !over {
		next := tick
		if r.spec.Duration > 0 {
			next = min(next, r.spec.Duration-time.Since(begin))
		}
		over = next <= 0 || wait(ctx, done, next)
		if !over && r.spec.Each != nil {
			p := r.interval(res)
			p.Elapsed = time.Since(begin)
			r.spec.Each(p)
		}
	}
	r.stop.Store(true)
	res.Took, res.ClientCPU = time.Since(begin), CPUTime()-cpu
	<-done
	if p := r.interval(res); r.spec.Each != nil && p.Ops > 0 {
		p.Elapsed = res.Took
		r.spec.Each(p)
	}
	res.Lost = int(r.lost.Load())
	res.sum(r.workers)
	return res
}

// wait waits for d, and reports whether the run has ended before.
func wait(ctx context.Context, done chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-done:
	case <-ctx.Done():
	}
	return true
}

// interval takes what the workers have measured since the last time and adds it to the Result.
func (r *run) interval(res *Result) (p Progress) {
	for _, w := range r.workers {
		w.mu.Lock()
		for op, h := range w.hists {
			if h != nil && h.TotalCount() > 0 {
				if p.Hists[op] == nil {
					p.Hists[op] = NewHist()
				}
				p.Ops += h.TotalCount()
				p.Hists[op].Merge(h)
				h.Reset()
			}
		}
		p.Counts.Add(w.counts)
		w.counts = ycsb.Counts{}
		w.mu.Unlock()
	}
	res.Counts.Add(p.Counts)
	for op, h := range p.Hists {
		if h != nil {
			if res.Hists[op] == nil {
				res.Hists[op] = NewHist()
			}
			res.Hists[op].Merge(h)
		}
	}
	return p
}
