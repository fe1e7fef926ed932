package erpc

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// Client calls one server from any number of goroutines. The event loop of its sessions is its own,
// with a goroutine and a transport (Dial), or one that it shares with others (Loop.Dial).
// As many calls are under way as there are callers: it opens further sessions when the slots of
// those that it has are in use, and closes them when they had no call for some seconds. Calls wait
// for a slot while a server refuses further sessions, and while requests under way have 4 MiB. All
// calls, under way and waiting, are Config.MaxQueue at most.
//
// A call that was given up uses its slot until its handler has returned at the server. Others do
// not wait behind it: further sessions open, as many as Config.MaxSessions here and at the server
// and its Shares allow. Then they wait for a slot, at most to their deadlines.
//
// A call that the server refused for its limits, or because it shuts down, or that it had not taken
// when it ended its session, certainly never ran. The Client tries it again, after a while, or at
// another server under the same name. It never repeats a call that may have run.
//
// When no session is left it opens a new one. Before, it looks the server's name up again, in
// another goroutine. Calls wait meanwhile, for name and session together at most
// Timing.ConnectTimeout. If the lookup fails, or takes more than half of that, the address found
// last is tried. If that is in vain too, the calls' errors match ErrResolve beside ErrConnect or
// ErrRefused.
type Client struct {
	loop   *Loop
	rpc    *Rpc          // of the loop
	alone  bool          // the loop ends with the Client
	text   string        // the server's address as Dial was given it
	done   chan struct{} // the Client has ended
	closed atomic.Bool

	// In the loop only.
	sessionSet
	at       int            // place in loop.clients
	addr     transport.Addr // the last address that text was resolved to
	redial   redial
	alarms   clientAlarms
	alarm    loopAlarm    // the first of them
	waiting  []chan error // Dial and Ready, which wait for a session
	over     bool         // it is ending
	failedAt monotime.Time
	failure  error
	member   *member // of a Pool; nil if it is in none
}

// Dial makes a Client of the server at addr (text that tr resolves) and waits until
// the session is open. The Client has a loop of its own, which ends with it. Dial owns tr.
// Errors: a *ConfigError, ErrTransportInUse as of Nexus.NewRpc, or a *DialError with both addresses
// and ErrResolve with the cause that tr gave, ErrRefused, ErrConnect, or the context's as in Call.
// If ctx ends while tr.Resolve is at work, Dial closes tr and returns; a goroutine stays until
// Resolve does.
func Dial(ctx context.Context, tr transport.Transport, addr string, cfg Config) (*Client, error) {
	owned, err := take(tr)
	if err != nil {
		return nil, err
	}
	to, err := resolve(ctx, tr, addr)
	if err != nil {
		return nil, errors.Join(dialError(addr, tr, to, err), owned.close())
	}
	l, err := newLoop(owned, cfg)
	if err != nil {
		return nil, err
	}
	c, err := l.dial(ctx, addr, to)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c.alone = true
	return c, nil
}

// Ready waits until a session to the server is open, opening one if there is none. Errors
// are those of a call that could not be sent.
func (c *Client) Ready(ctx context.Context) error {
	ready := make(chan error, 1)
	err := c.rpc.Post(func(*Rpc) {
		var err error
		if c.pick() == nil && len(c.all) == c.connecting {
			err = c.want()
			if err == nil {
				c.waiting = append(c.waiting, ready)
				return
			}
		}
		ready <- err
	})
	if err != nil {
		return err
	}
	select {
	case err = <-ready:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	case <-c.done:
		return ErrClosed
	}
}

// Close ends the Client's sessions, and its loop if that is its own. Calls under way end with
// ErrClosed. It does not wait for a lookup of the server's name, which cannot be ended: the
// lookup's goroutine ends when the transport's Resolve returns. It must not be called in the loop,
// by OnSession.
func (c *Client) Close() error {
	if c.alone {
		c.closed.Store(true)
		return c.loop.Close()
	}
	if !c.closed.Swap(true) {
		_ = c.rpc.Post(func(*Rpc) { c.finish() }) // in vain only if the loop has ended
	}
	select {
	case <-c.done:
	case <-c.loop.done:
	}
	return nil
}

// closedError returns the error of a call after Close.
func (c *Client) closedError() error {
	if c.member != nil {
		return errNotSent
	}
	return unsent(ErrClosed)
}

// Stats returns the counters of the Rpc of the Client's loop.
func (c *Client) Stats() Stats { return c.rpc.Stats() }
