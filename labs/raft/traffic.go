package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// caller does one request of one client, which makes one after the other.
type caller func(ctx context.Context, write bool, key string, value []byte) error

// dialer returns a caller for each client, over some endpoints or connections in turn.
type dialer func(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	callers []caller, stop func() error, err error)

// gatherer returns the clients of a system, over some endpoints or connections in turn.
type gatherer func(ctx context.Context, members map[uint64]string, endpoints, clients int) (
	crowd, error)

// job describes the work of a system's clients.
type job struct {
	write bool
	names []string      // of the keys to choose from
	each  time.Duration // how long requests begin
	// rate is how many requests begin in a second on average, at the times of a Poisson process,
	// whether those before have ended or not. 0: each client begins one when its last has ended.
	rate float64
}

// done has the figures of a job: latencies in ns from the time at which each request was due, and
// how long it was until the last one ended.
type done struct {
	hist *hdrhistogram.Histogram
	took time.Duration
}

// newHist has two digits: with three the histograms of 64 clients are larger than the caches.
func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60e9, 2) }

// crowd is all clients of a system.
type crowd interface {
	// run does a job. It fails if a request does, or if too many are due.
	run(ctx context.Context, j *job) (done, error)
	// fill stores these keys.
	fill(ctx context.Context, names []string) error
	close() error
}

// errBehind means that the requests of an open loop come faster than they end.
var errBehind = errors.New("requests wait: the system does not keep up")

// mostDue is how many requests of an open loop may be due and not have begun.
const mostDue = 1 << 16

// keyNames returns the names of n keys.
func keyNames(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("key-%012d", i)
	}
	return list
}

// goroutines are clients of which each is one.
type goroutines struct {
	callers []caller
	stop    func() error
	clock   clock
}

// clock is the time of a job.
type clock struct {
	now func() monotime.Time
	nap func(d time.Duration) // returns when d is over
}

// wall is the system's.
var wall = clock{monotime.Now, nap}

// blocking makes a gatherer of a dialer.
func blocking(dial dialer) gatherer {
	return func(ctx context.Context, members map[uint64]string, endpoints, clients int) (
		crowd, error,
	) {
		callers, stop, err := dial(ctx, members, endpoints, clients)
		if err != nil {
			return nil, err
		}
		return &goroutines{callers, stop, wall}, nil
	}
}

func (g *goroutines) close() error { return g.stop() }

// all runs f for each client in a goroutine.
func (g *goroutines) all(f func(i int, call caller) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(g.callers))
	for i, call := range g.callers {
		wg.Go(func() { errs[i] = f(i, call) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (g *goroutines) fill(ctx context.Context, names []string) error {
	var next atomic.Int64
	return g.all(func(_ int, call caller) error {
		for i := next.Add(1); i <= int64(len(names)); i = next.Add(1) {
			if err := call(ctx, true, names[i-1], make([]byte, kv.MaxValue)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (g *goroutines) run(ctx context.Context, j *job) (d done, err error) {
	began := g.clock.now()
	end := began.Add(j.each)
	due := make(chan monotime.Time, mostDue)
	var fed error
	var feeder sync.WaitGroup
	if j.rate > 0 {
		feeder.Go(func() { fed = g.clock.feed(j.rate, began, end, due) })
	}
	hists := make([]*hdrhistogram.Histogram, len(g.callers))
	err = g.all(func(i int, call caller) error {
		hists[i] = newHist()
		rng, value := rand.New(rand.NewPCG(uint64(i), 7)), make([]byte, kv.MaxValue)
		once := func(from monotime.Time) (now monotime.Time, err error) {
			if err = call(ctx, j.write, j.names[rng.IntN(len(j.names))], value); err != nil {
				return now, err
			}
			now = g.clock.now()
			return now, hists[i].RecordValue(int64(now.Sub(from)))
		}
		if j.rate > 0 {
			for at := range due {
				if _, err := once(at); err != nil {
					return err
				}
			}
			return nil
		}
		for now := g.clock.now(); now < end; {
			var err error
			if now, err = once(now); err != nil {
				return err
			}
		}
		return nil
	})
	feeder.Wait()
	for _, h := range hists[1:] {
		hists[0].Merge(h)
	}
	return done{hists[0], g.clock.now().Sub(began)}, errors.Join(err, fed)
}

// feed puts the times of a Poisson process from began to end into due, each when it has come, and
// then closes it.
func (c clock) feed(rate float64, began, end monotime.Time, due chan<- monotime.Time) error {
	runtime.LockOSThread() // it sleeps in the kernel: the runtime's timers are up to 1 ms late
	defer runtime.UnlockOSThread()
	defer close(due)
	rng := rand.New(rand.NewPCG(1, 11))
	for at := began; at < end; at = at.Add(loadgen.Gap(rng, rate)) {
		if d := at.Sub(c.now()); d > 0 {
			c.nap(d)
		}
		select {
		case due <- at:
		default:
			return fmt.Errorf("%d %w", mostDue, errBehind)
		}
	}
	return nil
}
