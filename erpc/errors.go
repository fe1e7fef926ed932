package erpc

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/wire"
)

// The errors of the library; use errors.Is. After ErrPeerLost, ErrPeerRestarted, ErrOutOfStep,
// ErrDeadline, ErrCancelled and ErrClosed the server may or may not have run the
// request: the outcome is unknown, and the library never repeats it. A *RemoteError says whether
// the handler ran.
var (
	ErrResolve       = errors.New("address not resolved")            // with the transport's error
	ErrRefused       = errors.New("session refused")                 // by the server
	ErrConnect       = errors.New("connect timeout")                 // nobody answered
	ErrVersion       = errors.New("protocol version not spoken")     // by the peer
	ErrPeerLost      = errors.New("peer lost")                       // silent for FailureTimeout
	ErrPeerRestarted = errors.New("peer restarted, outcome unknown") // it does not know the session
	ErrDeadline      = errors.New("deadline exceeded")
	ErrCancelled     = errors.New("cancelled")
	ErrOutOfStep     = errors.New("session out of step, outcome unknown") // a damaged packet
	ErrDraining      = errors.New("peer is shutting down, request not run")
	ErrNoHandler     = errors.New("no handler for this request type")
	ErrTooLarge      = errors.New("message too large")  // for one of the sides
	ErrExhausted     = errors.New("resource exhausted") // queue, sessions, memory or workers
	ErrWrongThread   = errors.New("called while another goroutine runs this Rpc's event loop")
	ErrClosed        = errors.New("closed")                             // session, Rpc, Client, Server
	ErrResponded     = errors.New("no request waits for this response") // or its session ended
	ErrBufferInUse   = msgbuf.ErrInUse                                  // the library owns the buffer
	ErrBufferFreed   = msgbuf.ErrFreed                                  // the buffer was freed
	ErrBufferLeak    = msgbuf.ErrLeak                                   // from Rpc.Close
	ErrRemote        = errors.New("remote error")                       // matches every *RemoteError
	ErrConfig        = errors.New("bad config")                         // matches every *ConfigError
	ErrReqType       = errors.New("request type out of range")
	ErrRequest       = errors.New("request incomplete or for another Rpc's session")
	ErrPanic         = errors.New("handler panicked")
)

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

// RemoteError is an error that the server sent instead of a response. It matches
// ErrRemote and the named error of its code.
type RemoteError struct {
	Status  Status // as gRPC has it
	Code    Code   // as this library has it
	Text    string
	Details []byte // the application's
	Ran     bool   // the handler ran, or may have run
}

// remoteError copies an error answer out of its packet.
func remoteError(f *wire.Error) *RemoteError {
	return &RemoteError{
		Status: Status(f.Status), Code: Code(f.Code), Text: string(f.Text),
		Details: bytes.Clone(f.Details), Ran: f.Ran,
	}
}

func (e *RemoteError) Error() string {
	if e.Code == CodeApplication {
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
	case CodeNoHandler:
		return target == ErrNoHandler
	case CodeTooLarge:
		return target == ErrTooLarge
	case CodeExhausted:
		return target == ErrExhausted
	case CodeShutdown:
		return target == ErrClosed || target == ErrDraining
	case CodeCancelled:
		return target == ErrCancelled
	case CodeDeadline:
		return target == ErrDeadline
	case CodePanic:
		return target == ErrPanic
	}
	return false
}
