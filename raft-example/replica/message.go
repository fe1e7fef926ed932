package replica

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrMessage means that bytes are not a message that one replica sends to another.
var ErrMessage = errors.New("replica: malformed message")

const (
	msgHeader = 72
	entHeader = 16
)

// box is a message and all its fields, one allocation instead of ten.
type box struct {
	m                                                       pb.Message
	typ                                                     pb.MessageType
	to, from, term, logTerm, index, commit, vote, rejectHnt uint64
	reject                                                  bool
}

// entryBox likewise.
type entryBox struct {
	e           pb.Entry
	typ         pb.EntryType
	term, index uint64
}

// oneEntry is a list of a single entry, which is usual, with its data.
type oneEntry struct {
	entryBox
	list [1]*pb.Entry
	data [usualData]byte
}

// usualData is room for a PUT of the largest key and value.
const usualData = 112

// Parser reads messages. Those that come with each write are in its own memory.
type Parser struct {
	own     box
	senders []*uint64 // those of its messages, at most maxSenders
}

// maxSenders is how many senders a Parser remembers.
const maxSenders = 64

// sender returns memory that has this id for ever: the answer that raft makes of a message refers
// to its sender until the next Ready, when further messages have been parsed.
func (p *Parser) sender(id uint64) *uint64 {
	for _, s := range p.senders {
		if *s == id {
			return s
		}
	}
	if len(p.senders) == maxSenders {
		p.senders = p.senders[:0] // so that made-up ones do not keep the others out
	}
	s := new(id)
	p.senders = append(p.senders, s)
	return s
}

// brief reports whether raft keeps nothing of such a message when it has stepped it, but its sender
// and entries.
func brief(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp:
		return true
	}
	return false
}

// between reports whether replicas send such messages to each other, in this form.
func between(t pb.MessageType) bool {
	switch t {
	case pb.MsgApp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgPreVote, pb.MsgPreVoteResp,
		pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow, pb.MsgReadIndex, pb.MsgReadIndexResp:
		return true
	}
	return false
}

// entriesOf reports whether a message of this type may have so many entries. That of a question
// for a read index, and of its answer, is the question's name.
func entriesOf(t pb.MessageType, count int) bool {
	switch t {
	case pb.MsgApp:
		return true
	case pb.MsgReadIndex, pb.MsgReadIndexResp:
		return count == 1
	}
	return count == 0
}

// Size returns how many bytes AppendMessage appends.
func Size(m *pb.Message) int {
	n := msgHeader + len(m.Context)
	for _, e := range m.Entries {
		n += entHeader + len(e.Data)
	}
	return n
}

// AppendMessage appends the bytes of a message.
func AppendMessage(b []byte, m *pb.Message) []byte {
	reject := byte(0)
	if m.GetReject() {
		reject = 1
	}
	b = append(b, byte(m.GetType()), reject)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(m.Context)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(m.Entries)))
	for _, v := range [...]uint64{m.GetTo(), m.GetFrom(), m.GetTerm(), m.GetLogTerm(), m.GetIndex(),
		m.GetCommit(), m.GetVote(), m.GetRejectHint()} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, m.Context...)
	for _, e := range m.Entries {
		b = append(b, byte(e.GetType()), 0, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.Data)))
		b = binary.LittleEndian.AppendUint64(b, e.GetTerm())
		b = append(b, e.Data...)
	}
	return b
}

// ParseMessage reads the first message of b and returns what follows it. Nothing of the
// message refers to b. The error is ErrMessage.
func ParseMessage(b []byte) (m *pb.Message, rest []byte, err error) {
	return new(Parser).Parse(b)
}

// Parse is ParseMessage; the message may be overwritten by the next Parse. Its sender, entries and
// context are not.
func (p *Parser) Parse(b []byte) (m *pb.Message, rest []byte, err error) {
	if len(b) < msgHeader || b[1] > 1 || !between(pb.MessageType(b[0])) {
		return nil, nil, ErrMessage
	}
	x := &p.own
	if !brief(pb.MessageType(b[0])) {
		x = new(box)
	}
	x.typ, x.reject = pb.MessageType(b[0]), b[1] == 1
	ctx, count := int(binary.LittleEndian.Uint16(b[2:])), int(binary.LittleEndian.Uint32(b[4:]))
	for i, p := range [...]*uint64{&x.to, &x.from, &x.term, &x.logTerm, &x.index, &x.commit, &x.vote,
		&x.rejectHnt} {
		*p = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	b = b[msgHeader:]
	if len(b) < ctx || count > (len(b)-ctx)/entHeader || !entriesOf(x.typ, count) || x.index > 1<<62 {
		return nil, nil, ErrMessage
	}
	x.fill()
	x.m.From = p.sender(x.from)
	x.m.Context, x.m.Entries = nil, nil
	if ctx > 0 {
		x.m.Context = append([]byte(nil), b[:ctx]...)
		b = b[ctx:]
	}
	if count > 0 {
		if b, err = x.entries(b, count); err != nil {
			return nil, nil, err
		}
	}
	return &x.m, b, nil
}

// fill makes the message's pointers.
func (x *box) fill() {
	m := &x.m
	m.Type, m.To, m.From, m.Term, m.LogTerm = &x.typ, &x.to, &x.from, &x.term, &x.logTerm
	m.Index, m.Commit, m.Vote, m.RejectHint, m.Reject = &x.index, &x.commit, &x.vote,
		&x.rejectHnt, &x.reject
}

// entries reads count entries; their data shares one allocation.
func (x *box) entries(b []byte, count int) (rest []byte, err error) {
	total, at := 0, b
	for range count {
		if len(at) < entHeader || at[0] > byte(pb.EntryConfChangeV2) || at[1]|at[2]|at[3] != 0 {
			return nil, ErrMessage
		}
		n := int(binary.LittleEndian.Uint32(at[4:]))
		if n > len(at)-entHeader {
			return nil, ErrMessage
		}
		total += n
		at = at[entHeader+n:]
	}
	if count == 1 && total <= usualData {
		one := &oneEntry{}
		x.m.Entries = one.list[:]
		one.list[0] = &one.e
		return one.read(b, x.index+1, one.data[:0]), nil
	}
	list, boxes, data := make([]*pb.Entry, count), make([]entryBox, count), make([]byte, 0, total)
	for i := range boxes {
		e := &boxes[i]
		b = e.read(b, x.index+1+uint64(i), data)
		data = data[:len(data)+len(e.e.Data)]
		list[i] = &e.e
	}
	x.m.Entries = list
	return b, nil
}

// read reads one entry, whose bytes were checked, and puts its data behind data.
func (e *entryBox) read(b []byte, index uint64, data []byte) (rest []byte) {
	e.typ, e.term, e.index = pb.EntryType(b[0]), binary.LittleEndian.Uint64(b[8:]), index
	n := int(binary.LittleEndian.Uint32(b[4:]))
	e.e.Type, e.e.Term, e.e.Index = &e.typ, &e.term, &e.index
	if n > 0 {
		data = append(data, b[entHeader:entHeader+n]...)
		e.e.Data = data[len(data)-n : len(data) : len(data)]
	}
	return b[entHeader+n:]
}

// begin begins a message that has nothing but this.
func (x *box) begin(t pb.MessageType, from, term uint64) *pb.Message {
	x.typ, x.reject, x.to, x.from, x.term = t, false, 0, from, term
	x.logTerm, x.index, x.commit, x.vote, x.rejectHnt = 0, 0, 0, 0, 0
	x.fill()
	x.m.Context, x.m.Entries = nil, nil
	return &x.m
}

// same reports whether the bytes of two messages are the same.
func same(a, b *pb.Message) bool {
	if a.GetType() != b.GetType() || a.GetTo() != b.GetTo() || a.GetFrom() != b.GetFrom() ||
		a.GetTerm() != b.GetTerm() || a.GetLogTerm() != b.GetLogTerm() ||
		a.GetIndex() != b.GetIndex() || a.GetCommit() != b.GetCommit() ||
		a.GetVote() != b.GetVote() || a.GetReject() != b.GetReject() ||
		a.GetRejectHint() != b.GetRejectHint() || !bytes.Equal(a.Context, b.Context) {
		return false
	}
	return slices.EqualFunc(a.Entries, b.Entries, func(x, y *pb.Entry) bool {
		return x.GetType() == y.GetType() && x.GetTerm() == y.GetTerm() && bytes.Equal(x.Data, y.Data)
	})
}
