package erpc

import (
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
)

// String returns the event's name.
func (e SessionEvent) String() string {
	if e <= SessionClosed {
		return [...]string{"connected", "refused", "lost", "restarted", "disconnected", "closed"}[e]
	}
	return "unknown"
}

type sessionState uint8

const (
	sessConnecting sessionState = iota
	sessConnected
	sessClosing // Disconnect sent, not acknowledged
	sessDead    // not in the table any more
)

// Session is one end of a session, the client's or the server's. It belongs to an
// Rpc and is used only in that Rpc's thread.
type Session struct {
	// UserData is the application's own.
	UserData any

	dialer   *session.Dialer // while connecting
	key      connKey         // server: what a repeated Connect is known by
	epoch    uint64          // of the peer's endpoint
	params   session.Params
	offer    wire.Offer // agreed; what a repeated Accept says
	lingerAt int64      // when a closing session is forgotten, ns
	nextAt   int64      // when Disconnect is repeated, ns

	// What each packet needs, and at the end, next to the half: see prefetch.
	live     session.Liveness
	other    *peer // while connected
	listed   int32 // place in other.sessions
	err      error // why it ended
	rpc      *Rpc
	peer     transport.Addr
	token    uint32 // that packets to this session carry
	number   uint32
	state    sessionState
	checksum bool
	activeAt int32 // place in engine.active, from 1; 0 if it is not there
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
	}
)

// hotSession is how many bytes from Session.live on a packet needs.
const hotSession = 136

// Prefetch tells the processor that a request on this session is about to be
// enqueued. It is worth its few nanoseconds with thousands of sessions, a few requests
// ahead: most sessions are not in the cache then.
func (s *Session) Prefetch() {
	// Which half it is must not be looked at: that would be a miss to wait for.
	sys.Prefetch(&s.live, hotSession+session.ClientHot)
}

// connKey names an attempt to connect.
type connKey struct {
	from  transport.Addr
	nonce uint64
}

// Peer returns the address of the other side.
func (s *Session) Peer() transport.Addr { return s.peer }

// IsClient reports whether this side sends the requests.
func (s *Session) IsClient() bool { return s.cl != nil }

// Connected reports whether the session is open.
func (s *Session) Connected() bool { return s.state == sessConnected }

// Err returns why the session ended, or nil.
func (s *Session) Err() error { return s.err }

// Params returns what both sides agreed on; zero before that.
func (s *Session) Params() session.Params { return s.params }

// Pending returns the requests in flight and in the queue of a client session.
func (s *Session) Pending() (inFlight, queued int) {
	if s.cl == nil {
		return 0, 0
	}
	return s.cl.Pending()
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
