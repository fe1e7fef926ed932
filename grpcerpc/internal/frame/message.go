package frame

import (
	"encoding/binary"
	"strings"
)

// Version is the version of the format. A server refuses a client of another one by name.
const Version = 3

// The request types of erpc.
const (
	TypeHello    = 0xE0 // opens a connection; answered at once
	TypeLife     = 0xE1 // stays unanswered as long as the connection lives
	TypeUnary    = 0xE2 // one call
	TypeExchange = 0xE3 // frames of streams, both ways
	TypeLarge    = 0xE4 // one call of LargeCall bytes or more: it takes long, small ones do not
	TypeLeave    = 0xE5 // answered when the client shall send its new calls elsewhere
)

// LargeCall is the least size of a TypeLarge request.
const LargeCall = 64 << 10

// Hello opens a connection. Accept is left out when it is empty, and servers that do not know it
// ignore it.
type Hello struct {
	Version   uint64
	UserAgent string
	Authority string
	Accept    string // names of compressors with commas between them
}

// Limits of Accept.
const (
	maxAccepted     = 16 // names
	maxAcceptedName = 64 // bytes of a name
)

// Accepted returns the names in Accept: the first 16 that may be a compressor's, tokens (RFC 9110,
// 5.6.2) of 1 to 64 bytes. Others are left out: what a client has besides harms nobody.
func (h *Hello) Accepted() (names []string) {
	for name := range strings.SplitSeq(h.Accept, ",") {
		if len(names) == maxAccepted {
			break
		}
		if len(name) <= maxAcceptedName && isToken(name) {
			names = append(names, name)
		}
	}
	return names
}

// isToken reports whether s is a token (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// Append appends the Hello to b.
func (h *Hello) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, h.Version)
	b = AppendBytes(AppendBytes(b, h.UserAgent), h.Authority)
	if h.Accept != "" {
		b = AppendBytes(b, h.Accept)
	}
	return b
}

// ParseHello reads a Hello. Of another version it reads the version alone.
func ParseHello(b []byte) (h Hello, err error) {
	r := NewReader(b)
	if h.Version = r.Number(); h.Version == Version {
		h.UserAgent, h.Authority = string(r.Bytes()), string(r.Bytes())
		if len(r.Rest()) > 0 {
			h.Accept = string(r.Bytes())
		}
	}
	return h, r.Err()
}

// Welcome is a server's answer to Hello. Token names the connection from now on. The limits are
// left out when there are none, and clients that do not know them ignore them.
type Welcome struct {
	Version    uint64
	Token      uint64
	Refusal    string // "" if it is accepted
	MaxCalls   uint64 // that the client has under way at a time; 0: any number
	MaxHeaders uint64 // bytes of a call's header, by HeaderSize; 0: any number
}

// Append appends the Welcome to b.
func (w *Welcome) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, w.Version)
	b = binary.LittleEndian.AppendUint64(b, w.Token)
	b = AppendBytes(b, w.Refusal)
	if w.MaxCalls|w.MaxHeaders != 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, w.MaxCalls), w.MaxHeaders)
	}
	return b
}

// ParseWelcome reads a Welcome.
func ParseWelcome(b []byte) (w Welcome, err error) {
	r := NewReader(b)
	w.Version, w.Token = r.Number(), r.Fixed()
	w.Refusal = string(r.Bytes())
	if len(r.Rest()) > 0 {
		w.MaxCalls, w.MaxHeaders = r.Number(), r.Number()
	}
	return w, r.Err()
}

// Flags of a Head.
const (
	headMD = 1 << iota
	headCompressor
	headSubtype
	headTimeout
	headAuthority
	headAll = headMD | headCompressor | headSubtype | headTimeout | headAuthority
)

// Head is the first message of a call. Method, Compressor, Subtype and Authority of a parsed one
// are parts of its input.
type Head struct {
	Method     []byte
	MD         map[string][]string
	Compressor []byte // "" if messages are not compressed
	Subtype    []byte // "" for the default, protobuf
	Timeout    uint64 // in microseconds; 0: the call has no deadline
	Authority  []byte // "" for that of Hello
}

// Size returns the size of metadata and authority as gRPC's limits count them, in bytes.
func (h *Head) Size() int {
	n := MDSize(h.MD)
	if len(h.Authority) > 0 {
		n += len(":authority") + len(h.Authority) + pairOverhead
	}
	return n
}

// Append appends the Head to b.
func (h *Head) Append(b []byte) []byte {
	at := len(b)
	b = AppendBytes(append(b, 0), h.Method)
	if len(h.MD) > 0 {
		b[at] |= headMD
		b = AppendMD(b, h.MD)
	}
	if len(h.Compressor) > 0 {
		b[at] |= headCompressor
		b = AppendBytes(b, h.Compressor)
	}
	if len(h.Subtype) > 0 {
		b[at] |= headSubtype
		b = AppendBytes(b, h.Subtype)
	}
	if h.Timeout > 0 {
		b[at] |= headTimeout
		b = binary.AppendUvarint(b, h.Timeout)
	}
	if len(h.Authority) > 0 {
		b[at] |= headAuthority
		b = AppendBytes(b, h.Authority)
	}
	return b
}

// Head reads a Head.
func (r *Reader) Head() (h Head) {
	flags := r.Byte()
	h.Method = r.Bytes()
	if flags&^headAll != 0 {
		r.fail()
	}
	if flags&headMD != 0 {
		h.MD = r.MD()
	}
	if flags&headCompressor != 0 {
		h.Compressor = r.Bytes()
	}
	if flags&headSubtype != 0 {
		h.Subtype = r.Bytes()
	}
	if flags&headTimeout != 0 {
		h.Timeout = r.Number()
	}
	if flags&headAuthority != 0 {
		h.Authority = r.Bytes()
	}
	return h
}

// TokenAt is where the token is in requests of TypeUnary.
const TokenAt = 0

// ParseUnary reads a request of TypeUnary: 8 bytes of token, a Head, the message. The message is
// compressed if the Head names a compressor. All refer to b.
func ParseUnary(b []byte) (token uint64, h Head, message []byte, err error) {
	r := NewReader(b)
	token, h = r.Fixed(), r.Head()
	return token, h, r.Rest(), r.Err()
}

// Flags of an Answer.
const (
	answerHeader = 1 << iota
	answerTrailer
	answerStatus
	answerCompressed
	answerNotRun
	answerEncoding
	answerAll = answerHeader | answerTrailer | answerStatus | answerCompressed | answerNotRun |
		answerEncoding
)

// Status is the end of a call: a code of gRPC, a text, and a google.rpc.Status if it has details.
type Status struct {
	Code    uint64 // 0: the call has succeeded
	Text    string
	Details []byte
}

// Append appends the Status to b.
func (s *Status) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, s.Code)
	return AppendBytes(AppendBytes(b, s.Text), s.Details)
}

// Status reads a Status, whose Details are its own.
func (r *Reader) Status() (s Status) {
	s.Code, s.Text = r.Number(), string(r.Bytes())
	if d := r.Bytes(); len(d) > 0 {
		s.Details = append([]byte(nil), d...)
	}
	return s
}

// Answer answers a request of TypeUnary. In the common case it is a zero byte and the message.
type Answer struct {
	Header, Trailer map[string][]string
	Status          Status
	NotRun          bool   // the call certainly did not run
	Compressed      bool   // the message is
	Encoding        string // ... by another compressor than the request's; "" for that
	Message         []byte // of success; a part of the input
}

// AppendHead appends all of the Answer but its message, which follows.
func (a *Answer) AppendHead(b []byte) []byte {
	at := len(b)
	b = append(b, 0)
	if len(a.Header) > 0 {
		b[at] |= answerHeader
		b = AppendMD(b, a.Header)
	}
	if len(a.Trailer) > 0 {
		b[at] |= answerTrailer
		b = AppendMD(b, a.Trailer)
	}
	if a.Status.Code != 0 {
		b[at] |= answerStatus
		b = a.Status.Append(b)
	}
	if a.Compressed {
		b[at] |= answerCompressed
	}
	if a.NotRun {
		b[at] |= answerNotRun
	}
	if a.Encoding != "" {
		b[at] |= answerEncoding
		b = AppendBytes(b, a.Encoding)
	}
	return b
}

// ParseAnswer reads an Answer.
func ParseAnswer(b []byte) (a Answer, err error) {
	r := NewReader(b)
	flags := r.Byte()
	if flags&^answerAll != 0 {
		r.fail()
	}
	if flags&answerHeader != 0 {
		a.Header = r.MD()
	}
	if flags&answerTrailer != 0 {
		a.Trailer = r.MD()
	}
	if flags&answerStatus != 0 {
		a.Status = r.Status()
	}
	a.Compressed, a.NotRun = flags&answerCompressed != 0, flags&answerNotRun != 0
	if flags&answerEncoding != 0 {
		a.Encoding = string(r.Bytes())
	}
	if a.NotRun && a.Status.Code == 0 {
		r.fail()
	}
	a.Message = r.Rest()
	return a, r.Err()
}
