package erpc

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
)

const (
	// silentRTOs is how many retransmission timeouts a server may owe an answer before it gets no
	// more calls.
	silentRTOs = 4
	// A silent server is asked for a sign of life after Timing.RTOMin, then less and less often.
	maxListen = 250 * time.Millisecond
	// A server that could not be reached is tried again after redialAfter, then less and less often.
	maxRedial = time.Second
)

// errNotSent ends a call that came to a Client of a Pool when its server took none. Nothing was
// sent, and the Pool chooses again.
var errNotSent = notRun("not sent")

// errSilent is why a silent server gets no calls.
var errSilent = fmt.Errorf("%w: it owes answers and is silent", ErrPeerLost)

// member is a server of a Pool: a Client that is never asked to connect, but keeps a session open
// by itself, and tells the Pool when it takes calls. Only a Pool calls its Client. The fields of
// the loop describe the server; update derives its state from them and shows it in the fields under
// the Pool's mutex.
type member struct {
	pool     *Pool
	c        *Client
	text     string
	inFlight atomic.Int64 // calls that chose it and have not ended

	// In the Client's loop only.
	state    ServerState
	err      error         // why it failed last
	drains   bool          // it has said that it shuts down
	lost     bool          // it had a session, and has none
	failed   bool          // it could not be reached
	leaving  bool          // the Pool wants no more of it; it ends when it has no calls
	news     bool          // err has changed
	silent   monotime.Time // since when it gets no calls for its silence; 0: it is not silent
	probeAt  monotime.Time // when it is asked again for a sign of life
	probeFor time.Duration
	retryFor time.Duration

	// Under pool.mu.
	shown    ServerState
	shownErr error
	hope     bool // calls may wait for it, as they do for no other server that has failed
}

// join begins to keep a session open. It runs in the loop.
func (m *member) join() {
	if m.c.loop.join(m.c) {
		m.redial()
	}
	m.update()
}

// judge derives the state of the server.
func (m *member) judge() ServerState {
	c := m.c
	switch {
	case c.over || m.leaving:
		return serverGone
	case m.drains:
		return ServerDraining
	case m.silent != 0:
		return ServerEjected
	case len(c.all) > c.connecting:
		return ServerReady
	case m.lost:
		return ServerEjected
	case m.failed:
		return ServerFailing
	}
	return ServerConnecting
}

// update tells the Pool the state if it has changed. Calls that wait here go to other servers then,
// and if there is no session the next one is opened.
func (m *member) update() {
	before := m.state
	c := m.c
	if m.state = m.judge(); m.state != before || m.news || c.over {
		m.news = false
		m.pool.show(m)
	}
	if m.state != ServerReady {
		c.holding = false
		for c.queue.n > 0 {
			k := c.queue.first
			c.queue.remove(k)
			if k.refusal != nil {
				k.end(k.refusal)
			} else {
				k.end(errNotSent)
			}
		}
	}
	if len(c.all) == 0 && !c.redial.awaiting && m.state != serverGone && c.alarms.redial == 0 {
		c.alarms.redial = c.rpc.readClock().Add(m.retryFor)
		c.arm()
	}
}

// redial opens a session if there is none. It follows an alarm, which also ends the Client of a
// server that leaves.
func (m *member) redial() {
	c := m.c
	switch {
	case c.over:
	case m.leaving:
		if c.calls == 0 {
			c.closed.Store(true)
			c.finish()
		}
	case len(c.all) == 0 && !c.redial.awaiting:
		if err := c.want(); err != nil {
			m.fail(err)
		}
	}
}

// opened takes a session that has been opened.
func (m *member) opened() {
	m.drains, m.lost, m.failed, m.silent, m.err = false, false, false, 0, nil
	m.retryFor = 0
	m.update()
}

// onSession follows the end of a session, of which the Client knows already.
func (m *member) onSession(l *clientSession, ev SessionEvent) {
	c := m.c
	switch ev {
	case SessionDraining:
		m.drain()
		return
	case SessionRefused:
		m.fail(l.s.Err())
		return
	}
	if len(c.all) == c.connecting && ev != SessionClosed {
		m.lost, m.silent = true, 0
		m.err = l.s.Err()
	}
	m.update()
}

// drain notes that the server shuts down.
func (m *member) drain() {
	if !m.drains {
		m.drains, m.lost, m.silent, m.err = true, true, 0, ErrDraining
		m.retireAll()
		m.update()
	}
}

// retireAll gives the sessions that are open no more calls.
func (m *member) retireAll() {
	for _, l := range slices.Clone(m.c.all) {
		if l.slots > 0 {
			m.c.retire(l)
		}
	}
}

// fail notes that the server could not be reached.
func (m *member) fail(err error) {
	if errors.Is(err, ErrConnect) || errors.Is(err, ErrResolve) {
		m.drains = false // it has ended
	}
	m.failed, m.err, m.news = true, err, true
	m.retryFor = min(max(2*m.retryFor, redialAfter), maxRedial)
	m.update()
}

// emptied follows the last call of the Client.
func (m *member) emptied() {
	if m.leaving {
		m.leave()
	}
}

// leave makes the Client end as soon as it has no calls.
func (m *member) leave() {
	m.leaving = true
	if m.update(); m.c.calls == 0 && !m.c.over {
		m.c.alarms.redial = m.c.rpc.readClock() // not now: a continuation may be at work
		m.c.arm()
	}
}

// overdue follows a request that has timed out twice. If the server is silent for silentRTOs it
// gets no more calls; else it is looked at again when it would be.
func (m *member) overdue() {
	c := m.c
	if m.silent != 0 || c.over {
		return
	}
	left := time.Duration(0)
	for _, list := range [...][]*clientSession{c.all, c.retired} {
		for _, l := range list {
			silent, rto := l.s.Silence()
			if silent == 0 {
				continue
			}
			if silent >= silentRTOs*rto {
				m.onSilence()
				return
			}
			if d := silentRTOs*rto - silent; left == 0 || d < left {
				left = d
			}
		}
	}
	if left > 0 {
		c.alarms.listen = c.rpc.readClock().Add(left)
		c.arm()
	}
}

// onSilence stops the calls to a silent server.
func (m *member) onSilence() {
	now := m.c.rpc.readClock()
	m.silent, m.probeAt, m.probeFor = now, now, m.c.rpc.cfg.Timing.RTOMin
	m.err = errSilent
	m.update()
	m.listen()
}

// listen asks a silent server for a sign of life, until there is one or its sessions end. It
// follows an alarm.
func (m *member) listen() {
	c := m.c
	if m.silent == 0 {
		m.overdue()
		return
	}
	now := c.rpc.readClock()
	e := &c.rpc.engine
	for _, list := range [...][]*clientSession{c.all, c.retired} {
		for _, l := range list {
			switch {
			case l.s.state != sessConnected:
			case l.s.assoc.watch.HeardSince(m.silent):
				m.silent, m.err = 0, nil
				m.update()
				return
			case now >= m.probeAt:
				l.s.live.Probe(l.s.end, e.rng.Uint64(), now, e.out)
				m.probeAt = now.Add(m.probeFor)
				m.probeFor = min(2*m.probeFor, maxListen)
			}
		}
	}
	c.alarms.listen = now.Add(c.rpc.cfg.Timing.RTOMin)
	c.arm()
}
