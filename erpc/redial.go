package erpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// redialAfter is how long a Client fails calls at once after it could not connect.
const redialAfter = 20 * time.Millisecond

// errWait means that a session is on its way.
var errWait = errors.New("no session yet")

// redial is a Client's way to its next session. It belongs to the loop.
//
// A server that was started again may have another address under the same name, so the name
// is looked up first: in a goroutine of its own, of which there is one at most. Meanwhile the
// old address, which may be somebody else's by now, gets nothing. If the lookup fails, or has
// no answer after half of ConnectTimeout, the old address is tried: a name service that is
// down does not keep a Client from a server that has not moved. An answer that comes after
// that still counts while the session is not open.
type redial struct {
	dialed    bool          // there was a session before this one
	resolving bool          // the goroutine is at work
	asking    bool          // its answer is waited for
	began     monotime.Time // what goes on now; ConnectTimeout later it ends
	doubt     error         // why the address may be an old one
}

// session returns the open session. If there is none it makes sure that one is on its way and
// returns errWait; the Client tells those in waiting and parked.
func (c *Client) session() (*Session, error) {
	d := &c.redial
	switch {
	case c.sess != nil && c.sess.Connected():
		return c.sess, nil
	case c.over:
		return nil, ErrClosed
	case c.sess != nil || d.asking:
		return nil, errWait
	case c.failure != nil && c.rpc.readClock().Sub(c.failedAt) < redialAfter:
		return nil, c.failure
	}
	d.began = c.rpc.readClock()
	if d.dialed {
		c.ask()
		return nil, errWait
	}
	d.dialed = true // Dial has just looked the name up
	if err := c.connect(); err != nil {
		return nil, err
	}
	return nil, errWait
}

// ask begins to look the name up, and to wait for the answer.
func (c *Client) ask() {
	d := &c.redial
	d.asking = true
	c.rpc.setAlarm(d.began.Add(c.rpc.cfg.Timing.ConnectTimeout/2), c.tooLate)
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
	c.redial.doubt = fmt.Errorf("%w: no answer yet for %s", ErrResolve, c.text)
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
		c.addr, d.doubt = to, nil
	} else {
		d.doubt = resolveError(err)
	}
	switch {
	case d.asking:
		c.proceed()
	case moved && c.sess != nil && !c.sess.Connected(): // it tries the old address
		old := c.sess
		c.sess = nil
		c.rpc.drop(old)
		c.proceed()
	}
}

// proceed opens a session at the address that is known now.
func (c *Client) proceed() {
	c.stopAsking()
	if err := c.connect(); err != nil {
		c.tell(err)
	}
}

func (c *Client) stopAsking() {
	c.redial.asking = false
	c.rpc.setAlarm(0, nil)
}

// connect opens a session, in what is left of ConnectTimeout.
func (c *Client) connect() (err error) {
	left := c.rpc.cfg.Timing.ConnectTimeout - c.rpc.readClock().Sub(c.redial.began)
	c.sess, err = c.rpc.dial(c.addr, max(left, 1))
	return err
}

// onSession follows the session's fate.
func (c *Client) onSession(s *Session, ev SessionEvent) {
	if s != c.sess {
		return
	}
	if ev == SessionConnected {
		c.tell(nil)
		return
	}
	c.sess = nil
	err := s.Err()
	if ev == SessionRefused {
		if d := c.redial.doubt; d != nil {
			err = fmt.Errorf("%w (%w)", err, d)
		}
		c.failure, c.failedAt = err, c.rpc.readClock()
	}
	c.tell(err)
}

// tell lets calls that wait for a session begin, or ends them with err.
func (c *Client) tell(err error) {
	for _, w := range c.waiting {
		w <- err
	}
	c.waiting = c.waiting[:0]
	parked := c.parked
	c.parked = nil
	for _, k := range parked {
		switch {
		case k.over: // it was given up
		case err != nil:
			k.end(err)
		default:
			k.begin(c.rpc)
		}
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
