package grpcerpc

import (
	"encoding/binary"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/userspace-rpc/erpc/grpcerpc/internal/frame"
)

// Flow control of streams. Each side may have sent messages up to a limit that the other one tells
// it: what its application has read, and a window.
const (
	window      = 256 << 10 // but for WithInitialWindowSize
	messageCost = 32        // of a message beside its bytes, so that empty ones are bounded too
	maxBatch    = 64 << 10
	maxQueued   = 64 << 10 // bytes and costs left behind with which SendMsg does not wait
	turn        = 16 << 10 // bytes that a stream says of a batch before others have their turn
	slack       = 4 << 10  // bytes by which a batch may be larger, to end a message
	growth      = 4        // times what has come of a large message is the memory it has at most
	// A client has at most maxCalls exchanges of a connection under way. The server keeps maxParked
	// unanswered when it has nothing to say, so the others are there to send with: at least one, for
	// which the client keeps a slot. Both do with fewer where sessions have few slots; see parks.
	maxCalls  = 8
	maxParked = 4
)

// message is a message that was received.
type message struct {
	data       []byte
	memory     *[]byte // of buffers; data grows in it
	compressed bool
	credited   uint64 // bytes that count as read already
}

// free gives the memory of a message back, when it has been decoded.
func (m *message) free() {
	if m.memory != nil {
		*m.memory = m.data
		putBuffer(m.memory)
		m.memory, m.data = nil, nil
	}
}

// inbox holds what a stream has received and the application has not read.
type inbox struct {
	most    int    // bytes of the largest message
	window  uint64 // bytes that the peer may have sent which were not read
	ready   fifo[message]
	part    message // under way
	size    uint64  // of part, when it is complete
	partial bool
	got     uint64 // bytes received in all
	read    uint64 // bytes read in all
	told    uint64 // what the peer may send in all
	reading bool   // the application waits for a message
	asked   bool   // the loop is about to tell the peer that it may send more
}

func newInbox(most int, size uint64) inbox {
	return inbox{most: most, window: size, told: size, ready: fifo[message]{pool: &messageLists}}
}

// accept takes a frame of a message.
func (in *inbox) accept(k frame.Kind, payload []byte) error {
	if k == frame.More {
		if !in.partial {
			return errFrames
		}
		return in.grow(payload)
	}
	size, first, err := frame.ParseMessage(payload)
	if err != nil || in.partial {
		return errFrames
	}
	if size > uint64(in.most) {
		return tooLarge(int(min(size, 1<<62)), in.most)
	}
	in.part, in.size, in.partial = message{compressed: k == frame.Compressed}, size, true
	in.got += messageCost
	return in.grow(first)
}

// grow adds bytes to the message under way.
func (in *inbox) grow(b []byte) error {
	if in.got += uint64(len(b)); in.got > max(in.told, window) { // which peers may take for granted
		return status.Error(codes.ResourceExhausted, "grpcerpc: the peer ignores flow control")
	}
	m := &in.part
	size := uint64(len(m.data) + len(b))
	if size > in.size {
		return errFrames
	}
	switch {
	case m.memory == nil:
		m.memory = getBuffer()
		m.data = slices.Grow((*m.memory)[:0], int(min(in.size, window)))
	case size > uint64(cap(m.data)): // the loop copies it: not often, and not for a size alone
		old := m.data
		m.data = grown(old, int(min(in.size, growth*size))-len(old))
		putBuffer(&old)
	}
	m.data = append(m.data, b...)
	if in.reading && in.ready.len() == 0 {
		in.credit()
	}
	if uint64(len(m.data)) == in.size {
		in.ready.push(*m)
		in.part, in.partial = message{}, false
	}
	return nil
}

// credit counts the message under way as read, all of it: the application waits for it, so the peer
// need not wait for news of its parts.
func (in *inbox) credit() {
	in.read += in.size - in.part.credited
	in.part.credited = in.size
}

// take returns the next message.
func (in *inbox) take() (m message, ok bool) {
	if in.ready.len() == 0 {
		if in.reading = true; in.partial {
			in.credit()
		}
		return m, false
	}
	in.reading = false
	m = in.ready.pop()
	in.read += uint64(len(m.data)) - m.credited + messageCost
	return m, true
}

// due reports whether the peer has to be told that it may send more.
func (in *inbox) due() bool { return in.read+in.window-in.told >= in.window/2 }

// ask is due, once until tell.
func (in *inbox) ask() bool {
	if in.asked || !in.due() {
		return false
	}
	in.asked = true
	return true
}

// tell returns the limit that the peer is told now.
func (in *inbox) tell() uint64 {
	in.told, in.asked = in.read+in.window, false
	return in.told
}

// outbox holds what a stream has to send.
type outbox struct {
	items  fifo[item]
	queued int    // bytes of messages, and what they cost beside these
	sent   uint64 // bytes of messages in all
	limit  uint64 // what the peer takes in all
}

// item is a message or another frame.
type item struct {
	kind   frame.Kind
	data   []byte  // payload, or the message
	memory *[]byte // of buffers, which data lies in; nil if it does not
	at     int     // bytes of the message that were sent
	begun  bool
}

func newOutbox() outbox { return outbox{limit: window, items: fifo[item]{pool: &itemLists}} }

// messageLists and itemLists are the memory of long queues.
var messageLists, itemLists sync.Pool

func (it *item) isMessage() bool { return it.kind == frame.Message || it.kind == frame.Compressed }

// put adds a frame that is no message, whose data it owns.
func (out *outbox) put(k frame.Kind, data []byte) {
	out.items.push(item{kind: k, data: data})
}

// putMessage adds a message in memory of buffers, which goes back there.
func (out *outbox) putMessage(k frame.Kind, memory *[]byte) {
	out.queued += len(*memory) + messageCost
	out.items.push(item{kind: k, data: *memory, memory: memory})
}

// allow notes what the peer takes.
func (out *outbox) allow(limit uint64) { out.limit = max(out.limit, limit) }

// need returns what the next part of a message takes of the limit at least.
func (it *item) need() uint64 {
	n := uint64(min(len(it.data)-it.at, 1))
	if !it.begun {
		n += messageCost
	}
	return n
}

// blocked reports whether the next thing to send is beyond the limit.
func (out *outbox) blocked() bool {
	if out.items.len() == 0 {
		return false
	}
	it := out.items.first()
	return it.isMessage() && it.need() > out.limit-out.sent
}

// ready reports whether something can be sent.
func (out *outbox) ready() bool { return out.items.len() > 0 && !out.blocked() }

// fill appends frames to b, up to most bytes and some more. It returns the kind of the last one.
func (out *outbox) fill(b []byte, most int) (_ []byte, last frame.Kind) {
	for begin := len(b); out.ready() && len(b)-begin < most; {
		it := out.items.first()
		last = it.kind
		if it.isMessage() {
			if b = out.fillMessage(b, it, most-(len(b)-begin)); it.at < len(it.data) {
				continue
			}
			if it.memory != nil {
				putBuffer(it.memory)
			}
		} else {
			b = frame.AppendFrame(b, it.kind, it.data)
		}
		out.items.pop()
	}
	return b, last
}

// fillMessage appends as much of a message as room and the limit allow, one byte at least.
func (out *outbox) fillMessage(b []byte, it *item, room int) []byte {
	kind, size := frame.More, len(it.data)
	if !it.begun {
		kind = it.kind
		out.sent += messageCost
		out.queued -= messageCost
	}
	chunk := it.data[it.at:]
	if len(chunk) <= room+slack {
		room += slack
	}
	chunk = chunk[:min(uint64(len(chunk)), out.limit-out.sent, uint64(max(room, 1)))]
	var head [binary.MaxVarintLen64]byte
	n := 0
	if !it.begun {
		n = binary.PutUvarint(head[:], uint64(size))
	}
	b = append(b, byte(kind))
	b = binary.AppendUvarint(b, uint64(n+len(chunk)))
	b = append(append(b, head[:n]...), chunk...)
	it.begun = true
	it.at += len(chunk)
	out.sent += uint64(len(chunk))
	out.queued -= len(chunk)
	return b
}

// drop forgets all that was not sent.
func (out *outbox) drop() { out.items, out.queued = fifo[item]{}, 0 }

// kind returns the kind of frame that messages of a call begin with.
func (c *coding) kind() frame.Kind {
	if c.compressor != nil {
		return frame.Compressed
	}
	return frame.Message
}
