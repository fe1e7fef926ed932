package erpc

import (
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// The errors of the library; use errors.Is. After ErrPeerLost, ErrPeerRestarted,
// ErrDeadline, ErrCancelled and ErrClosed the server may or may not have run the
// request: the outcome is unknown, and the library never repeats it.
var (
	ErrRefused       = session.ErrRefused       // the server refused the session
	ErrConnect       = session.ErrTimeout       // nobody answered the attempt to connect
	ErrPeerLost      = session.ErrPeerLost      // the peer has been silent for FailureTimeout
	ErrPeerRestarted = session.ErrPeerRestarted // the peer does not know the session any more
	ErrDeadline      = errors.New("deadline exceeded")
	ErrCancelled     = errors.New("cancelled")
	ErrNoHandler     = errors.New("no handler for this request type")
	ErrTooLarge      = session.ErrTooLarge  // request or response larger than a side takes
	ErrExhausted     = session.ErrExhausted // out of slots in a queue, sessions, memory or workers
	ErrWrongThread   = errors.New("called while another goroutine runs this Rpc's event loop")
	ErrClosed        = session.ErrClosed          // the session, Rpc, Client or Server was closed
	ErrResponded     = session.ErrNotHandling     // second response, or the request's session ended
	ErrBufferInUse   = msgbuf.ErrInUse            // the library owns the buffer
	ErrBufferFreed   = msgbuf.ErrFreed            // the buffer was freed
	ErrRemote        = errors.New("remote error") // matches every *RemoteError
	ErrConfig        = errors.New("bad config")   // matches every *ConfigError
	ErrReqType       = errors.New("request type out of range")
	ErrRequest       = errors.New("request incomplete or for another Rpc's session")
	ErrPanic         = errors.New("handler panicked")
)

// RemoteError is an error that the server sent instead of a response. It matches
// ErrRemote and the named error of its code.
type RemoteError struct {
	Code wire.Code
	Text string
}

func (e *RemoteError) Error() string {
	if e.Code == wire.CodeApplication {
		return e.Text
	}
	if e.Text == "" {
		return "remote: " + e.Code.String()
	}
	return fmt.Sprintf("remote: %s: %s", e.Code, e.Text)
}

// Is reports whether target is ErrRemote or the error of e's code.
func (e *RemoteError) Is(target error) bool {
	if target == ErrRemote {
		return true
	}
	switch e.Code {
	case wire.CodeNoHandler:
		return target == ErrNoHandler
	case wire.CodeTooLarge:
		return target == ErrTooLarge
	case wire.CodeExhausted:
		return target == ErrExhausted
	case wire.CodeShutdown:
		return target == ErrClosed
	case wire.CodePanic:
		return target == ErrPanic
	}
	return false
}
