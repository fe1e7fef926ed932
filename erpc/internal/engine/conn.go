package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// Fate says how a session ended.
type Fate uint8

// The fates.
const (
	Refused      Fate = iota + 1 // client: the server refused, or nobody answered
	Lost                         // the peer has been silent too long
	Restarted                    // the peer does not know the session any more
	Disconnected                 // the peer ended it
	Closed                       // this side ended it
)

// connState says how far a session is. The order is that of a life.
type connState uint8

const (
	connecting connState = iota
	connected
	ending  // its end has been decided; requests and owner learn of it next
	closing // ended from this side; the Disconnect is repeated until it is acknowledged
	dead    // not in the table any more
)

// Conn is one end of a session, the client's or the server's. Config.NewConn makes its memory, so
// that it lies in what the owner keeps of the session, next to its half.
type Conn struct {
	shown atomic.Pointer[transport.Addr] // see showPeer

	dialer    *session.Dialer  // while connecting
	srv       *serverState     // nil for a client
	plan      *pathPlan        // client: what the way to the peer asks for
	epoch     uint64           // client: of the server's endpoint
	lingerAt  monotime.Time    // when a closing session is forgotten
	nextAt    monotime.Time    // when Disconnect is repeated
	asks      bool             // client: it is to ask whether its peer knows it
	host      string           // client: of the server, as it was dialled; "" for an IP address
	handshake *clientHandshake // client: while keys are made or used first; nil without security
	identity  *Identity        // of the peer; nil without security
	err       error            // why it ended

	// State that each packet needs, and at the end, next to the half: see Prefetch.
	live  session.Liveness
	assoc *association // while connected
	// Owner refers to the owner's part of the session. Config.NewConn sets it.
	Owner    any
	End      *session.End // of the half
	listed   int32        // place in peer.sessions
	activeAt int32        // place in timers.active, from 1; 0 if it is not there
	state    connState
	fate     Fate            // how it ended
	Shared   bool            // server: the peer can change what came; see transport.Path
	tell     bool            // the peer must be sent the end
	hidden   bool            // the owner knows nothing of it
	judged   bool            // client: whether its server is welcome is being asked, or has been
	welcome  bool            // client: it is
	watched  bool            // client: see Watch
	Client   *session.Client // nil at a server
	Server   *session.Server // nil at a client
}

// HotConn is how many bytes from Conn.live on, and of the owner's behind a Conn, a packet needs.
const HotConn = 96

// serverState holds the fields that a client's session does not need.
type serverState struct {
	key    connKey // what a repeated Connect is known by
	taken  []byte  // what the peer is told at the end: the requests that were taken
	notice notice  // of a shutdown
	quota  *Quota  // of the peer
}

// ServerHalf is a server's half of a session with what belongs to it.
type ServerHalf struct {
	session.Server
	state serverState
}

// InitClient makes c, which is zero, a client's end with a half.
func (c *Conn) InitClient(half *session.Client) { c.Client, c.End = half, &half.End }

// InitServer makes c, which is zero, a server's end with a half.
func (c *Conn) InitServer(half *ServerHalf) {
	c.Server, c.End, c.srv = &half.Server, &half.End, &half.state
}

// Prefetch asks for what a packet of the session needs.
func (c *Conn) Prefetch() {
	// It must not look which half this is: that would be a cache miss to wait for.
	sys.Prefetch(&c.live, HotConn+session.ClientHot)
}

// Peer returns the address of the other side. It is safe in any goroutine.
func (c *Conn) Peer() transport.Addr { return *c.shown.Load() }

// showPeer says to other goroutines where the peer is; End.Peer is the loop's own.
func (c *Conn) showPeer() {
	at := c.End.Peer
	c.shown.Store(&at)
}

// Open reports whether the session is open.
func (c *Conn) Open() bool { return c.state == connected }

// Ended reports whether the session is over; then Err says why.
func (c *Conn) Ended() bool { return c.state > connected }

// Persist makes a session that is being opened go on, until its time is up, also if the network
// says that nobody listens at the port: its server may be about to return. The owner gets
// EventUnreachable then.
func (c *Conn) Persist() {
	if c.dialer != nil { // else it has ended
		c.dialer.Persist = true
	}
}

// Err returns why the session ended, or nil.
func (c *Conn) Err() error { return c.err }

// Identity returns who the peer is; nil if its packets are plain, or before the session is open.
func (c *Conn) Identity() *Identity { return c.identity }

// Epoch returns the incarnation of a client's server.
func (c *Conn) Epoch() uint64 { return c.epoch }

// Quota returns what a server's peer counts for.
func (c *Conn) Quota() *Quota { return c.srv.quota }

// Hidden reports whether the session was made by the engine for its own use.
func (c *Conn) Hidden() bool { return c.hidden }

// Active reports whether a client's session has requests.
func (c *Conn) Active() bool { return c.activeAt != 0 }

// LastHeard returns when something was heard of the peer, in any session with it; ok is false if
// the session is not open.
func (c *Conn) LastHeard() (at monotime.Time, ok bool) {
	if c.assoc == nil {
		return 0, false
	}
	return c.assoc.watch.LastHeard(), true
}

// connTable holds the sessions of an endpoint: by number, and the server's ends also by the
// attempt to connect that made them. A session is in it until everybody knows that it has ended.
type connTable struct {
	first    uint32   // the first number: it says the endpoint's loop
	byNumber []*Conn  // from first on; nil is free
	free     []uint32 // the number free for longest first
	live     int      // sessions in the table
	byKey    map[connKey]*Conn
}

// connKey names an attempt to connect, by what its sender has proved: its association, or without
// one its address.
type connKey struct {
	from  transport.Addr
	via   uint32
	nonce uint64
}

// at returns the session with a number, or nil. Those of other loops are not in the table.
func (t *connTable) at(number uint32) *Conn {
	i := number - t.first
	if i >= uint32(len(t.byNumber)) {
		return nil
	}
	return t.byNumber[i]
}

// next returns the number that the next session gets.
func (t *connTable) next() uint32 {
	if len(t.free) > 0 {
		return t.free[0]
	}
	return t.first + uint32(len(t.byNumber))
}

// add puts s under the number that next has returned, which is s.End.Local.
func (t *connTable) add(s *Conn) {
	if len(t.free) > 0 {
		t.free = t.free[1:]
		t.byNumber[s.End.Local-t.first] = s
	} else {
		t.byNumber = append(t.byNumber, s)
	}
	t.live++
	if invariants.Enabled {
		t.check()
	}
}

// addKey makes s known by the attempt that opened it.
func (t *connTable) addKey(key connKey, s *Conn) {
	if t.byKey == nil {
		t.byKey = make(map[connKey]*Conn)
	}
	s.srv.key = key
	t.byKey[key] = s
}

// remove takes s out. Its number can be used again.
func (t *connTable) remove(s *Conn) {
	t.byNumber[s.End.Local-t.first] = nil
	t.free = append(t.free, s.End.Local)
	t.live--
	if s.srv != nil && t.byKey[s.srv.key] == s {
		delete(t.byKey, s.srv.key)
	}
	if invariants.Enabled {
		t.check()
	}
}

// Running returns how many requests wait for their handlers.
func (e *Engine) Running() int {
	n := 0
	for _, s := range e.table.byNumber {
		if s != nil && s.Server != nil {
			n += s.Server.Running()
		}
	}
	return n
}

// check panics if a number is neither free nor that of the session under it, or both.
func (t *connTable) check() {
	if t.live+len(t.free) != len(t.byNumber) {
		panic("erpc: session numbers were lost")
	}
	for _, n := range t.free {
		if t.at(n) != nil {
			panic("erpc: the number of a session is free")
		}
	}
}

// notice is how far a client has been told that this side shuts down.
type notice struct {
	at    monotime.Time // when it is told again
	tries uint8
	acked bool
}

// noticesPerTick bounds how many clients are told at a time: they all answer.
const noticesPerTick = 256

// RefuseNew answers new sessions with "shutting down" from now on, and tells clients.
func (e *Engine) RefuseNew() {
	if !e.refusing {
		e.refusing = true
		e.startNotices()
	}
}

// startNotices begins to tell all clients that this side shuts down, so that they send nothing
// new here.
func (e *Engine) startNotices() {
	for _, s := range e.table.byNumber {
		if s != nil && s.Server != nil && s.state == connected {
			e.notices = append(e.notices, s)
		}
	}
	e.timers.nextScan = e.in.Now
}

// repeatNotices tells clients that have not acknowledged it, each less and less often.
func (e *Engine) repeatNotices() {
	sent := 0
	for i := 0; i < len(e.notices); {
		s := e.notices[i]
		if s.state != connected || s.srv.notice.acked {
			last := len(e.notices) - 1
			e.notices[i] = e.notices[last]
			e.notices[last] = nil
			e.notices = e.notices[:last]
			continue
		}
		i++
		if n := &s.srv.notice; e.in.Now >= n.at && sent < noticesPerTick {
			sent++
			t := &e.cfg.Timing
			n.at = e.in.Now.Add(min(t.ConnectRetry<<min(n.tries, 10), max(t.RTOMax, time.Millisecond)))
			n.tries = min(n.tries+1, 10)
			s.live.Drain(s.End, s.Server.AppendTaken(nil, false), e.Out)
		}
	}
}

// onDrain takes a server's word that it shuts down.
func (e *Engine) onDrain(s *Conn, a *wire.Alive, t wire.Taken) {
	if s.Client == nil || s.state != connected {
		return
	}
	s.live.DrainAck(s.End, a.Seq, e.Out)
	if !s.Client.Drain(e.Out) {
		return
	}
	if t.Slots() > 0 {
		e.Out.Flush()
		s.Client.NotTaken(t, ErrDraining, e.in.Now, e.Out)
	}
	e.Out.Tell(session.EventDraining, s.End.Local)
}

// An owner may want to be rid of a peer that it has let in, since its certificate was revoked, say.
// Then all sessions of its association end, and the association is shut: it stays until the peer
// knows that they have ended, and as long as any other, but no session opens on it. A client that
// tries is told that the keys are worn, and begins anew with a handshake, which says whether it is
// still welcome.

// Known is a peer that has sessions here, or keys by which it could open some.
type Known struct {
	Identity // of a peer in the clear its address, and its user if that is trusted
	of       *association
}

// Known returns all peers that are not shut. What they are may be looked at in any goroutine.
func (e *Engine) Known() (list []Known) {
	for _, all := range [][]*association{e.assocs.watched, e.assocs.idle} {
		for _, a := range all {
			switch {
			case a.shut:
			case a.state != nil:
				list = append(list, Known{*a.state, a})
			case e.trustsAddr(a.addr):
				list = append(list, Known{*localIdentity(a.addr, false), a})
			default:
				list = append(list, Known{Identity{Peer: a.addr, UID: -1}, a})
			}
		}
	}
	return list
}

// Shut ends all sessions with peers, and has no more open on the keys that they have. It returns
// how many sessions it has ended. Peers that have gone meanwhile have none.
func (e *Engine) Shut(peers []Known) (ended int) {
	for _, k := range peers {
		a := k.of
		if a.keys != nil {
			a.shut = true
			e.distrust(a.field)
		}
		for _, s := range slices.Clone(a.sessions) {
			if s.state == connected {
				e.CloseConn(s)
				ended++
			}
		}
	}
	return ended
}

// Handshaking reports whether a handshake is under way that a client has begun until a time, or one
// of this side's own: the peer may have been let in by what counted then.
func (e *Engine) Handshaking(until monotime.Time) bool {
	if e.security == nil {
		return false
	}
	for _, n := range e.security.halfOpen.byKey {
		if !n.ended && n.expires <= until.Add(e.cfg.Timing.ConnectTimeout) {
			return true
		}
	}
	for _, s := range e.security.dials {
		if s.handshake.begun() && e.in.Now <= until.Add(e.cfg.Timing.ConnectTimeout) {
			return true
		}
	}
	return false
}
