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
	taken := r.taken(&e, lease)
	for range maxTries {
		if now := r.clock.now(); now-sent > ttl/3 { // many come at once, and that takes long
			sent = now
			_, _ = r.store.renew(ctx, lease) // if that fails the claim does
		}
		held, ok, err := r.tryClaim(ctx, lease, &e, taken)
		if err != nil {
			giveBack(ctx, r.store, r.clock, lease)
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
	giveBack(ctx, r.store, r.clock, lease)
	return fmt.Errorf("%w: others were faster %d times", cluster.ErrUnavailable, maxTries)
}

// giveBack ends the lease of a claim that has failed, also if its context has ended: the entry may
// stand although the answer was lost. Without an answer now the lease ends by itself.
func giveBack(ctx context.Context, s store, k clock, lease int64) {
	ctx, cancel := k.limit(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = s.revoke(ctx, lease)
}

// tryClaim writes the entry if nobody else writes meanwhile; ok reports that.
func (r *Registration) tryClaim(
	ctx context.Context, lease int64, e *cluster.Entry, taken *taken,
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
		number, err := r.number(ctx, e, taken)
		if err != nil {
			return held, false, err
		}
		held.number = number.key
		pairs = append(append(pairs, number), taken.leave()...)
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

// taken returns the claims of numbers in the entry's zone, not listed yet.
func (r *Registration) taken(e *cluster.Entry, lease int64) *taken {
	t := &taken{prefix: fmt.Sprintf("%s%s/%s/", numbers, r.cfg.Service, e.Zone), id: e.Instance,
		owner: e.Instance, lease: lease}
	if e.Name != "" {
		t.owner = e.Name
	}
	return t
}

// number sets the entry's number, if it has none, to one that is free in its zone, and returns the
// claim of it.
func (r *Registration) number(
	ctx context.Context, e *cluster.Entry, taken *taken,
) (pair, error) {
	if err := taken.list(ctx, r.store); err != nil {
		return pair{}, err
	}
	if e.Number > 0 {
		p, free := taken.at(r.cfg.numberKey(e.Zone, e.Number))
		if free && (r.wanted > 0 || taken.place.key == "") {
			return p, nil
		}
		if r.wanted == e.Number {
			return pair{}, fmt.Errorf("%w: number %d", cluster.ErrAddressTaken, e.Number)
		}
	} // else it was lost, with the lease or to a faster one: another one
	p, n := taken.choose(func(n int) string { return r.cfg.numberKey(e.Zone, n+1) })
	e.Number = n + 1
	return p, nil
}
