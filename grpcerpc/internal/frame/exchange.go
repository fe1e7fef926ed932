package frame

import "encoding/binary"

// Exchange is a request of TypeExchange: what a client sends in its streams.
type Exchange struct {
	Token    uint64 // of the connection
	Seq      uint64 // of the connection's exchanges, from 0
	Sections []byte // a part of the input; see NextSection
}

// Append appends all of the Exchange to b.
func (x *Exchange) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, x.Token)
	b = binary.AppendUvarint(b, x.Seq)
	return append(b, x.Sections...)
}

// ParseExchange reads an Exchange, but for its sections.
func ParseExchange(b []byte) (x Exchange, err error) {
	r := NewReader(b)
	x.Token, x.Seq = r.Fixed(), r.Number()
	x.Sections = r.Rest()
	return x, r.Err()
}

// replyGone is the first byte of a Reply without sections; that of others is 0.
const replyGone = 1

// replyUntaken may follow the Status of a Reply that is gone. Clients that do not know it ignore
// what is there.
const replyUntaken = 1

// Reply answers an Exchange: what a server sends in the streams of a connection.
type Reply struct {
	Seq      uint64 // of the connection's replies, from 0
	Gone     bool   // there is no such connection any more; Status says why
	Status   Status // if it is gone
	Untaken  bool   // it is gone, and the server has taken nothing of the exchange
	Sections []byte // a part of the input; see NextSection
}

// Append appends all of the Reply to b.
func (y *Reply) Append(b []byte) []byte {
	if y.Gone {
		b = y.Status.Append(append(b, replyGone))
		if y.Untaken {
			b = append(b, replyUntaken)
		}
		return b
	}
	b = binary.AppendUvarint(append(b, 0), y.Seq)
	return append(b, y.Sections...)
}

// ParseReply reads a Reply, but for its sections.
func ParseReply(b []byte) (y Reply, err error) {
	r := NewReader(b)
	switch flags := r.Byte(); flags {
	case 0:
		y.Seq = r.Number()
		y.Sections = r.Rest()
	case replyGone:
		if y.Gone, y.Status = true, r.Status(); y.Status.Code == 0 {
			r.fail()
		}
		if rest := r.Rest(); len(rest) > 0 {
			y.Untaken = rest[0] == replyUntaken
		}
	default:
		r.fail()
	}
	return y, r.Err()
}

// Flags of a Section.
const (
	sectionOpen = 1 << iota
	sectionEnd
	sectionNotRun
	sectionAll = sectionOpen | sectionEnd | sectionNotRun
)

// Section is the part of an Exchange or a Reply that belongs to one stream.
type Section struct {
	Stream uint64 // its number: those of a connection grow with each one that begins
	Limit  uint64 // how many bytes of messages the peer may have sent in all
	End    bool   // a client gives the stream up, a server does not have it any more
	NotRun bool   // of a server, with End: the stream certainly never began
	Open   *Head  // of a client's first one
	Frames []byte // a part of the input
}

// AppendHead appends all of the Section but its frames, which follow with their length.
func (s *Section) AppendHead(b []byte) []byte {
	flags := byte(0)
	if s.Open != nil {
		flags |= sectionOpen
	}
	if s.End {
		flags |= sectionEnd
	}
	if s.NotRun {
		flags |= sectionNotRun
	}
	b = binary.AppendUvarint(append(b, flags), s.Stream)
	b = binary.AppendUvarint(b, s.Limit)
	if s.Open != nil {
		b = s.Open.Append(b)
	}
	return b
}

// Append appends all of the Section to b.
func (s *Section) Append(b []byte) []byte { return AppendBytes(s.AppendHead(b), s.Frames) }

// NextSection takes the first section from b. It and rest refer to b.
func NextSection(b []byte) (s Section, rest []byte, err error) {
	r := NewReader(b)
	flags := r.Byte()
	if flags&^sectionAll != 0 {
		r.fail()
	}
	s.End, s.NotRun = flags&sectionEnd != 0, flags&sectionNotRun != 0
	s.Stream, s.Limit = r.Number(), r.Number()
	if flags&sectionOpen != 0 {
		h := r.Head()
		s.Open = &h
	}
	s.Frames = r.Bytes()
	return s, r.Rest(), r.Err()
}

// lengthSize is how many bytes BeginFrames leaves for the length of frames.
const lengthSize = 4

// BeginFrames leaves room for the length of frames that are appended to b next.
func BeginFrames(b []byte) []byte { return append(b, make([]byte, lengthSize)...) }

// EndFrames writes the length of the frames that begin at from, where BeginFrames ended. There may
// be 256 MiB of them less one byte.
func EndFrames(b []byte, from int) {
	n := len(b) - from
	at := b[from-lengthSize : from]
	at[0], at[1], at[2], at[3] = byte(n)|0x80, byte(n>>7)|0x80, byte(n>>14)|0x80, byte(n>>21)
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
	Encoding                   // the compressor of a server's messages, if it is not the client's
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
