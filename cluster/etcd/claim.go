package etcd

import (
	"context"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/cluster"
)

// maxTries bounds how often a claim begins anew because others were faster.
const maxTries = 100

// claim makes a lease, and writes the entry under it, with the claim of its number. An entry of
// this server, or of an earlier process of its name, goes.
func (r *Registration) claim(ctx context.Context) error {
	sent := r.clock.now()
	lease, ttl, err := r.store.grant(ctx, r.cfg.TTL)
	if err != nil {
		return named(err)
	}
	r.mu.Lock()
	e := r.entry
	r.mu.Unlock()
	for range maxTries {
		held, ok, err := r.tryClaim(ctx, lease, &e)
		if err != nil {
			r.giveBack(ctx, lease)
			return err
		}
		if !ok {
			continue
		}
		r.mu.Lock()
		held.lease, lease = lease, r.held.lease
		r.entry, r.held = e, held
		r.mu.Unlock()
		if held.other {
			r.from.Store(int64(r.clock.now() + ttl + r.cfg.Drift))
		}
		if lease != 0 { // that of before, of which something may stand
			_ = r.store.revoke(ctx, lease)
		}
		r.lasts(sent, ttl)
		return nil
	}
	r.giveBack(ctx, lease)
	return fmt.Errorf("%w: others were faster %d times", cluster.ErrUnavailable, maxTries)
}

// giveBack ends the lease of a claim that has failed, also if its context has ended: the entry may
// stand although the answer was lost. Without an answer now the lease ends by itself.
func (r *Registration) giveBack(ctx context.Context, lease int64) {
	ctx, cancel := r.clock.limit(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = r.store.revoke(ctx, lease)
}

// tryClaim writes the entry if nobody else writes meanwhile; ok reports that.
func (r *Registration) tryClaim(
	ctx context.Context, lease int64, e *cluster.Entry,
) (held tenure, ok bool, err error) {
	pairs, h, err := r.store.get(ctx, r.cfg.keysOf(e)...)
	if err != nil {
		return held, false, named(err)
	}
	if err = r.cfg.checkID(h); err != nil {
		return held, false, err
	}
	for i, p := range pairs {
		if err = r.mayTake(p); err != nil {
			return held, false, err
		}
		if old, err := cluster.Decode([]byte(p.value)); err == nil && old.Instance != e.Instance {
			held.other = true
		}
		pairs[i].value = "" // it goes, but for the one that follows
	}
	if !r.cfg.Unnumbered {
		number, err := r.number(ctx, e)
		if err != nil {
			return held, false, err
		}
		held.number = number.key
		pairs = append(pairs, number)
	}
	value, err := e.Encode()
	if err != nil {
		return held, false, err
	}
	held.key, held.value, pairs[0].value = pairs[0].key, string(value), string(value)
	ok, h, err = r.store.put(ctx, lease, pairs...)
	held.at = h.revision
	return held, ok, named(err)
}

// mayTake says whether this server may write over what stands at its key: an entry of its own, or
// at first one of its name. Once it is registered, one of its name is a later process's.
func (r *Registration) mayTake(p pair) error {
	if p.revision == 0 {
		return nil
	}
	r.mu.Lock()
	own, registered := r.entry, r.held.lease != 0
	r.mu.Unlock()
	other, err := cluster.Decode([]byte(p.value))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s has %w", cluster.ErrAddressTaken, p.key, err)
	case other.Instance != "" && other.Instance == own.Instance:
		return nil
	case own.Name != "" && other.Name == own.Name && other.Cluster == own.Cluster:
		if registered {
			return fmt.Errorf("%w: %s, by instance %s of %q", cluster.ErrReplaced, p.key, other.Instance,
				other.Name)
		}
		return nil
	}
	return fmt.Errorf("%w: %s, by %q", cluster.ErrAddressTaken, p.key, other.Name)
}

// number sets the entry's number, if it has none, to the lowest one that is free in its zone, and
// returns the claim of it. A claim of an earlier process of this server is free for it.
func (r *Registration) number(ctx context.Context, e *cluster.Entry) (pair, error) {
	list, _, err := r.store.list(ctx, numbers+r.cfg.Service+"/"+e.Zone+"/")
	if err != nil {
		return pair{}, named(err)
	}
	taken := map[string]pair{}
	for _, p := range list {
		taken[p.key] = p
	}
	owner := e.Instance
	if e.Name != "" {
		owner = e.Name
	}
	first, last := 1, len(list)+1 // one of so many is free
	if e.Number > 0 {
		first, last = e.Number, e.Number
	}
	for n := first; n <= last; n++ {
		p := taken[r.cfg.numberKey(e.Zone, n)]
		if p.revision == 0 || p.value == owner {
			e.Number = n
			return pair{r.cfg.numberKey(e.Zone, n), owner, p.revision}, nil
		}
	}
	if e.Number == 0 || r.wanted == e.Number {
		return pair{}, fmt.Errorf("%w: number %d", cluster.ErrAddressTaken, e.Number)
	}
	e.Number = 0 // it was lost with the lease: another one
	return r.number(ctx, e)
}
