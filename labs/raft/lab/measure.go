package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// measure warms up, stores the keys, and measures in turns.
func (l *lab) measure(ctx context.Context) (*Report, error) {
	cfg := &l.cfg
	if err := l.fill(ctx); err != nil {
		return nil, err
	}
	if err := l.sessions(ctx); err != nil {
		return nil, err
	}
	kinds := []struct {
		mode uint32
		do   asksOne
		all  []Latency
	}{{stepLone, l.echo(node.TypeEcho, &l.plain), nil},
		{stepReplicas, l.echo(node.TypeEcho, &l.shared), nil},
		{stepReplicas, l.put, nil}, {stepReplicas, l.get, nil},
		{stepReplicas, l.echo(typeChain, &l.shared), nil},
		{stepReplicas, l.echo(typeRaftChain, &l.shared), nil}}
	if cfg.Replicas == 1 {
		kinds = kinds[:4] // a chain has followers
	}
	rep := &Report{Transport: cfg.Transport, Replicas: cfg.Replicas, Rounds: cfg.Rounds,
		Keys: cfg.Keys, Placement: string(cfg.Placement)}
	var commits []Latency
	for round := range cfg.Rounds + 1 { // the first one warms up
		for i := range kinds {
			k := &kinds[i]
			if i == 2 {
				l.onServers(func() { l.nodes[0].MeasureCommits() })
			}
			l.mode.Store(k.mode)
			lat, n, err := l.phase(ctx, k.do)
			if err != nil {
				return nil, fmt.Errorf("round %d, kind %d: %w", round, i, err)
			}
			if round == 0 {
				continue
			}
			k.all = append(k.all, lat)
			if i == 2 {
				rep.Puts += n
				led := false
				l.onServers(func() {
					led = l.nodes[0].Replica().Leads()
					commits = append(commits, quantiles(l.nodes[0].Commits()))
				})
				if !led {
					return nil, errors.New("lab: another replica leads now: the placement is not as said")
				}
			}
		}
		if round > 0 && cfg.Progress != nil {
			cfg.Progress(fmt.Sprintf("round %d of %d: plain %.1f us, put %.1f us", round, cfg.Rounds,
				kinds[0].all[round-1].P50, kinds[2].all[round-1].P50))
		}
	}
	l.mode.Store(stepReplicas)
	if cfg.Clients > 0 {
		if err := l.loads(ctx, rep); err != nil {
			return nil, err
		}
	}
	rep.Plain, rep.Shared = median(kinds[0].all), median(kinds[1].all)
	rep.Put, rep.Get, rep.Commit = median(kinds[2].all), median(kinds[3].all), median(commits)
	if len(kinds) > 4 {
		rep.Chain, rep.Bare = median(kinds[4].all), median(kinds[5].all)
		rep.OfChain = ratio(kinds[4].all, kinds[0].all)
		rep.OfBare = ratio(kinds[5].all, kinds[0].all)
	}
	rep.Ratio = ratio(kinds[2].all, kinds[0].all)
	return rep, nil
}

// loads measures with several clients, for PUTs and for GETs.
func (l *lab) loads(ctx context.Context, rep *Report) error {
	l.onServers(func() { // the bare nodes are done: no real replica has them beside itself
		for _, c := range l.chains {
			c.raft.drop()
		}
	})
	for _, k := range []struct {
		write bool
		to    **Load
	}{{true, &rep.LoadPut}, {false, &rep.LoadGet}} {
		got, err := l.load(ctx, k.write)
		if err != nil {
			return err
		}
		*k.to = &got
	}
	return nil
}

// sessions opens those of the plain RPCs.
func (l *lab) sessions(ctx context.Context) (err error) {
	for _, s := range []struct {
		to   **erpc.Session
		addr string
		mode uint32
	}{{&l.plain, l.lone.LocalAddr().String(), stepLone},
		{&l.shared, l.nodes[0].Rpc().LocalAddr().String(), stepReplicas}} {
		l.mode.Store(s.mode)
		if *s.to, err = l.rpc.CreateSession(s.addr); err != nil {
			return err
		}
		if err := l.until(ctx, func() bool {
			return (*s.to).Connected() || (*s.to).Err() != nil
		}); err != nil {
			return err
		}
	}
	var followers []string
	for _, n := range l.nodes[1:] {
		followers = append(followers, n.Rpc().LocalAddr().String())
	}
	l.onServers(func() { err = l.chains[0].connect(followers) })
	if err != nil {
		return err
	}
	return l.until(ctx, func() (ok bool) {
		l.onServers(func() { ok = l.chains[0].connected() })
		return ok
	})
}

// onServers runs f in the servers' thread.
func (l *lab) onServers(f func()) {
	l.mode.Store(stepReplicas)
	done := make(chan struct{})
	if l.nodes[0].Rpc().Post(func(*erpc.Rpc) { f(); close(done) }) == nil {
		<-done
	}
}

// asksOne begins a request, of a key if it has one. ended is called when its answer is there.
type asksOne func(key kv.Key, ended func()) error

// phase does one kind of request, one at a time. A request's time ends with the client's answer:
// the turns of followers behind it are none of it, and neither is the choice of a key.
func (l *lab) phase(ctx context.Context, do asksOne) (Latency, uint64, error) {
	var h erpc.Histogram
	var begin monotime.Time
	flying := false
	ended := func() {
		flying = false
		h.Add(int64(monotime.Now().Sub(begin)))
	}
	end := monotime.Now().Add(l.cfg.Each)
	for {
		key := l.key()
		begin = monotime.Now()
		if begin >= end || ctx.Err() != nil {
			return quantiles(&h), h.Count, ctx.Err()
		}
		flying, l.sent = true, true
		if err := do(key, ended); err != nil {
			return Latency{}, 0, err
		}
		for flying {
			if err := l.step(); err != nil {
				return Latency{}, 0, err
			}
		}
	}
}

// echo asks for bytes by plain RPCs.
func (l *lab) echo(typ uint8, s **erpc.Session) asksOne {
	return func(_ kv.Key, ended func()) error {
		_, err := l.rpc.EnqueueRequest(*s, erpc.Request{Type: typ, Req: l.buf[0], Resp: l.buf[1],
			Timeout: deadline, Done: func(c erpc.Completion) {
				if c.Err != nil {
					l.over.Store(true)
				}
				ended()
			}})
		return err
	}
}

func (l *lab) key() (k kv.Key) {
	k, _ = kv.MakeKey(fmt.Appendf(nil, "key-%012d", l.rng.IntN(l.cfg.Keys)))
	return k
}

func (l *lab) put(key kv.Key, ended func()) error {
	v, _ := kv.MakeValue(make([]byte, valueSize))
	return l.do(kv.Command{Op: kv.Put, Key: key, Value: v}, ended)
}

func (l *lab) get(key kv.Key, ended func()) error {
	return l.do(kv.Command{Op: kv.Get, Key: key}, ended)
}

func (l *lab) do(cmd kv.Command, ended func()) error {
	l.cl.Do(cmd, monotime.Now().Add(deadline), func(r client.Result) {
		if r.Err != nil {
			l.over.Store(true)
		}
		ended()
	})
	if l.over.Load() {
		return errors.New("lab: a request failed")
	}
	return nil
}

// fill stores all keys, many at a time.
func (l *lab) fill(ctx context.Context) error {
	const window = 256
	v, _ := kv.MakeValue(make([]byte, valueSize))
	var failed error
	next, flying := 0, 0
	var put func()
	put = func() {
		if next == l.cfg.Keys || failed != nil {
			return
		}
		k, _ := kv.MakeKey(fmt.Appendf(nil, "key-%012d", next))
		next++
		flying++
		cmd := kv.Command{Op: kv.Put, Key: k, Value: v}
		l.cl.Do(cmd, monotime.Now().Add(30*time.Second), func(r client.Result) {
			flying--
			if r.Err != nil {
				failed = r.Err
			}
			put()
		})
	}
	for range window {
		put()
	}
	err := l.until(ctx, func() bool { return flying == 0 })
	return errors.Join(err, failed)
}

func quantiles(h *erpc.Histogram) Latency {
	return Latency{P50: float64(h.Quantile(0.5)) / 1e3, P99: float64(h.Quantile(0.99)) / 1e3}
}

// ratio is of the p50 of a kind to that of the plain RPCs.
func ratio(kind, plain []Latency) Ratio {
	return RatioOf(len(kind), func(i int) float64 { return kind[i].P50 / plain[i].P50 })
}

func median(list []Latency) Latency {
	mid := func(f func(Latency) float64) float64 {
		var v []float64
		for _, x := range list {
			v = append(v, f(x))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return Latency{P50: mid(func(x Latency) float64 { return x.P50 }),
		P99: mid(func(x Latency) float64 { return x.P99 })}
}
