package erpc

import (
	"context"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// redialAfter is how long a Client fails calls at once after it could not connect.
const redialAfter = 20 * time.Millisecond

// redial is a Client's way to its next session. It belongs to the loop.
//
// A server that was started again may have another address under the same name, so the name
// is looked up first: in a goroutine of its own, of which there is one at most. Meanwhile the
// old address, which may be somebody else's by now, gets nothing. If the lookup fails, or has
// no answer after half of ConnectTimeout, the old address is tried: a name service that is
// down does not keep a Client from a server that has not moved. An answer that comes after
// that still counts while the session is not open.
type redial struct {
	dialed     bool          // there was a session before this one
	resolving  bool          // the goroutine is at work
	awaiting   bool          // its answer is waited for
	unknown    bool          // there was no answer so far: no address is known
	began      monotime.Time // what goes on now; ConnectTimeout later it ends
	resolveErr error         // why the address may be an old one
}

// want makes sure that a session for the calls that wait is open or on its way. An error says that
// none can be.
func (c *Client) want() error {
	d := &c.redial
	switch {
	case c.over:
		return ErrClosed
	case len(c.all) > 0:
		c.grow()
		return nil
	case d.awaiting:
		return nil
	case c.failure != nil && c.rpc.readClock().Sub(c.failedAt) < redialAfter:
		return c.failure
	}
	d.began = c.rpc.readClock()
	if d.dialed {
		c.resolve()
		return nil
	}
	d.dialed = true // Dial has just looked the name up
	return c.connect()
}

// resolve begins to look the name up, and to wait for the answer.
func (c *Client) resolve() {
	d := &c.redial
	d.awaiting = true
	c.alarms.lookup = d.began.Add(c.rpc.cfg.Timing.ConnectTimeout / 2)
	c.arm()
	if d.resolving {
		return // an earlier lookup: its answer will do
	}
	d.resolving = true
	go func() {
		to, err := c.rpc.tr.Resolve(c.text)
		_ = c.rpc.Post(func(*Rpc) { c.resolved(to, err) }) // in vain only if the loop has ended
	}()
}

// tooLate ends a wait that has lasted too long.
func (c *Client) tooLate() {
	c.redial.resolveErr = fmt.Errorf("%w: no answer yet for %s", ErrResolve, c.text)
	c.proceed()
}

// resolved takes the answer to a lookup, which may have been given up.
func (c *Client) resolved(to transport.Addr, err error) {
	d := &c.redial
	d.resolving = false
	if c.over {
		return
	}
	moved := false
	if err == nil {
		moved = to != c.addr
		c.addr, d.resolveErr, d.unknown = to, nil, false
	} else {
		d.resolveErr = resolveError(err)
	}
	switch {
	case d.awaiting:
		c.proceed()
	case moved && len(c.all) > 0 && len(c.all) == c.connecting: // it tries the old address
		for len(c.all) > 0 {
			l := c.all[0]
			c.detach(l)
			c.rpc.drop(l.s)
		}
		c.proceed()
	}
}

// proceed opens a session at the address that is known now.
func (c *Client) proceed() {
	c.resolveDone()
	if err := c.connect(); err != nil {
		c.tell(err)
		if c.member != nil {
			c.member.fail(err)
		}
	}
}

func (c *Client) resolveDone() {
	c.redial.awaiting = false
	c.alarms.lookup = 0
	c.arm()
}

// connect opens the first session, in what is left of ConnectTimeout.
func (c *Client) connect() error {
	if c.redial.unknown {
		return c.redial.resolveErr
	}
	left := c.rpc.cfg.Timing.ConnectTimeout - c.rpc.readClock().Sub(c.redial.began)
	s, err := c.rpc.dial(c.addr, hostOf(c.text), max(left, 1))
	if err == nil {
		c.open(s, false)
	}
	return err
}

// onSession follows the fate of a session.
func (c *Client) onSession(s *Session, ev SessionEvent) {
	l := s.ofClient
	if l == nil {
		return
	}
	switch ev {
	case SessionConnected:
		c.opened(l)
		return
	case SessionDraining:
		c.retire(l)
	case SessionRestarted:
		c.detach(l)
		c.retireAll(s.epoch)
	default:
		c.detach(l)
	}
	switch {
	case ev == SessionRefused && len(c.all) > 0:
		c.growLater()
	case c.member != nil:
		c.member.onSession(l, ev)
	case ev == SessionRefused && !l.more: // else the name may lead elsewhere by now
		err := s.Err()
		if d := c.redial.resolveErr; d != nil {
			err = fmt.Errorf("%w (%w)", err, d)
		}
		c.failure, c.failedAt = err, c.rpc.readClock()
		c.tell(err)
	case len(c.all) == 0 && c.queue.n+len(c.waiting) > 0:
		c.seek()
	}
}

// tell answers all that wait for a session: nil lets them go on, an error ends them.
func (c *Client) tell(err error) {
	for _, w := range c.waiting {
		w <- err
	}
	c.waiting = c.waiting[:0]
	if err == nil {
		if !c.holding {
			c.serve(c.queue.n)
		}
		return
	}
	c.holding = false
	for c.queue.n > 0 {
		k := c.queue.first
		c.queue.remove(k)
		k.end(unsent(err))
	}
}

// resolve is tr.Resolve, but returns when ctx ends. Then a goroutine is left behind; it ends
// when Resolve returns.
func resolve(ctx context.Context, tr transport.Transport, text string) (transport.Addr, error) {
	if ctx.Err() != nil {
		return transport.Addr{}, contextError(ctx)
	}
	var to transport.Addr
	answer := make(chan error, 1)
	go func() {
		var err error
		to, err = tr.Resolve(text)
		answer <- err
	}()
	select {
	case err := <-answer:
		return to, resolveError(err)
	case <-ctx.Done():
		return transport.Addr{}, contextError(ctx)
	}
}

// resolveError gives an error of Resolve the library's name, or returns nil.
func resolveError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrResolve, err)
}
