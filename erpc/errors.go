package erpc

import (
	"errors"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
)

// The errors of the library; use errors.Is.
//
// An error that matches ErrNotRun says that the handler certainly did not run: the request was not
// sent, or the server refused it, or it was given up in a queue. After ErrPeerLost,
// ErrPeerRestarted, ErrPeerClosed, ErrOutOfStep, ErrDeadline, ErrCancelled and ErrClosed without
// that the server may or may not have run the request: the outcome is unknown, and the library
// never repeats it. An answer of the server is an *Error.
var (
	ErrNotRun = errors.New("request not run")

	// These match ErrNotRun.
	ErrResolve  = notRun("address not resolved")        // with the transport's error
	ErrRefused  = notRun("session refused")             // by the server
	ErrConnect  = notRun("connect timeout")             // nobody answered
	ErrVersion  = notRun("protocol version not spoken") // by the peer
	ErrDraining = notRun("peer is shutting down, request not run")
	ErrInsecure = notRun("the peer does not encrypt, and this side demands it, or the reverse")
	ErrDenied   = notRun("peer not authenticated") // with the reason of crypto/tls or Authorize

	ErrPeerLost      = errors.New("peer lost")                       // silent for FailureTimeout
	ErrPeerRestarted = errors.New("peer restarted, outcome unknown") // it does not know the session
	ErrPeerClosed    = errors.New("session closed by the peer, outcome unknown")
	ErrDeadline      = errors.New("deadline exceeded")
	ErrCancelled     = errors.New("cancelled")
	ErrOutOfStep     = errors.New("session out of step, outcome unknown") // a damaged packet
	ErrNoHandler     = errors.New("no handler for this request type")
	ErrTooLarge      = errors.New("message too large")  // for one of the sides
	ErrExhausted     = errors.New("resource exhausted") // queue, sessions, memory or workers
	// Where goroutines can be told apart; see Rpc.
	ErrWrongThread = errors.New(
		"this Rpc's event loop runs already, in another goroutine or this callback: use Rpc.Post")
	// A transport serves one endpoint.
	ErrTransportInUse = errors.New("transport in use: an endpoint owns it already")
	ErrClosed         = errors.New("closed")                             // by this side
	ErrResponded      = errors.New("no request waits for this response") // or its session ended
	ErrBufferInUse    = msgbuf.ErrInUse                                  // the library owns the buffer
	ErrBufferFreed    = msgbuf.ErrFreed                                  // the buffer was freed
	ErrBufferLeak     = msgbuf.ErrLeak                                   // from Rpc.Close
	ErrRemote         = errors.New("remote error")                       // matches every *Error
	ErrConfig         = errors.New("bad config")                         // matches every *ConfigError
	ErrReqType        = errors.New("request type out of range, must be 0 to 254")
	ErrRequest        = errors.New("request incomplete or for another Rpc's session")
	ErrPanic          = errors.New("handler panicked")
)

// errNotTaken is the ErrPeerClosed of a request that the server certainly never took.
var errNotTaken error = &causedError{notRun("session closed by the peer, request not run"),
	ErrPeerClosed}

// ownErrors are the library's names for the errors of the packages below it.
var ownErrors = []struct{ below, own error }{
	{session.ErrRefused, ErrRefused},
	{session.ErrTimeout, ErrConnect},
	{session.ErrVersion, ErrVersion},
	{session.ErrTooLarge, ErrTooLarge},
	{session.ErrExhausted, ErrExhausted},
	{session.ErrClosed, ErrClosed},
	{session.ErrOutOfStep, ErrOutOfStep},
	{session.ErrDraining, ErrDraining},
	{session.ErrNotHandling, ErrResponded},
	{msgbuf.ErrTooLarge, ErrTooLarge},
	{msgbuf.ErrClosed, ErrClosed},
}

// ownError gives an error of the packages below the library's name. An error that has only one
// of them as a cause keeps its text, and errors.Is finds both. Others stay as they are.
func ownError(err error) error {
	for _, e := range ownErrors {
		if err == e.below {
			return e.own
		}
	}
	for _, e := range ownErrors {
		if errors.Is(err, e.below) && !errors.Is(err, e.own) {
			err = &causedError{err, e.own}
		}
	}
	return err
}

// causedError is an error from below that has an error of the library as its cause.
type causedError struct {
	error
	own error
}

func (e *causedError) Unwrap() []error { return []error{e.error, e.own} }

// notRunError is a named error that matches ErrNotRun.
type notRunError struct{ text string }

func notRun(text string) error { return &notRunError{text} }

func (e *notRunError) Error() string { return e.text }

// Is reports whether target is ErrNotRun.
func (*notRunError) Is(target error) bool { return target == ErrNotRun }

// unsent makes an error match ErrNotRun.
func unsent(err error) error {
	if errors.Is(err, ErrNotRun) {
		return err
	}
	return &unsentError{err}
}

// unsentError is the error of a request that was not sent.
type unsentError struct{ error }

func (e *unsentError) Unwrap() []error { return []error{e.error, ErrNotRun} }
