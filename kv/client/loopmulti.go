package client

import (
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
)

// multi is a multi-get under way: keys of one partition.
type multi struct {
	done Done
	tag  uint64
	keys []int // their numbers
}

// GetMulti asks for up to message.MaxMulti keys, with one request to each partition that has some
// of them. done is called for each key, with tag plus its number and errors as for Get; for those
// whose request cannot be sent, at once. Errors: mica.ErrKey, and ErrConfig for too many keys; then
// nothing was sent, and done is not called.
func (l *Loop) GetMulti(keys [][]byte, tag uint64, done Done) error {
	if len(keys) > message.MaxMulti {
		return fmt.Errorf("%w: %d keys at a time", ErrConfig, len(keys))
	}
	var hashes [message.MaxMulti]uint64
	var at [message.MaxMulti]*erpc.Session
	for i, key := range keys {
		if len(key) < mica.MinKey || len(key) > mica.MaxKey {
			return mica.ErrKey
		}
		hashes[i] = mica.Hash(key)
		at[i] = l.sessionOf(hashes[i])
	}
	for i, s := range at[:len(keys)] {
		if s == nil {
			continue // asked for
		}
		g := l.newMulti()
		g.done, g.tag = done, tag
		size := 0
		for j := i; j < len(keys); j++ {
			if at[j] == s {
				g.keys = append(g.keys, j)
				size += message.KeySize(keys[j])
				at[j] = nil
			}
		}
		l.startMulti(g, s, size, keys, &hashes)
	}
	return nil
}

func (l *Loop) newMulti() *multi {
	if n := len(l.multis); n > 0 {
		g := l.multis[n-1]
		l.multis = l.multis[:n-1]
		return g
	}
	return new(multi)
}

// startMulti sends a request of some bytes for the keys of a group.
func (l *Loop) startMulti(g *multi, s *erpc.Session, size int, keys [][]byte,
	hashes *[message.MaxMulti]uint64,
) {
	b, err := l.rpc.Alloc(size)
	if err != nil {
		l.endMulti(g, nil, nil, err)
		return
	}
	req := b.Data()[:0]
	for _, i := range g.keys {
		req, _ = message.AppendKey(req, hashes[i], keys[i]) // it has been checked
	}
	if err := l.send(s, b, operation{typ: message.MultiGet, multi: g}); err != nil {
		l.endMulti(g, nil, nil, err)
	}
}

// endedMulti takes a response.
func (l *Loop) endedMulti(g *multi, c *erpc.Completion) {
	if c.Err != nil {
		l.endMulti(g, nil, nil, known(c.Err))
	} else {
		l.endMulti(g, c.Req.Data(), c.Resp.Data(), nil)
		c.Resp.Free()
	}
	c.Req.Free()
}

// endMulti gives each key of a group its part of a response, and asks again for the keys that the
// response had no room for.
func (l *Loop) endMulti(g *multi, req, resp []byte, err error) {
	if err == nil {
		resp, err = message.OpenEntries(resp)
	}
	for _, i := range g.keys {
		r := Result{Tag: g.tag + uint64(i), Err: err}
		if err == nil {
			var s message.Status
			var key []byte
			key, req = message.NextKey(req)
			r.Value, s, resp, err = message.NextEntry(resp)
			switch {
			case err != nil:
				r.Err = err
			case s == message.NotFound:
				r.Err = mica.ErrNotFound
			case s == message.Later:
				if r.Err = l.Get(key, r.Tag, g.done); r.Err == nil {
					continue
				}
			}
		}
		g.done(r)
	}
	g.done, g.keys = nil, g.keys[:0]
	l.multis = append(l.multis, g)
}
