package frame

import "encoding/binary"

// Flags of an Exchange.
const (
	exchangeOpen = 1 << iota
	exchangeCancel
	exchangeAll = exchangeOpen | exchangeCancel
)

// Exchange is a request of TypeExchange: what a client sends in a stream.
type Exchange struct {
	Token  uint64 // of the connection
	Stream uint64 // its number, the client's choice
	Seq    uint64 // of the stream's exchanges, from 0
	Limit  uint64 // how many bytes of messages the server may have sent in all
	Cancel bool   // the client gives the stream up
	Open   *Head  // of the first one
	Frames []byte // a part of the input
}

// Append appends all of the Exchange to b.
func (x *Exchange) Append(b []byte) []byte {
	flags := byte(0)
	if x.Cancel {
		flags |= exchangeCancel
	}
	if x.Open != nil {
		flags |= exchangeOpen
	}
	b = append(b, flags)
	b = binary.LittleEndian.AppendUint64(b, x.Token)
	b = binary.AppendUvarint(b, x.Stream)
	b = binary.AppendUvarint(b, x.Seq)
	b = binary.AppendUvarint(b, x.Limit)
	if x.Open != nil {
		b = x.Open.Append(b)
	}
	return append(b, x.Frames...)
}

// ParseExchange reads an Exchange.
func ParseExchange(b []byte) (x Exchange, err error) {
	r := NewReader(b)
	flags := r.Byte()
	if flags&^exchangeAll != 0 {
		r.fail()
	}
	x.Token, x.Stream, x.Seq, x.Limit = r.Fixed(), r.Number(), r.Number(), r.Number()
	x.Cancel = flags&exchangeCancel != 0
	if flags&exchangeOpen != 0 {
		h := r.Head()
		x.Open = &h
	}
	x.Frames = r.Rest()
	return x, r.Err()
}

// Flags of a Reply.
const (
	replyGone = 1 << iota
	replyNotRun
	replyAll = replyGone | replyNotRun
)

// Reply answers an Exchange: what a server sends in a stream.
type Reply struct {
	Seq    uint64 // of the stream's replies, from 0
	Limit  uint64 // how many bytes of messages the client may have sent in all
	Gone   bool   // there is no such stream: it has ended, or Status says why it never began
	NotRun bool   // it certainly never began; another server may be asked
	Status Status // if it is gone
	Frames []byte // a part of the input
}

// Append appends all of the Reply to b.
func (y *Reply) Append(b []byte) []byte {
	flags := byte(0)
	if y.Gone {
		flags |= replyGone
	}
	if y.NotRun {
		flags |= replyNotRun
	}
	b = append(b, flags)
	if y.Gone {
		return y.Status.Append(b)
	}
	b = binary.AppendUvarint(b, y.Seq)
	b = binary.AppendUvarint(b, y.Limit)
	return append(b, y.Frames...)
}

// ParseReply reads a Reply.
func ParseReply(b []byte) (y Reply, err error) {
	r := NewReader(b)
	flags := r.Byte()
	if flags&^replyAll != 0 || flags == replyNotRun {
		r.fail()
	}
	y.Gone, y.NotRun = flags&replyGone != 0, flags&replyNotRun != 0
	if y.Gone {
		y.Status = r.Status()
		return y, r.Err()
	}
	y.Seq, y.Limit = r.Number(), r.Number()
	y.Frames = r.Rest()
	return y, r.Err()
}

// Kind says what a frame is.
type Kind uint8

// The kinds.
const (
	Headers    Kind = 1 + iota // metadata, before the first message of a server
	Message                    // the size of a message, and its first bytes
	Compressed                 // ... of a compressed one
	More                       // further bytes of the message
	HalfClose                  // the client sends no more messages
	Trailers                   // a Status and metadata: the server's last word
	kinds
)

// AppendFrame appends a frame with its payload.
func AppendFrame(b []byte, k Kind, payload []byte) []byte {
	return AppendBytes(append(b, byte(k)), payload)
}

// Next takes the first frame from b. Payload and rest are parts of b.
func Next(b []byte) (k Kind, payload, rest []byte, err error) {
	r := NewReader(b)
	k = Kind(r.Byte())
	payload = r.Bytes()
	if k == 0 || k >= kinds {
		r.fail()
	}
	return k, payload, r.Rest(), r.Err()
}

// ParseTrailers reads the payload of Trailers.
func ParseTrailers(b []byte) (s Status, md map[string][]string, err error) {
	r := NewReader(b)
	s, md = r.Status(), r.MD()
	if len(r.rest) > 0 {
		r.fail()
	}
	return s, md, r.Err()
}

// AppendTrailers appends the payload of Trailers.
func AppendTrailers(b []byte, s *Status, md map[string][]string) []byte {
	return AppendMD(s.Append(b), md)
}

// ParseHeaders reads the payload of Headers.
func ParseHeaders(b []byte) (map[string][]string, error) {
	r := NewReader(b)
	md := r.MD()
	if len(r.rest) > 0 {
		r.fail()
	}
	return md, r.Err()
}

// ParseMessage reads the payload of Message and Compressed: the message's size and its first bytes.
func ParseMessage(b []byte) (size uint64, first []byte, err error) {
	r := NewReader(b)
	size = r.Number()
	if first = r.Rest(); uint64(len(first)) > size {
		r.fail()
	}
	return size, first, r.Err()
}
