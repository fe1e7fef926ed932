package erpc

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// raceEvery is how long an address of a name is tried alone before the next one is tried beside it:
// the Connection Attempt Delay of RFC 8305.
const raceEvery = 250 * time.Millisecond

// race tries the addresses of a name one after the other (RFC 8305). Each gets a while, or until it
// fails, before the next one is tried too. The first session that opens wins. It belongs to the
// loop.
type race struct {
	left  []transport.Addr // not tried yet
	every time.Duration
	until monotime.Time // when time is up
	tried []failedDial
}

// failedDial says why no session opened at an address.
type failedDial struct {
	at  transport.Addr
	err error
}

// connect opens the first session, in what is left of ConnectTimeout.
func (c *Client) connect() error {
	d := &c.redial
	if d.unknown {
		return d.resolveErr
	}
	left := slices.Clone(c.addrs)
	// What worked last comes first, but for shared memory, which may have come since.
	if i := slices.Index(left, c.good); i > 0 && !c.rpc.tr.IsPrivate(left[0]) {
		left = slices.Insert(slices.Delete(left, i, i+1), 0, c.good)
	}
	limit := c.rpc.cfg.Timing.ConnectTimeout
	d.race = race{
		left: left, every: min(raceEvery, limit/time.Duration(len(left))), until: d.began.Add(limit),
	}
	return c.attempt()
}

// attempt tries the next address.
func (c *Client) attempt() error {
	d, now := &c.redial, c.rpc.readClock()
	r := &d.race
	to := r.left[0]
	r.left = r.left[1:]
	c.alarms.race = 0
	if len(r.left) > 0 {
		c.alarms.race = now.Add(r.every)
	}
	c.arm()
	s, err := c.rpc.dial(to, hostOf(c.text), max(r.until.Sub(now), 1))
	if err != nil {
		r.left, c.alarms.race = nil, 0 // the cause is on this side
		return err
	}
	if c.good.IsValid() || c.member != nil && c.member.failed {
		s.conn.Persist() // the server was there, or may start now: calls wait for it
	}
	c.open(s, false)
	return nil
}

// unreachable follows the word that nobody listens where a session is being opened, which goes on.
func (c *Client) unreachable() {
	c.raceOn()
	if c.member == nil && c.alarms.shut == 0 && c.redial.shut == nil {
		c.alarms.shut = c.rpc.readClock().Add(startingFor)
		c.arm()
	}
}

// shut ends the calls that wait for a server where nobody has listened for a while.
func (c *Client) shut() {
	if c.unopened() && len(c.redial.race.left) == 0 {
		c.redial.shut = c.redial.cause(engine.ErrPortClosed)
		c.tell(c.redial.shut)
	}
}

// raceOn tries the next address beside those that have not answered.
func (c *Client) raceOn() {
	if len(c.redial.race.left) > 0 && c.unopened() {
		_ = c.attempt() // the others go on
	}
}

// rerace follows a name that was looked up again while no session is open: the addresses that it
// has no more are left, and others are tried.
func (c *Client) rerace() {
	r := &c.redial.race
	r.left = nil
	for _, l := range slices.Clone(c.all) {
		if !c.leads(l) {
			c.detach(l)
			c.rpc.drop(l.s)
		}
	}
	if len(c.all) == 0 {
		c.proceed()
		return
	}
	for _, to := range c.addrs {
		at := func(l *clientSession) bool { return l.s.Peer() == to }
		failed := func(f failedDial) bool { return f.at == to }
		if !slices.ContainsFunc(c.all, at) && !slices.ContainsFunc(r.tried, failed) {
			r.left = append(r.left, to)
		}
	}
	if len(r.left) > 0 && c.alarms.race == 0 {
		c.raceOn()
	}
}

// leads reports whether a session is where the name leads.
func (c *Client) leads(l *clientSession) bool { return slices.Contains(c.addrs, l.s.Peer()) }

// won ends the race by a session that has opened.
func (c *Client) won(l *clientSession) {
	c.good = l.s.Peer()
	c.redial.race, c.redial.shut, c.alarms.race, c.alarms.shut = race{}, nil, 0, 0
	c.arm()
	for _, o := range slices.Clone(c.all) {
		if o != l && o.slots == 0 && !o.more {
			c.detach(o)
			c.rpc.drop(o.s)
		}
	}
}

// lost follows a session that did not open. It reports whether others are tried.
func (c *Client) lost(l *clientSession) bool {
	r := &c.redial.race
	r.tried = append(r.tried, failedDial{l.s.Peer(), l.s.Err()})
	if len(r.left) > 0 && c.rpc.readClock() < r.until && c.attempt() == nil {
		return true
	}
	return c.unopened()
}

// cause is the error of all addresses; last is that of the last session.
func (d *redial) cause(last error) error {
	err := d.race.err(last)
	if d.resolveErr != nil {
		err = fmt.Errorf("%w (%w)", err, d.resolveErr)
	}
	return err
}

// err is the error of a race that nobody has won; last is that of the last session.
func (r *race) err(last error) error {
	differs := func(f failedDial) bool { return f.err.Error() != last.Error() }
	if !slices.ContainsFunc(r.tried, differs) {
		return last
	}
	return &raceError{r.tried}
}

// raceError says why no session opened at any address of a name. It matches each cause.
type raceError struct{ tried []failedDial }

func (e *raceError) Error() string {
	var all []string
	for _, f := range e.tried {
		all = append(all, fmt.Sprintf("%v: %v", f.at, f.err))
	}
	return strings.Join(all, "; ")
}

func (e *raceError) Unwrap() (all []error) {
	for _, f := range e.tried {
		all = append(all, f.err)
	}
	return all
}
