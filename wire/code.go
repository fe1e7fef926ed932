package wire

// Code is an error as it travels: in the first byte of a response that has
// FlagError, and in a Refuse.
type Code uint8

// The error codes.
const (
	CodeOK          Code = 0 // never sent
	CodeNoHandler   Code = 1 // no handler for this request type
	CodeTooLarge    Code = 2 // the message is larger than the receiver takes
	CodeExhausted   Code = 3 // out of sessions, buffers or workers
	CodeShutdown    Code = 4 // the receiver is closing
	CodeApplication Code = 5 // the handler returned an error; its text follows
	CodeBadOffer    Code = 6 // the offer in a Connect cannot be met
	CodePanic       Code = 7 // the handler panicked
	numCodes             = 8
)

// String returns a short text for the code.
func (c Code) String() string {
	if c < numCodes {
		return [numCodes]string{"ok", "no handler", "too large", "resource exhausted",
			"shutting down", "application error", "bad offer", "handler panicked"}[c]
	}
	return "unknown code"
}

// MaxErrorText is the longest text in bytes that an error response carries.
const MaxErrorText = 512

// AppendError appends the payload of an error response to b: the code, then text,
// cut to MaxErrorText bytes.
func AppendError(b []byte, code Code, text string) []byte {
	if len(text) > MaxErrorText {
		text = text[:MaxErrorText]
	}
	return append(append(b, byte(code)), text...)
}

// ParseError reads the payload of an error response. The text aliases b. A payload
// that no sender of this version makes gives ErrSize.
func ParseError(b []byte) (code Code, text []byte, err error) {
	if len(b) < 1 || len(b) > 1+MaxErrorText || b[0] == 0 {
		return 0, nil, ErrSize
	}
	return Code(b[0]), b[1:], nil
}
