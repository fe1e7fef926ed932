package wire

import "encoding/binary"

// Code is the library's own reason for an error: in an error answer, and in a Refuse.
type Code uint8

// The error codes.
const (
	CodeOK          Code = 0  // never sent
	CodeNoHandler   Code = 1  // no handler for this request type; in a Refuse: for any
	CodeTooLarge    Code = 2  // the message is larger than the receiver takes
	CodeExhausted   Code = 3  // out of sessions, buffers or workers
	CodeShutdown    Code = 4  // the receiver is closing
	CodeApplication Code = 5  // the handler returned an error; its text follows
	CodeBadOffer    Code = 6  // the offer in a Connect cannot be met
	CodePanic       Code = 7  // the handler panicked
	CodeCancelled   Code = 8  // the client gave the request up
	CodeDeadline    Code = 9  // the request's remaining time passed at the server
	CodeForgotten   Code = 10 // the handler ran, and its response is not kept any more
	CodeInsecure    Code = 11 // one side seals packets, and the other one does not
	CodeDenied      Code = 12 // the peer is not known, not welcome, or may not do that
	numCodes             = 13
)

// String returns a short text for the code.
func (c Code) String() string {
	if c < numCodes {
		return [numCodes]string{"ok", "no handler", "too large", "resource exhausted",
			"shutting down", "application error", "bad offer", "handler panicked", "cancelled",
			"deadline exceeded", "response forgotten", "security demanded by one side only",
			"identity refused"}[c]
	}
	return "unknown code"
}

// Status returns the status that an error of this code has unless its handler chose one.
func (c Code) Status() Status {
	if c < numCodes {
		return [numCodes]Status{StatusOK, StatusUnimplemented, StatusResourceExhausted,
			StatusResourceExhausted, StatusUnavailable, StatusUnknown, StatusFailedPrecondition,
			StatusInternal, StatusCancelled, StatusDeadlineExceeded, StatusDataLoss,
			StatusFailedPrecondition, StatusUnauthenticated}[c]
	}
	return StatusUnknown
}

// Status is a gRPC status code (grpc.io, "Status codes and their use in gRPC").
type Status uint8

// The status codes.
const (
	StatusOK                 Status = 0 // never sent
	StatusCancelled          Status = 1
	StatusUnknown            Status = 2
	StatusInvalidArgument    Status = 3
	StatusDeadlineExceeded   Status = 4
	StatusNotFound           Status = 5
	StatusAlreadyExists      Status = 6
	StatusPermissionDenied   Status = 7
	StatusResourceExhausted  Status = 8
	StatusFailedPrecondition Status = 9
	StatusAborted            Status = 10
	StatusOutOfRange         Status = 11
	StatusUnimplemented      Status = 12
	StatusInternal           Status = 13
	StatusUnavailable        Status = 14
	StatusDataLoss           Status = 15
	StatusUnauthenticated    Status = 16
	numStatus                       = 17
)

// String returns the name that gRPC uses.
func (s Status) String() string {
	if s < numStatus {
		return [numStatus]string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT",
			"DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
			"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
			"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}[s]
	}
	return "INVALID"
}

// Sizes of an error answer in bytes. Any packet takes the largest.
const (
	errorHeader     = 8
	MaxErrorText    = 512
	MaxErrorDetails = 480
	MaxErrorSize    = errorHeader + MaxErrorText + MaxErrorDetails
)

// errorRan is the flag of an error answer whose handler ran.
const errorRan = 1

// Error is the body of an error answer.
//
//	0 status u8 · 1 code u8 · 2 flags u8, bit 0: the handler ran · 3 zero u8 · 4 textlen u16
//	6 zero u16 · 8 text · details
type Error struct {
	Status  Status
	Code    Code
	Ran     bool   // the handler ran, or may have run
	Text    []byte // aliases the packet
	Details []byte // aliases the packet; the application's
}

// AppendError appends the body to b. Text and details are cut to MaxErrorText and MaxErrorDetails
// bytes.
func AppendError(b []byte, e *Error) []byte {
	text, details := e.Text, e.Details
	text, details = text[:min(len(text), MaxErrorText)], details[:min(len(details), MaxErrorDetails)]
	flags := byte(0)
	if e.Ran {
		flags = errorRan
	}
	b = append(b, byte(e.Status), byte(e.Code), flags, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	b = append(b, 0, 0)
	return append(append(b, text...), details...)
}

// ParseError reads the body of an error answer, all of b. A body that no sender of this version
// makes gives ErrSize; flags and codes that a newer one may have are taken.
func ParseError(b []byte) (e Error, err error) {
	if len(b) < errorHeader || len(b) > MaxErrorSize {
		return Error{}, ErrSize
	}
	head := [errorHeader]byte(b) // read once: the sender may still be able to change b
	end := errorHeader + int(binary.LittleEndian.Uint16(head[4:]))
	if end > min(len(b), errorHeader+MaxErrorText) || len(b)-end > MaxErrorDetails {
		return Error{}, ErrSize
	}
	if head[0] == 0 || head[0] >= numStatus || head[1] == 0 {
		return Error{}, ErrStatus
	}
	return Error{Status: Status(head[0]), Code: Code(head[1]), Ran: head[2]&errorRan != 0,
		Text: b[errorHeader:end:end], Details: b[end:]}, nil
}
