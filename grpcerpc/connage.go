package grpcerpc

import (
	"math/rand/v2"
	"time"
)

// connTimers are those of a serverConn, under its lock. Each is nil until it is set.
type connTimers struct{ idle, age, drained timer }

func (t *connTimers) stop() {
	for _, one := range []timer{t.idle, t.age, t.drained} {
		if one != nil {
			one.Stop()
		}
	}
}

// watchAge sets the timers of a new connection.
func (c *serverConn) watchAge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, clock := &c.server.opts.keepalive, &c.server.opts.clock
	if k.MaxConnectionIdle > 0 {
		c.since = clock.now()
		c.timers.idle = clock.after(k.MaxConnectionIdle, c.idled)
	}
	if d := k.MaxConnectionAge; d > 0 {
		c.timers.age = clock.after(spread(d), c.aged)
	}
}

// spread returns a duration of up to a tenth more or less, so that connections of one time do not
// all end at one.
func spread(d time.Duration) time.Duration {
	tenth := int64(d / 10)
	if tenth == 0 {
		return d
	}
	if add := time.Duration(rand.Int64N(2*tenth) - tenth); d+add > 0 {
		return d + add
	}
	return d
}

// idled ends the connection if it has had no call for so long.
func (c *serverConn) idled() {
	c.mu.Lock()
	left := c.server.opts.keepalive.MaxConnectionIdle
	if c.calls == 0 {
		left -= c.server.opts.clock.now().Sub(c.since)
	}
	if left > 0 && !c.over {
		c.timers.idle.Reset(left)
	}
	c.mu.Unlock()
	if left <= 0 {
		c.drain()
	}
}

// aged ends the connection for its age.
func (c *serverConn) aged() {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.server.opts.keepalive.MaxConnectionAgeGrace; d > 0 && !c.over {
		c.timers.age = c.server.opts.clock.after(d, c.close)
	}
}
