package rfp

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// Time is a point in time of the caller's clock.
type Time = monotime.Time

// Handler answers one request. It appends the result to resp, which has no bytes and all the room
// that there is, and returns it; req is valid until it returns. An error goes to the caller as a
// RemoteError.
type Handler func(req, resp []byte) ([]byte, error)

// Warm is called with the requests of a message that has several, before their handlers.
type Warm func(kinds []uint8, reqs [][]byte)

// ServerConfig describes a server.
type ServerConfig struct {
	Geometry
	// Epoch names this life of the server; 0 draws one. A client that knows another one gets
	// ErrEpoch.
	Epoch uint64
	// OneAtATime waits for the end of each reply before it sends the next one, as the papers'
	// servers do. It has one result in hand meanwhile, and takes no further message. For comparisons.
	OneAtATime bool
	// Checksum covers each message with a CRC-32C. RDMA needs it only where an adapter does not
	// place bytes in order.
	Checksum bool
	// FirstSequence is that of the first message in each slot.
	FirstSequence uint32
	// Warm is called before the handlers of a batch. May be nil.
	Warm Warm
	// Clock returns the time in which process times are measured. nil: they are not reported.
	Clock func() Time
}

// ServerStats counts what a server has done.
type ServerStats struct {
	Messages, Requests uint64 // that ran
	Replies            uint64 // results written to clients
	Malformed          uint64 // links ended for what was in their messages
	Ended              uint64 // links ended otherwise
}

// Server answers the messages of its links. One goroutine at a time uses it.
type Server struct {
	cfg      ServerConfig
	handlers [256]Handler
	conns    []*conn
	at       int // connection to look at next
	stats    ServerStats
	batch    onesided.Batch
	done     [16]onesided.Completion // room for a Poll of a link
	queue    []reply                 // OneAtATime: those that wait
	waiting  *conn                   // whose reply is under way
	current  Message
	kinds    []uint8
	reqs     [][]byte
}

type reply struct {
	c    *conn
	slot int
}

// conn is a link of the server.
type conn struct {
	link      onesided.Link
	requests  []byte
	responses []byte
	window    []byte // the client's replies in place, nil: they take WRITEs
	nonce     uint64
	expect    [MaxSlots]uint32
	at        int    // slot to look at next
	unsignal  int    // replies since the last one with a completion
	signaled  int    // completions to come
	silent    int    // looks at it that found nothing
	queued    uint64 // slots whose replies wait, a bit each
	full      bool   // takes no WRITE before the next poll
}

// signalEvery is how many replies have one completion.
const signalEvery = 32

// silence is after how many looks that found nothing a link is polled whose replies have no
// completion. A reply that failed is known by nothing else, and its client waits for it.
const silence = 16

// Message is a message under way at the server.
type Message struct {
	c    *conn
	slot int
	head head
	seen Time
	body []byte // private copy
}

// Requests returns how many requests the message has.
func (m *Message) Requests() int { return m.head.count }

// Bytes returns the size of the message.
func (m *Message) Bytes() int { return messageBytes(m.head.size) }

// NewServer returns a server without links. Errors: ErrConfig.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.Geometry.Check(); err != nil {
		return nil, err
	}
	if cfg.Epoch == 0 {
		cfg.Epoch = random()
	}
	if cfg.Clock == nil {
		cfg.Clock = func() Time { return 0 }
	}
	s := &Server{cfg: cfg}
	s.current.body = make([]byte, messageBytes(cfg.Request))
	entries := cfg.Request / entryBytes
	s.kinds, s.reqs = make([]uint8, 0, min(entries, 1<<16)), make([][]byte, 0, min(entries, 1<<16))
	return s, nil
}

// random returns a number that is not 0.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// Handle sets the handler of a request type, before the first message.
func (s *Server) Handle(kind uint8, h Handler) { s.handlers[kind] = h }

// Stats returns the counters.
func (s *Server) Stats() ServerStats { return s.stats }

// Epoch returns the name of this life.
func (s *Server) Epoch() uint64 { return s.cfg.Epoch }

// Links returns how many links there are.
func (s *Server) Links() int { return len(s.conns) }

// Serve adds a link whose own regions are ServerSpecs. The server owns it from now on and closes it
// when it ends. Errors: ErrConfig.
func (s *Server) Serve(link onesided.Link) error {
	for i, spec := range ServerSpecs(s.cfg.Geometry) {
		if len(link.Region(i)) != spec.Size {
			return fmt.Errorf("%w: region %d has %d bytes, want %d",
				ErrConfig, i, len(link.Region(i)), spec.Size)
		}
	}
	if peer := link.Peer(); len(peer) == 0 || peer[clientReplies].Access&onesided.PeerWrites == 0 ||
		peer[clientReplies].Size < s.cfg.replyAt(s.cfg.Slots) {
		return fmt.Errorf("%w: the client's regions are %+v", ErrConfig, peer)
	}
	c := &conn{link: link, requests: link.Region(serverRequests),
		responses: link.Region(serverResponses), nonce: random()}
	if !s.cfg.OneAtATime { // else it waits for completions
		c.window = link.Window(clientReplies)
	}
	for i := range c.expect {
		c.expect[i] = s.cfg.FirstSequence + 1
	}
	k := control{s.cfg.Epoch, c.nonce, s.cfg.FirstSequence + 1, s.cfg.Geometry}
	k.put(c.responses[:controlBytes])
	s.conns = append(s.conns, c)
	return nil
}

// Poll answers at most limit messages and returns how many there were.
func (s *Server) Poll(limit int) int {
	for n := range limit {
		m := s.Next()
		if m == nil {
			return n
		}
		s.Answer(m)
	}
	return limit
}

// Next takes a message that has come, or returns nil if there is none. Its requests have not run.
// The next call is Answer.
func (s *Server) Next() *Message {
	s.completions()
	for range len(s.conns) {
		if s.at >= len(s.conns) {
			s.at = 0
		}
		c := s.conns[s.at]
		var m *Message
		var err error
		if s.waiting == nil || len(s.queue) == 0 { // else OneAtATime has a result in hand
			m, err = s.look(c)
		}
		if err == nil {
			err = c.link.Err()
		}
		if err != nil {
			s.drop(c, err)
			continue
		}
		s.at++
		if m != nil {
			return m
		}
		if c.silent++; c.silent%silence == 0 && c.unsignal > 0 {
			s.collect(c)
		}
	}
	return nil
}

// look takes a message of a link.
func (s *Server) look(c *conn) (*Message, error) {
	g := &s.cfg.Geometry
	for range g.Slots {
		slot := c.at
		if c.at++; c.at == g.Slots {
			c.at = 0
		}
		at := g.requestAt(slot)
		first := onesided.Load(c.requests, at)
		if uint32(first) != c.expect[slot] {
			continue
		}
		m, err := s.take(c, slot, first, c.requests[at:at+stride(g.Request)])
		if m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// take copies a message, once, and then looks at it: its sender may change it at any time. It
// returns nil if the message has not come as a whole.
func (s *Server) take(c *conn, slot int, first uint64, mem []byte) (*Message, error) {
	h := parseHead(first, 0)
	if h.size > s.cfg.Request || h.flags >= flagsKnown {
		return nil, fmt.Errorf("%w: a message of %d bytes, flags %#x", ErrProtocol, h.size, h.flags)
	}
	end := headBytes + (h.size+7)&^7
	last := onesided.Load(mem, end)
	m := &s.current
	h = parseHead(first, onesided.Load(mem, 8))
	body := m.body[:h.size]
	copy(body, mem[headBytes:])
	if last != tail(c.nonce, &h, body) {
		return nil, nil
	}
	rest := body
	for range h.count {
		var ok bool
		if _, _, rest, ok = nextEntry(rest); !ok {
			return nil, fmt.Errorf("%w: %d entries in %d bytes", ErrProtocol, h.count, h.size)
		}
	}
	if h.count == 0 || len(rest) != 0 {
		return nil, fmt.Errorf("%w: %d entries, %d bytes too many", ErrProtocol, h.count, len(rest))
	}
	c.expect[slot]++ // from here on it cannot run again
	m.c, m.slot, m.head, m.seen = c, slot, h, s.cfg.Clock()
	return m, nil
}

// drop ends a link.
func (s *Server) drop(c *conn, why error) {
	if errors.Is(why, ErrProtocol) {
		s.stats.Malformed++
	} else {
		s.stats.Ended++
	}
	for i, other := range s.conns {
		if other == c {
			s.conns = append(s.conns[:i], s.conns[i+1:]...)
			break
		}
	}
	if s.waiting == c {
		s.waiting = nil
	}
	kept := s.queue[:0]
	for _, r := range s.queue {
		if r.c != c {
			kept = append(kept, r)
		}
	}
	s.queue = kept
	_ = c.link.Close()
	s.flushReplies() // they may have waited for this link
}

// Close ends all links.
func (s *Server) Close() {
	for len(s.conns) > 0 {
		s.drop(s.conns[0], onesided.ErrClosed)
	}
}

// Answer runs the requests of a message and leaves their results where the client fetches them.
func (s *Server) Answer(m *Message) {
	g, c := &s.cfg.Geometry, m.c
	at := g.responseAt(m.slot)
	slot := c.responses[at : at+stride(g.Response)]
	if s.cfg.Warm != nil && m.head.count > 1 {
		s.warm(m)
	}
	size := s.run(m, slot[headBytes:headBytes+g.Response])
	h := head{seq: m.head.seq, size: size, count: m.head.count,
		aux: timeUnits(s.cfg.Clock().Sub(m.seen))}
	if s.cfg.Checksum {
		h.flags |= flagSum
	}
	s.stats.Messages++
	if c.window != nil && m.head.flags&flagReply != 0 {
		// Its client never fetches it, so no order of stores matters here.
		binary.LittleEndian.PutUint64(slot, enclose(slot, c.nonce, &h))
		s.place(c, m.slot, size)
		return
	}
	finish(slot, c.nonce, &h)
	// The result is visible before this load: either the word is seen here, or the READ that the
	// client posts behind the word finds the result.
	wanted := uint32(onesided.Load(c.requests, g.wantedAt(m.slot))) == m.head.seq
	if wanted || m.head.flags&flagReply != 0 {
		s.reply(c, m.slot, size)
	}
}

func (s *Server) warm(m *Message) {
	s.kinds, s.reqs = s.kinds[:0], s.reqs[:0]
	rest := m.body[:m.head.size]
	for range m.head.count {
		var data []byte
		var kind uint8
		data, kind, rest, _ = nextEntry(rest)
		s.kinds, s.reqs = append(s.kinds, kind), append(s.reqs, data)
	}
	s.cfg.Warm(s.kinds, s.reqs)
}

// run answers the entries into body and returns the size of their results. Room for the words of
// those that follow is kept, so that each has an answer at least.
func (s *Server) run(m *Message, body []byte) (size int) {
	body, rest := body[:len(body)&^3], m.body[:m.head.size]
	for left := m.head.count - 1; left >= 0; left-- {
		var req []byte
		var kind uint8
		req, kind, rest, _ = nextEntry(rest)
		end := len(body) - left*entryBytes
		if size+entryBytes > end {
			m.head.count -= left + 1 // a client that leaves no room gets no more answers
			break
		}
		status, n := s.call(kind, req, body[size+entryBytes:end:end])
		putEntry(body[size:], n, status)
		size += entrySize(n)
		s.stats.Requests++
	}
	return size
}

// Status of a result.
const (
	statusOK uint8 = iota
	statusNoHandler
	statusTooLarge
	statusError // the bytes are its text
)

// call runs a handler. The result lies in room.
func (s *Server) call(kind uint8, req, room []byte) (status uint8, size int) {
	h := s.handlers[kind]
	if h == nil {
		return statusNoHandler, 0
	}
	out, err := h(req, room[:0])
	if err != nil {
		return statusError, copy(room, err.Error())
	}
	if len(out) > len(room) {
		return statusTooLarge, 0
	}
	if len(out) > 0 && &out[0] != &room[0] {
		copy(room, out)
	}
	return statusOK, len(out)
}

// reply writes a result to the client too. A slot waits once, and its content of then is written.
// So a client that does not wait for its replies makes no queue grow.
func (s *Server) reply(c *conn, slot, size int) {
	if c.window != nil {
		s.place(c, slot, size)
		return
	}
	if c.queued>>slot&1 != 0 {
		return
	}
	if s.cfg.OneAtATime || c.full || !s.write(c, slot) {
		c.queued |= 1 << slot
		s.queue = append(s.queue, reply{c, slot})
	}
	s.flushReplies()
}

// place stores a result of size bytes in the client's memory: one copy, the tail last. The handler
// never works there, since the client may store to it at any time.
func (s *Server) place(c *conn, slot, size int) {
	at, to, n := s.cfg.responseAt(slot), s.cfg.replyAt(slot), messageBytes(size)
	onesided.Copy(c.window[to:to+n], c.responses[at:at+n])
	s.stats.Replies++
}

// flushReplies sends those that wait, as far as their links take them: a client whose link is full
// holds up its own replies only.
func (s *Server) flushReplies() {
	for i := 0; i < len(s.queue) && s.waiting == nil; {
		r := s.queue[i]
		if r.c.full || !s.write(r.c, r.slot) {
			i++
			continue
		}
		r.c.queued &^= 1 << r.slot
		s.queue = append(s.queue[:i], s.queue[i+1:]...)
		if s.cfg.OneAtATime {
			s.waiting = r.c
		}
	}
}

// write posts the WRITE of a result. It reports false if the link takes none now; one that has
// ended takes all.
func (s *Server) write(c *conn, slot int) bool {
	g := &s.cfg.Geometry
	at := g.responseAt(slot)
	h := parseHead(onesided.Load(c.responses, at), 0)
	signal := s.cfg.OneAtATime || c.unsignal+1 >= signalEvery
	s.batch.Reset()
	s.batch.Write(serverResponses, at, clientReplies, g.replyAt(slot), messageBytes(h.size), 0, signal)
	if err := c.link.Post(&s.batch); err != nil {
		c.full = errors.Is(err, onesided.ErrFull)
		return !c.full
	}
	s.stats.Replies++
	c.unsignal++
	if signal {
		c.unsignal = 0
		c.signaled++
	}
	return true
}

// completions takes those of replies.
func (s *Server) completions() {
	for _, c := range s.conns {
		if c.signaled > 0 || c.full {
			s.collect(c)
		}
	}
	if len(s.queue) > 0 {
		s.flushReplies()
	}
}

// collect takes the completions of a link, and has it notice that it has ended.
func (s *Server) collect(c *conn) {
	n := c.link.Poll(s.done[:])
	c.signaled -= n
	c.full = false
	if n > 0 && s.waiting == c {
		s.waiting = nil
	}
}
