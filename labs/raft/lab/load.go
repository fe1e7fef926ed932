package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// Load is a kind of request when many clients make it.
type Load struct {
	// Full is how many are made in a second by clients of which each begins one when its last has
	// ended.
	Full float64 `json:"full_per_second"`
	// Half is the latency when half as many begin in a second, at the times of a Poisson process:
	// from the time at which each was due.
	Half Latency `json:"half"`
	// Plain is the latency of plain RPCs that begin at such times, to a server of its own: what the
	// threads and their machine add to any tail.
	Plain Latency `json:"plain"`
}

// load measures full load, half of it, and as many plain RPCs in turns, after a first one that
// warms up.
func (l *lab) load(ctx context.Context, write bool) (Load, error) {
	var full, half, plain []Latency
	ask := func(ended func()) error { return l.ask(write, ended) }
	what := "GETs"
	if write {
		what = "PUTs"
	}
	for round := range l.cfg.Rounds + 1 {
		l.mode.Store(stepReplicas)
		rate, err := l.full(ctx, ask)
		if err != nil {
			return Load{}, fmt.Errorf("full load of %s: %w", what, err)
		}
		lat, err := l.open(ctx, ask, rate/2)
		if err != nil {
			return Load{}, fmt.Errorf("%.0f %s per second: %w", rate/2, what, err)
		}
		l.mode.Store(stepLone)
		least, err := l.open(ctx, l.askPlain, rate/2)
		if err != nil {
			return Load{}, fmt.Errorf("%.0f plain RPCs per second: %w", rate/2, err)
		}
		if round > 0 {
			full, half = append(full, Latency{P50: rate}), append(half, lat)
			plain = append(plain, least)
		}
	}
	l.mode.Store(stepReplicas)
	return Load{median(full).P50, median(half), median(plain)}, nil
}

// askPlain begins a plain RPC for which ended is called.
func (l *lab) askPlain(ended func()) error {
	req, err := l.rpc.Alloc(putSize)
	if err != nil {
		return err
	}
	_, err = l.rpc.EnqueueRequest(l.plain, erpc.Request{Type: node.TypeEcho, Req: req,
		Timeout: deadline, Done: func(c erpc.Completion) {
			c.Req.Free()
			if c.Resp != nil {
				c.Resp.Free()
			}
			if c.Err != nil && l.failed == nil {
				l.failed = c.Err
			}
			ended()
		}})
	return errors.Join(err, l.failed)
}

// asks begins a request for which ended is called.
type asks func(ended func()) error

// ask begins a request for which ended is called.
func (l *lab) ask(write bool, ended func()) error {
	cmd := kv.Command{Op: kv.Get, Key: l.key()}
	if write {
		cmd.Op = kv.Put
		cmd.Value, _ = kv.MakeValue(make([]byte, valueSize))
	}
	l.sent = true
	l.cl.Do(cmd, monotime.Now().Add(deadline), func(r client.Result) {
		if r.Err != nil && l.failed == nil {
			l.failed = r.Err
		}
		ended()
	})
	return l.failed
}

// full is the rate of cfg.Clients clients.
func (l *lab) full(ctx context.Context, ask asks) (perSecond float64, err error) {
	count, flying, failed := 0, 0, error(nil)
	began := monotime.Now()
	end := began.Add(l.cfg.Each)
	var again func()
	again = func() {
		if monotime.Now() < end && failed == nil {
			flying++
			failed = ask(func() { count++; flying--; again() })
		}
	}
	for range l.cfg.Clients {
		again()
	}
	err = l.until(ctx, func() bool { return flying == 0 || failed != nil })
	return float64(count) / monotime.Now().Sub(began).Seconds(), errors.Join(err, failed)
}

// open is the latency of requests that begin at random times.
func (l *lab) open(ctx context.Context, ask asks, rate float64) (Latency, error) {
	var h erpc.Histogram
	var failed error
	flying := 0
	a := loadgen.Arrivals{Rate: rate, Until: monotime.Now().Add(l.cfg.Each),
		Over:    func() bool { return flying == 0 },
		Stopped: func() bool { return failed != nil || ctx.Err() != nil }, Pass: l.step}
	a.Issue = func(slot uint64, due monotime.Time) {
		flying++
		err := ask(func() {
			flying--
			h.Add(int64(monotime.Now().Sub(due)))
			a.Ended(slot)
		})
		failed = errors.Join(failed, err)
	}
	_, _, err := a.Run(rand.New(rand.NewPCG(1, 3)))
	return quantiles(&h), errors.Join(err, failed, ctx.Err())
}
