package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/history"
	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// traffic is clients that read and write some keys all the time, each in a goroutine,
// and the history of what they saw.
type traffic struct {
	hist   history.Recorder
	acked  atomic.Uint64 // writes
	lastAt atomic.Int64  // when the last one was, a monotime.Time
	gap    atomic.Int64  // the longest time without one, a time.Duration
	keys   int
	epoch  atomic.Int64  // each has keys of its own
	pause  time.Duration // of a client between two requests
	wait   time.Duration // deadline of a request
	stop   context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	err    error
}

// startTraffic starts n clients of the servers in flags.
func startTraffic(ctx context.Context, f clientFlags, n, keys int) (*traffic, error) {
	t := &traffic{keys: keys, wait: 2 * time.Second}
	return t, t.start(ctx, f, n)
}

// start starts the clients.
func (t *traffic) start(ctx context.Context, f clientFlags, n int) error {
	ctx, t.stop = context.WithCancel(ctx)
	for i := range n {
		c, err := f.dial()
		if err != nil {
			t.stop()
			t.wg.Wait()
			return err
		}
		t.wg.Go(func() {
			defer c.Close()
			t.run(ctx, c, i)
		})
	}
	return nil
}

func (t *traffic) run(ctx context.Context, c *client.Blocking, id int) {
	r := rand.New(rand.NewPCG(uint64(id), 1))
	for i := 0; ctx.Err() == nil; i++ {
		cmd := kv.Command{Op: []kv.Op{kv.Put, kv.Put, kv.Get, kv.CAS, kv.Delete}[r.IntN(5)]}
		cmd.Key, _ = kv.MakeKey(fmt.Sprint("key", int(t.epoch.Load())*t.keys+r.IntN(t.keys)))
		if cmd.Op == kv.Put || cmd.Op == kv.CAS {
			cmd.Value, _ = kv.MakeValue(fmt.Sprintf("%d.%d", id, i))
		}
		cmd.Absent = cmd.Op == kv.CAS
		t.do(ctx, c, id, cmd)
		if t.pause > 0 {
			time.Sleep(t.pause)
		}
	}
}

// do makes one request and records it.
func (t *traffic) do(ctx context.Context, c *client.Blocking, id int, cmd kv.Command) kv.Answer {
	short, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.wait)
	defer cancel()
	call := monotime.Now()
	a, err := c.Do(short, cmd)
	now := monotime.Now()
	t.hist.Add(id, cmd, call, now, a, err)
	switch {
	case err == nil && cmd.Op != kv.Get:
		t.acked.Add(1)
		if last := monotime.Time(t.lastAt.Swap(int64(now))); last != 0 {
			gap, most := int64(now.Sub(last)), t.gap.Load()
			for gap > most && !t.gap.CompareAndSwap(most, gap) {
				most = t.gap.Load()
			}
		}
	case err != nil && !errors.Is(err, client.ErrDeadline) && !errors.Is(err, client.ErrUnknown):
		t.mu.Lock()
		t.err = errors.Join(t.err, fmt.Errorf("client %d: %v of %s: %w", id, cmd.Op, cmd.Key, err))
		t.mu.Unlock()
		t.stop()
	}
	return a
}

// more waits until n more writes are acknowledged.
func (t *traffic) more(ctx context.Context, n uint64) error {
	for want := t.acked.Load() + n; t.acked.Load() < want; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d writes are missing: %w", want-t.acked.Load(), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

// end stops the clients, reads each key once more, and checks the history.
func (t *traffic) end(ctx context.Context, f clientFlags) error {
	t.stop()
	t.wg.Wait()
	c, err := f.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	t.wait = 10 * time.Second
	for i := range t.keys * (int(t.epoch.Load()) + 1) {
		cmd := kv.Command{Op: kv.Get}
		cmd.Key, _ = kv.MakeKey(fmt.Sprint("key", i))
		if a := t.do(ctx, c, 1000, cmd); a.Status == 0 {
			t.err = errors.Join(t.err, fmt.Errorf("key %s cannot be read", cmd.Key))
		}
	}
	return errors.Join(t.err, t.hist.Check(time.Minute))
}

// leaderOf asks until some replica says who leads, and that one agrees.
func leaderOf(ctx context.Context, f clientFlags, servers []string) (report, error) {
	c, err := f.dial()
	if err != nil {
		return report{}, err
	}
	defer c.Close()
	for {
		list, _ := statuses(ctx, c, servers)
		var best report
		for _, s := range list {
			if s.State == "StateLeader" && s.Term > best.Term {
				best = s
			}
		}
		if best.ID != 0 {
			return best, nil
		}
		if ctx.Err() != nil {
			return best, fmt.Errorf("no leader: %w", ctx.Err())
		}
	}
}
