package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
)

// hostile has a client attack all members until the trouble ends: see stranger. Behind a proxy all
// are heard, so it is only where members are known by their addresses.
type hostile struct {
	*stranger
	stop context.CancelFunc
	over chan struct{}
	sent int // requests that were answered, or refused
}

// beHostile starts one.
func (c *chaos) beHostile(seed uint64) *hostile {
	ctx, stop := context.WithCancel(c.ctx)
	h := &hostile{&stranger{rand.New(rand.NewPCG(seed, 3)), map[uint64]report{}}, stop,
		make(chan struct{}), 0}
	go func() {
		defer close(h.over)
		for ctx.Err() == nil {
			h.round(ctx, c)
		}
	}()
	return h
}

// round attacks each member that answers.
func (h *hostile) round(ctx context.Context, c *chaos) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cf := *c.flags.Load()
	var b *client.Blocking
	if c.net.inside(func() (err error) { b, err = cf.dial(); return err }) != nil {
		return
	}
	list, _ := statuses(ctx, b, strings.Split(cf.Servers, ","))
	b.Close()
	for _, r := range list {
		if r.ID == 0 {
			continue
		}
		h.terms[r.ID] = r
		n, _ := h.attack(ctx, c.net.inside, &cf.netFlags, r, 50)
		h.sent += n
	}
}

// end stops it, and checks that nothing of it counts.
func (h *hostile) end(c *chaos) {
	h.stop()
	<-h.over
	c.did["hostile requests"] = h.sent
	if h.sent == 0 {
		c.t.Error("no hostile request was answered")
	}
	c.admin(func(b *client.Blocking) error {
		list, err := statuses(c.ctx, b, strings.Split(c.cf.Servers, ","))
		for _, r := range list {
			if r.Term >= madeUpTerm || len(r.Members) > len(c.members) {
				c.t.Errorf("%+v", r)
			}
		}
		return err
	})
}
