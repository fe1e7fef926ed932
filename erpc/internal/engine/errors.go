package engine

import (
	"errors"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
)

// The errors that sessions end with; package erpc says what they mean.
var (
	ErrNotRun = errors.New("request not run")

	// These match ErrNotRun.
	ErrResolve  = NotRun("address not resolved")
	ErrRefused  = NotRun("session refused")
	ErrConnect  = NotRun("connect timeout")
	ErrVersion  = NotRun("protocol version not spoken")
	ErrDraining = NotRun("peer is shutting down, request not run")
	ErrInsecure = NotRun("the peer does not encrypt, and this side demands it, or the reverse")
	ErrDenied   = NotRun("peer not authenticated")

	ErrPeerLost      = errors.New("peer lost")
	ErrPeerRestarted = errors.New("peer restarted, outcome unknown")
	ErrPeerClosed    = errors.New("session closed by the peer, outcome unknown")
	ErrOutOfStep     = errors.New("session out of step, outcome unknown")
	ErrTooLarge      = errors.New("message too large")
	ErrExhausted     = errors.New("resource exhausted")
	ErrClosed        = errors.New("closed")
	ErrResponded     = errors.New("no request waits for this response")
)

// ErrNotTaken is the ErrPeerClosed of a request that the server certainly never took.
var ErrNotTaken error = &causedError{NotRun("session closed by the peer, request not run"),
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

// OwnError gives an error of the packages below the library's name. An error that has only one
// of them as a cause keeps its text, and errors.Is finds both. Others stay as they are.
func OwnError(err error) error {
	for _, e := range ownErrors {
		if err == e.below {
			return e.own
		}
	}
	for _, e := range ownErrors {
		if errors.Is(err, e.below) && !errors.Is(err, e.own) {
			err = Caused(err, e.own)
		}
	}
	return err
}

// Caused returns err with an error of the library as a further cause, which its text does not name.
func Caused(err, own error) error { return &causedError{err, own} }

// causedError is an error from below that has an error of the library as its cause.
type causedError struct {
	error
	own error
}

func (e *causedError) Unwrap() []error { return []error{e.error, e.own} }

// notRunError is a named error that matches ErrNotRun.
type notRunError struct{ text string }

// NotRun returns a named error that matches ErrNotRun.
func NotRun(text string) error { return &notRunError{text} }

func (e *notRunError) Error() string { return e.text }

// Is reports whether target is ErrNotRun.
func (*notRunError) Is(target error) bool { return target == ErrNotRun }
