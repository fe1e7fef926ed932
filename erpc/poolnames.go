package erpc

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

// minResolve is the least time between two calls of a Pool's Resolver.
const minResolve = time.Second

// naming asks a Pool's Resolver for its servers. The first Loop has the time; the Resolver runs in
// a goroutine of its own, of which there is one at most.
type naming struct {
	pool   *Pool
	ctx    context.Context
	cancel context.CancelFunc
	first  bool // there was no answer yet; under pool.mu
	busy   atomic.Bool
	urgent atomic.Bool // a server has failed, and the loop has not heard of it

	// In the loop only.
	alarm      loopAlarm
	resolvedAt monotime.Time // when it was asked last
	again      bool          // a server has failed since
}

func (n *naming) init(p *Pool) {
	n.pool, n.first = p, p.cfg.Resolver != nil
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.alarm.fn = n.resolve
}

// resolve calls the Resolver, if it is not at work, and then has it called again in time.
func (n *naming) resolve() {
	if n.ctx.Err() != nil || n.busy.Swap(true) {
		return
	}
	go func() {
		servers, err := n.pool.cfg.Resolver(n.ctx)
		if err == nil && len(servers) == 0 {
			err = errors.New("the resolver knows no servers")
		}
		if err == nil {
			n.pool.apply(servers)
		} else {
			n.pool.unnamed(fmt.Errorf("%w: %w", ErrResolve, err))
		}
		n.busy.Store(false)
		wait := n.pool.cfg.ResolveEvery
		if err != nil {
			wait = minResolve
		}
		n.post(func() {
			n.resolvedAt = n.pool.loops[0].rpc.readClock()
			if n.again {
				n.again, wait = false, minResolve
			}
			n.after(wait)
		})
	}()
}

// after has the Resolver called after a while, or earlier if that was agreed on.
func (n *naming) after(d time.Duration) {
	at := n.resolvedAt.Add(d)
	if n.ctx.Err() == nil && (n.alarm.place == 0 || at < n.alarm.at) {
		n.pool.loops[0].set(&n.alarm, at)
	}
}

// hurry has the Resolver called soon: a server has failed. It is safe in any loop.
func (n *naming) hurry() {
	if n.pool.cfg.Resolver == nil || n.urgent.Swap(true) {
		return
	}
	go n.post(func() { // a loop does not wait for room in its own line of commands
		n.urgent.Store(false)
		if n.again = n.busy.Load(); !n.again {
			n.after(minResolve)
		}
	})
}

// post has fn run in the first Loop, in vain if that has ended.
func (n *naming) post(fn func()) {
	_ = n.pool.loops[0].rpc.Post(func(*Rpc) { fn() })
}

// stop ends it. A Resolver at work is not waited for.
func (n *naming) stop() {
	n.cancel()
	n.post(func() { n.pool.loops[0].set(&n.alarm, monotime.Never) })
}

// unnamed notes that the Resolver had no answer.
func (p *Pool) unnamed(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.first = false
	p.failure = err
	if !p.closed.Load() {
		p.rebuild()
	}
}

// apply makes the servers those of a list: new ones join, and those that are not in it leave when
// their calls have ended.
func (p *Pool) apply(servers []string) {
	p.mu.Lock()
	if p.closed.Load() {
		p.mu.Unlock()
		return
	}
	p.names.first = false
	have := make(map[string]*member)
	load := make(map[*Loop]int)
	for _, m := range p.members {
		have[m.text] = m
		load[m.c.loop]++
	}
	var fresh []*member
	for _, text := range servers {
		if _, ok := have[text]; !ok {
			m := p.newMember(text, load)
			fresh = append(fresh, m)
			p.members = append(p.members, m)
		}
		have[text] = nil // it stays
	}
	for _, m := range have {
		if m != nil {
			p.remove(m)
			p.leaving[m] = struct{}{}
		}
	}
	p.rebuild()
	p.mu.Unlock()
	// A loop may wait for the mutex, so it is not held while there is to be room for commands.
	for _, m := range fresh {
		_ = m.c.rpc.Post(func(*Rpc) { m.join() })
	}
	for _, m := range have {
		if m != nil {
			_ = m.c.rpc.Post(func(*Rpc) { m.leave() })
		}
	}
}

// newMember makes a server in the loop that has the fewest.
func (p *Pool) newMember(text string, load map[*Loop]int) *member {
	best := p.loops[0]
	for _, l := range p.loops {
		if load[l] < load[best] {
			best = l
		}
	}
	load[best]++
	m := &member{pool: p, c: best.newClient(text), text: text, hope: true}
	m.c.member = m
	m.c.redial.dialed, m.c.redial.unknown = true, true
	return m
}
