package erpc

import (
	"bytes"
	"context"
	"errors"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// The errors of the library; use errors.Is.
//
// An error that matches ErrNotRun says that the handler certainly did not run: the request was not
// sent, or the server refused it, or it was given up in a queue. After ErrPeerLost,
// ErrPeerRestarted, ErrPeerClosed, ErrOutOfStep, ErrDeadline, ErrCancelled and ErrClosed without
// that the server may or may not have run the request: the outcome is unknown, and the library
// never repeats it. An answer of the server is an *Error.
var (
	ErrNotRun = engine.ErrNotRun

	// These match ErrNotRun.
	ErrResolve  = engine.ErrResolve  // address not resolved; with the transport's error
	ErrRefused  = engine.ErrRefused  // the server refused the session
	ErrConnect  = engine.ErrConnect  // nobody answered
	ErrVersion  = engine.ErrVersion  // the peer does not speak the protocol version
	ErrDraining = engine.ErrDraining // the peer is shutting down
	ErrInsecure = engine.ErrInsecure // one side encrypts and demands it, the other one does not
	ErrDenied   = engine.ErrDenied   // peer not authenticated; with the reason

	ErrPeerLost      = engine.ErrPeerLost      // silent for FailureTimeout
	ErrPeerRestarted = engine.ErrPeerRestarted // it does not know the session
	ErrPeerClosed    = engine.ErrPeerClosed    // the peer ended the session
	ErrDeadline      = errors.New("deadline exceeded")
	ErrCancelled     = errors.New("cancelled")
	ErrOutOfStep     = engine.ErrOutOfStep // the session is out of step, by a damaged packet
	ErrNoHandler     = errors.New("no handler for this request type")
	ErrTooLarge      = engine.ErrTooLarge  // for one of the sides
	ErrExhausted     = engine.ErrExhausted // queue, sessions, memory or workers
	// Where goroutines can be told apart; see Rpc.
	ErrWrongThread = errors.New(
		"this Rpc's event loop runs already, in another goroutine or this callback: use Rpc.Post")
	// A transport serves one endpoint.
	ErrTransportInUse = errors.New("transport in use: an endpoint owns it already")
	ErrClosed         = engine.ErrClosed           // by this side
	ErrResponded      = engine.ErrResponded        // nobody waits for the response
	ErrBufferInUse    = msgbuf.ErrInUse            // the library owns the buffer
	ErrBufferFreed    = msgbuf.ErrFreed            // the buffer was freed
	ErrBufferLeak     = msgbuf.ErrLeak             // from Rpc.Close
	ErrRemote         = errors.New("remote error") // matches every *Error
	ErrConfig         = errors.New("bad config")   // matches every *ConfigError
	ErrReqType        = errors.New("request type out of range, must be 0 to 254")
	ErrRequest        = errors.New("request incomplete or for another Rpc's session")
	ErrPanic          = errors.New("handler panicked")
)

// unsent makes an error match ErrNotRun.
func unsent(err error) error { return engine.Unsent(err) }

// Error is an error answer. A handler makes one with Code, Text and Details; its client gets them
// and finds them with errors.As. The library's own answers, such as refusals, say in Reason why.
//
// It matches ErrRemote, the named error of its Reason, and ErrNotRun if NotRun is set. With the
// codes CodeDeadlineExceeded and CodeCancelled it also matches ErrDeadline and ErrCancelled, and
// the errors of package context: the deadline that a caller gives reaches its handler, and the
// answer of a handler that notices it first means the same as the caller's own error.
type Error struct {
	Code    Code   // as gRPC has it; CodeOK in a handler's error counts as CodeUnknown
	Text    string // at most MaxErrorText bytes travel
	Details []byte // the application's; at most MaxErrorDetails bytes travel

	// Of an error that was received. In a handler's error they do not count.

	Reason Reason // ReasonApplication if a handler made the error
	NotRun bool   // the handler certainly did not run
}

// receivedError copies an error answer out of its packet.
func receivedError(f *wire.Error) *Error {
	return &Error{
		Code: Code(f.Status), Reason: Reason(f.Code), Text: string(f.Text),
		Details: bytes.Clone(f.Details), NotRun: !f.Ran,
	}
}

// Error returns the text of a handler's error, or its code if it has none. The
// text of an answer by the library begins with "remote: ".
func (e *Error) Error() string {
	switch {
	case e.Reason == ReasonApplication || e.Reason == ReasonNone:
		if e.Text == "" {
			return e.Code.String()
		}
		return e.Text
	case e.Text == "":
		return "remote: " + e.what()
	}
	return "remote: " + e.what() + ": " + e.Text
}

// what says what the library answered. A request that a peer may not make is no wrong identity.
func (e *Error) what() string {
	if e.Reason == ReasonDenied && e.Code == CodePermissionDenied {
		return "request refused"
	}
	return e.Reason.String()
}

// Is reports whether target is ErrRemote, ErrNotRun if the handler did not run, or an error of e's
// reason or code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrRemote:
		return true
	case ErrNotRun:
		return e.NotRun
	case ErrDeadline, context.DeadlineExceeded:
		if e.Code == CodeDeadlineExceeded {
			return true
		}
	case ErrCancelled, context.Canceled:
		if e.Code == CodeCancelled {
			return true
		}
	}
	named := reasonErrors[e.Reason]
	return named != nil && target == named
}

// reasonErrors are the named errors of reasons.
var reasonErrors = map[Reason]error{
	ReasonNoHandler: ErrNoHandler, ReasonTooLarge: ErrTooLarge, ReasonExhausted: ErrExhausted,
	ReasonShutdown: ErrDraining, ReasonCancelled: ErrCancelled, ReasonDeadline: ErrDeadline,
	ReasonPanic: ErrPanic, ReasonDenied: ErrDenied,
}

// errorCodes are the codes of errors that were not received.
var errorCodes = []struct {
	err  error
	code Code
}{
	{ErrNoServer, CodeUnavailable}, // with any reason
	{ErrDeadline, CodeDeadlineExceeded}, {context.DeadlineExceeded, CodeDeadlineExceeded},
	{ErrCancelled, CodeCancelled}, {context.Canceled, CodeCancelled}, {ErrClosed, CodeCancelled},
	{ErrResolve, CodeUnavailable}, {ErrRefused, CodeUnavailable}, {ErrConnect, CodeUnavailable},
	{ErrVersion, CodeUnavailable}, {ErrDraining, CodeUnavailable}, {ErrPeerLost, CodeUnavailable},
	{ErrPeerRestarted, CodeUnavailable}, {ErrPeerClosed, CodeUnavailable},
	{ErrOutOfStep, CodeUnavailable}, {ErrNoHandler, CodeUnimplemented},
	{ErrTooLarge, CodeResourceExhausted}, {ErrExhausted, CodeResourceExhausted},
	{ErrReqType, CodeInvalidArgument}, {ErrRequest, CodeInvalidArgument}, {ErrPanic, CodeInternal},
}

// CodeOf returns the gRPC status code of any error of a call, of a handler or of a context: CodeOK
// for nil, that of an *Error, and CodeUnknown for errors that have none.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	var e *Error
	if errors.As(err, &e) {
		return e.code()
	}
	for _, c := range errorCodes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeUnknown
}

// code returns a code that an error can have.
func (e *Error) code() Code {
	if e.Code == CodeOK || e.Code > CodeUnauthenticated {
		return CodeUnknown
	}
	return e.Code
}

// faultFrom is an error that a handler returned, on its way to the client. It owns its bytes.
func faultFrom(err error) *wire.Error {
	f := &wire.Error{Code: wire.CodeApplication, Ran: true}
	if err == nil {
		f.Status, f.Text = wire.StatusUnknown, []byte("a nil error")
		return f
	}
	f.Status, f.Text = CodeOf(err).wire(), []byte(err.Error())
	var e *Error
	switch {
	case errors.As(err, &e):
		f.Details = bytes.Clone(e.Details)
		if e == err { // not wrapped
			f.Text = []byte(e.Text)
		}
	case errors.Is(err, ErrTooLarge):
		f.Code = wire.CodeTooLarge
	case errors.Is(err, ErrExhausted):
		f.Code = wire.CodeExhausted
	}
	return f
}
