package erpc

import (
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
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

// Session is one end of a session, the client's or the server's. It belongs to an Rpc and is used
// only in that Rpc's thread, except Peer, UserData and SetUserData, which are safe anywhere.
type Session struct {
	user     atomic.Pointer[any]
	ofClient *clientSession // client: of a Client

	// The end of conn, what follows, and the half that comes behind are what each packet needs.
	conn engine.Conn
	rpc  *Rpc
}

// clientEnd and serverEnd are a session in one piece of memory. They are the Owner of its Conn.
type (
	clientEnd struct {
		Session
		half session.Client
	}
	serverEnd struct {
		Session
		half engine.ServerHalf
		jobs slotJobs // background requests
	}
)

// newConn makes a session's end for the engine.
func (r *Rpc) newConn(client bool) *engine.Conn {
	if client {
		end := &clientEnd{Session: Session{rpc: r}}
		end.conn.Owner = end
		end.conn.InitClient(&end.half)
		return &end.conn
	}
	end := &serverEnd{Session: Session{rpc: r}}
	end.conn.Owner = end
	end.conn.InitServer(&end.half)
	return &end.conn
}

// sessionOf returns the session that a Conn is of.
func sessionOf(c *engine.Conn) *Session {
	if end, ok := c.Owner.(*clientEnd); ok {
		return &end.Session
	}
	return &c.Owner.(*serverEnd).Session
}

// Prefetch tells the processor that a request on this session is about to be
// enqueued. It is worth its few nanoseconds with thousands of sessions, a few requests
// ahead: most sessions are not in the cache then.
func (s *Session) Prefetch() { s.conn.Prefetch() }

// Peer returns the address of the other side.
func (s *Session) Peer() transport.Addr { return s.conn.Peer() }

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
func (s *Session) IsClient() bool { return s.conn.Client != nil }

// Draining reports whether a client session takes no new requests, since its server shuts down or
// its request numbers are used up: those under way go on, new ones are refused with ErrDraining.
func (s *Session) Draining() bool { return s.conn.Client != nil && s.conn.Client.Draining() }

// Connected reports whether the session is open.
func (s *Session) Connected() bool { return s.conn.Open() }

// Err returns why the session ended, or nil.
func (s *Session) Err() error { return s.conn.Err() }

// Params returns what both sides agreed on; zero before that.
func (s *Session) Params() Params { return Params(s.conn.End.Params) }

// Pending returns the requests in flight and in the queue of a client session.
func (s *Session) Pending() (inFlight, queued int) {
	if s.conn.Client == nil {
		return 0, 0
	}
	return s.conn.Client.Pending()
}

// Silence returns how long the server of a client session has owed an answer while nothing was
// heard of it, in any session with it; 0 if it owes none. A handler that takes long is no silence:
// its server says that it works on the request. Rto is the session's retransmission timeout without
// backoff. It looks at all slots of the session.
func (s *Session) Silence() (silent, rto time.Duration) {
	heard, ok := s.conn.LastHeard()
	if s.conn.Client == nil || !ok {
		return 0, 0
	}
	since, rto, ok := s.conn.Client.Owed()
	if !ok {
		return 0, rto
	}
	return max(s.rpc.engine.Now().Sub(max(since, heard)), 0), rto
}

// Rate returns the rate in bits per second that congestion control allows a client
// session, packet headers included, and whether it is less than the link's. It is 0
// for a server session and without congestion control.
func (s *Session) Rate() (bitsPerSec float64, limited bool) {
	if s.conn.Client == nil {
		return 0, false
	}
	return 8 * s.conn.Client.Rate(), s.conn.Client.Congested()
}

// Window returns how many packets a client session may have in flight now: of Params.Credits as
// many as its path fills, or all if Config.Credits is set.
func (s *Session) Window() int {
	if s.conn.Client == nil {
		return 0
	}
	return s.conn.Client.Window()
}

// Credits returns the free credits of a client session; 0 if more packets are in flight than its
// window has.
func (s *Session) Credits() int {
	if s.conn.Client == nil {
		return 0
	}
	return s.conn.Client.FreeCredits()
}
