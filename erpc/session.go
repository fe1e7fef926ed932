package erpc

import (
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// SessionEvent says what became of a session.
type SessionEvent uint8

// The session events.
const (
	SessionConnected    SessionEvent = iota // both sides agreed
	SessionRefused                          // client: the server refused, or nobody answered
	SessionLost                             // the peer has been silent too long
	SessionRestarted                        // the peer does not know the session any more
	SessionDisconnected                     // the peer ended it
	SessionClosed                           // this side ended it
	// client: the session takes no new requests, since the server shuts down; or since it has used up
	// its request numbers, after 2^37 calls at least
	SessionDraining
)

// String returns the event's name.
func (e SessionEvent) String() string {
	if e <= SessionDraining {
		return [...]string{"connected", "refused", "lost", "restarted", "disconnected", "closed",
			"draining"}[e]
	}
	return "unknown"
}

// sessionState says how far a session is. The order is that of a life.
type sessionState uint8

const (
	sessConnecting sessionState = iota
	sessConnected
	sessEnding  // its end has been decided; requests and application learn of it next
	sessClosing // ended from this side; the Disconnect is repeated until it is acknowledged
	sessDead    // not in the table any more
)

// Session is one end of a session, the client's or the server's. It belongs to an Rpc and is used
// only in that Rpc's thread, except Peer, UserData and SetUserData, which are safe anywhere.
type Session struct {
	user  atomic.Pointer[any]
	shown atomic.Pointer[transport.Addr] // see showPeer

	dialer    *session.Dialer    // while connecting
	srv       *serverState       // nil for a client
	plan      *pathPlan          // client: what the way to the peer asks for
	epoch     uint64             // client: of the server's endpoint
	lingerAt  monotime.Time      // when a closing session is forgotten
	nextAt    monotime.Time      // when Disconnect is repeated
	fate      SessionEvent       // how it ended
	tell      bool               // the peer must be sent the end
	hidden    bool               // the application knows nothing of it
	probe     *session.PathProbe // client: while it suspects that its packets are too large
	ofClient  *clientSession     // client: of a Client
	host      string             // client: of the server, as it was dialled; "" for an IP address
	handshake *clientHandshake   // client: while keys are made or used first; nil without security
	identity  *ConnectionState   // of the peer; nil without security

	_ [8]byte // what follows begins with a line of the cache

	// State that each packet needs, and at the end, next to the half: see prefetch.
	live     session.Liveness
	assoc    *association // while connected
	err      error        // why it ended
	engine   *engine
	end      *session.End // of the half
	listed   int32        // place in peer.sessions
	activeAt int32        // place in timers.active, from 1; 0 if it is not there
	state    sessionState
	shared   bool // server: the peer can change requests after they came; see transport.Path
	cl       *session.Client
	sv       *session.Server
}

// clientEnd and serverEnd are a session in one piece of memory.
type (
	clientEnd struct {
		Session
		half session.Client
	}
	serverEnd struct {
		Session
		half session.Server
		serverState
	}
)

// serverState holds the fields that a client's session does not need.
type serverState struct {
	key    connKey    // what a repeated Connect is known by
	taken  []byte     // what the peer is told at the end: the requests that were taken
	jobs   slotJobs   // background requests
	notice notice     // of a shutdown
	quota  *addrQuota // of the peer
}

// newClientSession returns a client's end that is not in the table.
func newClientSession(e *engine) *Session {
	end := new(clientEnd)
	s := &end.Session
	s.engine, s.cl, s.end = e, &end.half, &end.half.End
	return s
}

// newServerSession returns a server's end that is not in the table.
func newServerSession(e *engine) *Session {
	end := new(serverEnd)
	s := &end.Session
	s.engine, s.sv, s.srv, s.end = e, &end.half, &end.serverState, &end.half.End
	return s
}

// hotSession is how many bytes from Session.live on a packet needs.
const hotSession = 96

// Prefetch tells the processor that a request on this session is about to be
// enqueued. It is worth its few nanoseconds with thousands of sessions, a few requests
// ahead: most sessions are not in the cache then.
func (s *Session) Prefetch() {
	// It must not look which half this is: that would be a cache miss to wait for.
	sys.Prefetch(&s.live, hotSession+session.ClientHot)
}

// Peer returns the address of the other side.
func (s *Session) Peer() transport.Addr { return *s.shown.Load() }

// showPeer says to other goroutines where the peer is; end.Peer is the loop's own.
func (s *Session) showPeer() {
	at := s.end.Peer
	s.shown.Store(&at)
}

// UserData returns the last value of SetUserData, nil before.
func (s *Session) UserData() any {
	if p := s.user.Load(); p != nil {
		return *p
	}
	return nil
}

// SetUserData keeps a value of the application's own with the session, such as the peer's name.
// Handlers find it through ReqHandle.Session.
func (s *Session) SetUserData(v any) { s.user.Store(&v) }

// IsClient reports whether this side sends the requests.
func (s *Session) IsClient() bool { return s.cl != nil }

// Draining reports whether a client session takes no new requests, since its server shuts down or
// its request numbers are used up: those under way go on, new ones are refused with ErrDraining.
func (s *Session) Draining() bool { return s.cl != nil && s.cl.Draining() }

// Connected reports whether the session is open.
func (s *Session) Connected() bool { return s.state == sessConnected }

// Err returns why the session ended, or nil.
func (s *Session) Err() error { return s.err }

// Params returns what both sides agreed on; zero before that.
func (s *Session) Params() Params { return Params(s.end.Params) }

// Pending returns the requests in flight and in the queue of a client session.
func (s *Session) Pending() (inFlight, queued int) {
	if s.cl == nil {
		return 0, 0
	}
	return s.cl.Pending()
}

// Silence returns how long the server of a client session has owed an answer while nothing was
// heard of it, in any session with it; 0 if it owes none. A handler that takes long is no silence:
// its server says that it works on the request. Rto is the session's retransmission timeout without
// backoff. It looks at all slots of the session.
func (s *Session) Silence() (silent, rto time.Duration) {
	if s.cl == nil || s.assoc == nil {
		return 0, 0
	}
	since, rto, ok := s.cl.Owed()
	if !ok {
		return 0, rto
	}
	return max(s.engine.in.Now.Sub(max(since, s.assoc.watch.LastHeard())), 0), rto
}

// Rate returns the rate in bits per second that congestion control allows a client
// session, packet headers included, and whether it is less than the link's. It is 0
// for a server session and without congestion control.
func (s *Session) Rate() (bitsPerSec float64, limited bool) {
	if s.cl == nil {
		return 0, false
	}
	return 8 * s.cl.Rate(), s.cl.Congested()
}

// Credits returns the free credits of a client session.
func (s *Session) Credits() int {
	if s.cl == nil {
		return 0
	}
	return s.cl.FreeCredits()
}

// sessionTable holds the sessions of an endpoint: by number, and the server's ends also by the
// attempt to connect that made them. A session is in it until everybody knows that it has ended.
type sessionTable struct {
	first    uint32     // the first number: it says the endpoint's loop
	byNumber []*Session // from first on; nil is free
	free     []uint32   // the number free for longest first
	live     int        // sessions in the table
	byKey    map[connKey]*Session
}

// connKey names an attempt to connect, by what its sender has proved: its association, or without
// one its address.
type connKey struct {
	from  transport.Addr
	via   uint32
	nonce uint64
}

// at returns the session with a number, or nil. Those of other loops are not in the table.
func (t *sessionTable) at(number uint32) *Session {
	i := number - t.first
	if i >= uint32(len(t.byNumber)) {
		return nil
	}
	return t.byNumber[i]
}

// next returns the number that the next session gets.
func (t *sessionTable) next() uint32 {
	if len(t.free) > 0 {
		return t.free[0]
	}
	return t.first + uint32(len(t.byNumber))
}

// add puts s under the number that next has returned, which is s.end.Local.
func (t *sessionTable) add(s *Session) {
	if len(t.free) > 0 {
		t.free = t.free[1:]
		t.byNumber[s.end.Local-t.first] = s
	} else {
		t.byNumber = append(t.byNumber, s)
	}
	t.live++
	if invariants.Enabled {
		t.check()
	}
}

// addKey makes s known by the attempt that opened it.
func (t *sessionTable) addKey(key connKey, s *Session) {
	if t.byKey == nil {
		t.byKey = make(map[connKey]*Session)
	}
	s.srv.key = key
	t.byKey[key] = s
}

// remove takes s out. Its number can be used again.
func (t *sessionTable) remove(s *Session) {
	t.byNumber[s.end.Local-t.first] = nil
	t.free = append(t.free, s.end.Local)
	t.live--
	if s.srv != nil && t.byKey[s.srv.key] == s {
		delete(t.byKey, s.srv.key)
	}
	if invariants.Enabled {
		t.check()
	}
}

// running returns how many requests wait for their handlers.
func (t *sessionTable) running() int {
	n := 0
	for _, s := range t.byNumber {
		if s != nil && s.sv != nil {
			n += s.sv.Running()
		}
	}
	return n
}

// check panics if a number is neither free nor that of the session under it, or both.
func (t *sessionTable) check() {
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

// startNotices begins to tell all clients that this side shuts down, so that they send nothing
// new here.
func (e *engine) startNotices() {
	for _, s := range e.table.byNumber {
		if s != nil && s.sv != nil && s.state == sessConnected {
			e.notices = append(e.notices, s)
		}
	}
	e.timers.nextScan = e.in.Now
}

// repeatNotices tells clients that have not acknowledged it, each less and less often.
func (e *engine) repeatNotices() {
	sent := 0
	for i := 0; i < len(e.notices); {
		s := e.notices[i]
		if s.state != sessConnected || s.srv.notice.acked {
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
			s.live.Drain(s.end, s.sv.AppendTaken(nil, false), e.out)
		}
	}
}

// onDrain takes a server's word that it shuts down.
func (e *engine) onDrain(s *Session, a *wire.Alive, t wire.Taken) {
	if s.cl == nil || s.state != sessConnected {
		return
	}
	s.live.DrainAck(s.end, a.Seq, e.out)
	news := s.cl.Drain(e.out)
	if news && t.Slots() > 0 {
		e.out.Flush()
		s.cl.NotTaken(t, ErrDraining, e.in.Now, e.out)
	}
	if news {
		e.settle()
		e.notify(s, SessionDraining)
	}
}
