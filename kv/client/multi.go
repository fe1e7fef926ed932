package client

import (
	"context"
	"sync"

	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// Found is the result of a multi-get for one key.
type Found struct {
	message.Value
	Err error // those of Client.Get; nil: it is there
}

// GetMulti looks up all keys at once: result i is that of key i. It asks each partition that has
// some of them, once for each 64. A server that fails costs its keys only.
func (c *Client) GetMulti(ctx context.Context, keys [][]byte) []Found {
	out := make([]Found, len(keys))
	r := c.roster.Load()
	type place struct {
		m    *member
		part int
	}
	groups := map[place]*group{}
	var all sync.WaitGroup
	start := func(at place, g *group) {
		all.Go(func() { g.run(ctx, c, at.m, out, keys) })
	}
	for i, key := range keys {
		if len(r.members) == 0 {
			out[i].Err = ErrNoServer
			continue
		}
		hash := mica.Hash(key)
		at := place{m: r.members[choose(r.hashes, hash)]}
		cs, err := at.m.connected(ctx)
		if err == nil {
			at.part = mica.PartitionOf(hash, len(cs.parts))
			if groups[at] == nil {
				groups[at] = &group{hash: hash}
			}
			err = groups[at].add(i, hash, key)
		}
		if err == errGone {
			out[i].Value, out[i].Err = c.Get(ctx, key)
			continue
		}
		if err != nil {
			out[i].Err = err
			continue
		}
		if g := groups[at]; len(g.keys) == message.MaxMulti {
			delete(groups, at)
			start(at, g)
		}
	}
	for at, g := range groups {
		start(at, g)
	}
	all.Wait()
	return out
}

// group is keys of one partition.
type group struct {
	hash uint64 // of one of them
	req  []byte
	keys []int
}

func (g *group) add(i int, hash uint64, key []byte) (err error) {
	if g.req, err = message.AppendKey(g.req, hash, key); err == nil {
		g.keys = append(g.keys, i)
	}
	return err
}

// run asks for the keys of the group.
func (g *group) run(ctx context.Context, c *Client, m *member, out []Found, keys [][]byte) {
	if len(g.keys) == 0 {
		return
	}
	resp, err := m.call(ctx, g.hash, message.MultiGet, g.req)
	gone := err == errGone
	if err == nil {
		resp, err = message.OpenEntries(resp)
	}
	for _, i := range g.keys {
		var v message.Value
		var s message.Status
		if err == nil {
			v, s, resp, err = message.NextEntry(resp)
		}
		switch {
		case err != nil && !gone:
			out[i].Err = err
		case gone || s == message.Later:
			out[i].Value, out[i].Err = c.Get(ctx, keys[i])
		case s == message.NotFound:
			out[i].Err = mica.ErrNotFound
		default:
			out[i].Value = v
		}
	}
}

// Stats returns the counters of all partitions of each server, by its name. A server that fails is
// in errs.
func (c *Client) Stats(
	ctx context.Context,
) (stats map[string][]mica.Stats, errs map[string]error) {
	stats, errs = map[string][]mica.Stats{}, map[string]error{}
	for _, m := range c.roster.Load().members {
		list, err := m.stats(ctx)
		if len(list) > 0 {
			stats[m.name] = list
		}
		if err != nil {
			errs[m.name] = err
		}
	}
	return stats, errs
}

// stats returns the counters of all partitions, or of those before an error.
func (m *member) stats(ctx context.Context) (list []mica.Stats, err error) {
	cs, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer cs.use.RUnlock()
	for _, c := range cs.parts {
		resp, err := c.Call(ctx, message.Stats, nil)
		if err != nil {
			return list, err
		}
		st, err := message.ParseStats(resp)
		if err != nil {
			return list, err
		}
		list = append(list, st)
	}
	return list, nil
}
