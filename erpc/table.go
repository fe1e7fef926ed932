package erpc

import (
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// newSession takes a session number and makes a client's or a server's end, or returns
// nil if there is no number left.
func (e *engine) newSession(peer transport.Addr, client bool) *Session {
	if e.numLive >= e.cfg.MaxSessions {
		return nil
	}
	var s *Session
	if client {
		end := new(clientEnd)
		s = &end.Session
		s.cl = &end.half
	} else {
		end := new(serverEnd)
		s = &end.Session
		s.sv = &end.half
	}
	var n uint32
	if len(e.freeNums) > 0 {
		n = e.freeNums[0] // the one free for longest
		e.freeNums = e.freeNums[1:]
	} else {
		n = uint32(len(e.sessions))
		e.sessions = append(e.sessions, nil)
	}
	s.rpc, s.peer, s.number, s.token = e.rpc, peer, n, e.rng.Uint32()
	e.sessions[n] = s
	e.numLive++
	return s
}

// dial makes a client session and starts to connect it.
func (e *engine) dial(peer transport.Addr) (*Session, error) {
	if e.closing {
		return nil, ErrClosed
	}
	s := e.newSession(peer, true)
	if s == nil {
		return nil, ErrExhausted
	}
	mtu := e.mtu
	if n := e.rpc.tr.Path(peer).MTU; n >= session.MinMTU {
		mtu = min(mtu, n)
	}
	c := wire.Connect{Nonce: e.rng.Uint64(), Epoch: e.epoch, Session: s.number, Token: s.token, Offer: e.offer(uint32(mtu))}
	s.cl.Init(e.cfg.Timing, e.cfg.MaxQueue, e.pool, e.pacing, &e.proto)
	s.dialer = session.NewDialer(c, e.cfg.Timing, e.now)
	e.changing = append(e.changing, s)
	_ = s.dialer.Tick(e.now, e.out) // cannot time out yet
	e.collect(s)
	return s, nil
}

// fail ends a session: its requests end with err, its buffers come back.
func (e *engine) fail(s *Session, err error, ev SessionEvent) {
	if s.state == sessDead {
		return
	}
	if s.state == sessClosing {
		e.forget(s) // the application knows already
		return
	}
	e.end(s, err)
	e.forget(s)
	e.cfg.Logger.Info("session ended", "peer", s.peer.String(), "event", ev.String(), "error", err)
	e.notify(s, ev)
}

// end closes the protocol halves of a session, which stays in the table.
func (e *engine) end(s *Session, err error) {
	if s.err != nil {
		return
	}
	s.err = err
	s.dialer = nil
	if s.sv != nil {
		e.rpc.drain() // its responses may be queued
		s.sv.Close()
		return
	}
	s.cl.Close(err, e.out)
	e.rpc.drain() // before buffers go back to the application
	e.collect(s)
}

// forget removes a session from the table; its number can be used again.
func (e *engine) forget(s *Session) {
	if s.state == sessDead {
		return
	}
	s.state = sessDead
	e.sessions[s.number] = nil
	e.freeNums = append(e.freeNums, s.number)
	e.numLive--
	e.stats.SessionsEnded++
	e.leave(s)
	if s.sv == nil {
		return
	}
	if e.byKey[s.key] == s {
		delete(e.byKey, s.key)
	}
	if ps := e.epochs[s.peer]; ps != nil {
		if ps.sessions--; ps.sessions == 0 {
			delete(e.epochs, s.peer)
		}
	}
}

// closeSession ends a session from this side and tells the peer until it answers.
func (e *engine) closeSession(s *Session) {
	if s.state == sessDead || s.state == sessClosing {
		return
	}
	connected := s.state == sessConnected
	if connected {
		s.state = sessClosing
	}
	e.end(s, ErrClosed)
	if !connected {
		e.forget(s)
		e.notify(s, SessionClosed)
		return
	}
	s.lingerAt = e.now + int64(e.cfg.Timing.DisconnectLinger)
	e.disconnect(s)
	e.changing = append(e.changing, s)
	e.notify(s, SessionClosed)
}

func (e *engine) disconnect(s *Session) {
	s.nextAt = e.now + int64(e.cfg.Timing.ConnectRetry)
	s.live.Disconnect(e.out)
	e.collect(s)
}

func (e *engine) notify(s *Session, ev SessionEvent) {
	if e.cfg.OnSession != nil {
		e.cfg.OnSession(e.rpc, s, ev)
	}
}

// tick does what time asks for, once per epoch: loss scan, deadlines, handshakes,
// heartbeats.
func (e *engine) tick() {
	t := &e.cfg.Timing
	e.nextScan = e.now + int64(t.RTOMin)/4
	e.scanLoss()
	e.scanChanging()
	e.expire()
	if e.onIdle != nil {
		e.checkIdle()
	}
	if e.now >= e.nextSweep {
		e.nextSweep = e.now + int64(t.Heartbeat)/sweepsPerHeartbeat
		e.resetsLeft = resetsPerSweep
		e.sweep()
	}
}

// activate notes that a client session has requests, so that scanLoss looks at it.
func (e *engine) activate(s *Session) {
	if s.activeAt == 0 {
		e.active = append(e.active, s)
		s.activeAt = int32(len(e.active))
	}
}

// deactivate undoes activate if the session has no requests any more. Only sessions
// with requests are looked at, however many there are.
func (e *engine) deactivate(s *Session) {
	if s.activeAt == 0 || !s.cl.Idle() {
		return
	}
	last := e.active[len(e.active)-1]
	e.active[s.activeAt-1] = last
	last.activeAt = s.activeAt
	e.active[len(e.active)-1] = nil
	e.active = e.active[:len(e.active)-1]
	s.activeAt = 0
}

// scanLoss looks for overdue answers in the sessions that have requests.
func (e *engine) scanLoss() {
	for i := 0; i < len(e.active); {
		s := e.active[i]
		if s.state == sessConnected {
			retries := s.cl.Scan(e.now, e.out)
			if retries >= 2 && e.now-s.live.Probed() > int64(e.cfg.Timing.RTOMin) {
				s.live.Probe(e.now, e.out) // does it know this session?
			}
			e.collect(s)
		}
		if i < len(e.active) && e.active[i] == s {
			i++ // else it was deactivated, and another is in its place
		}
	}
}

// scanChanging repeats handshake packets.
func (e *engine) scanChanging() {
	for i := 0; i < len(e.changing); {
		s := e.changing[i]
		switch {
		case s.state == sessConnecting:
			err := s.dialer.Tick(e.now, e.out)
			e.collect(s)
			if err != nil {
				e.fail(s, err, SessionRefused)
			}
		case s.state == sessClosing && e.now >= s.lingerAt:
			e.forget(s)
		case s.state == sessClosing && e.now >= s.nextAt:
			e.disconnect(s)
		}
		if s.state == sessConnecting || s.state == sessClosing {
			i++
			continue
		}
		last := len(e.changing) - 1
		e.changing[i] = e.changing[last]
		e.changing[last] = nil
		e.changing = e.changing[:last]
	}
}

// whenIdle calls fn once when no handler has run for a time of ns.
func (r *Rpc) whenIdle(ns int64, fn func()) {
	e := &r.engine
	e.idleFor, e.idleSince, e.onIdle = ns, 0, fn
	e.nextScan = e.now
}

func (e *engine) checkIdle() {
	switch {
	case e.rpc.Running() > 0:
		e.idleSince = 0
	case e.idleSince == 0:
		e.idleSince = e.now
	case e.now-e.idleSince >= e.idleFor || e.numLive == 0:
		fn := e.onIdle
		e.onIdle = nil
		fn()
	}
}

// idleUntil returns when the loop wants to run next, ns.
func (e *engine) idleUntil() int64 {
	if len(e.out.Tx) > 0 {
		return e.now + fullFor
	}
	wake := e.nextTick()
	if e.wheel != nil {
		if at, ok := e.wheel.Next(); ok {
			wake = min(wake, at)
		}
	}
	return wake
}

// nextTick returns when tick wants to be called next, ns.
func (e *engine) nextTick() int64 {
	if len(e.active) > 0 || len(e.changing) > 0 || e.ops.deadlines > 0 || e.onIdle != nil {
		return e.nextScan
	}
	if e.numLive > 0 {
		return max(e.nextSweep, e.nextScan)
	}
	return 1<<63 - 1
}
