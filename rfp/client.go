package rfp

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// never is no point in time.
const never = Time(1<<63 - 1)

// Call is a request. Done is called once, by Poll or Close: with the result, valid until it
// returns, or with an error. It may make calls. Errors: ErrDeadline, ErrNoHandler, ErrTooLarge,
// RemoteError, ErrProtocol, ErrEpoch, ErrGeometry, and what ended the link.
type Call struct {
	Kind     uint8  // type of the request
	Body     []byte // copied
	Tag      uint64 // for Done
	Deadline Time   // 0: none
	Done     func(tag uint64, resp []byte, err error)
}

// Stats counts what a client has done.
type Stats struct {
	Calls, Messages  uint64 // that have ended, and their messages
	Reads            uint64 // posted, or looks at a view that found the result
	Missed           uint64 // READs that found no result
	Rests            uint64 // READs of what F did not cover
	Replies          uint64 // results that the server wrote
	Asked            uint64 // messages whose mode changed under way
	ToReply, ToFetch uint64 // changes of a type's mode
	Late             uint64 // calls whose deadline passed
}

// Client makes calls over one link. One goroutine at a time uses it.
type Client struct {
	link    onesided.Link
	cfg     Config
	private []byte
	replies []byte
	view    []byte // of the responses, nil if there is none
	control control
	opened  bool
	opening bool // a READ of the control block is under way
	slots   [MaxSlots]slot
	busy    uint64 // slots under way, a bit each
	free    uint64
	leaving uint64 // ... whose message goes with the next doorbell
	open    int    // slot whose message takes calls, -1: none
	fresh   bool   // calls came since the last Poll
	modes   [256]mode
	sizer   Sizer
	batch   onesided.Batch
	done    [16]onesided.Completion // room for a Poll of the link
	now     Time
	soonest Time // deadline, or before
	wake    Time // READ to post
	err     error
	stats   Stats
}

// slot is a message.
type slot struct {
	seq     uint32
	entries []entry
	size    int // of its body
	opened  Time
	sent    Time
	next    Time // when to post one; never: something else has to happen before
	reads   int  // that found nothing
	reading bool
	reply   bool // the server writes the result
	asked   bool // ... because it was asked to under way
	have    int  // bytes of the response that have landed
}

type entry struct {
	done     func(tag uint64, resp []byte, err error)
	tag      uint64
	deadline Time
	kind     uint8
}

// The kinds of operations, in their IDs beside the slot and the sequence.
const (
	opWrite = iota
	opRead
	opRest
	opControl
)

func opID(what, slot int, seq uint32) uint64 {
	return uint64(what)<<56 | uint64(slot)<<32 | uint64(seq)
}

// NewClient returns a client on a link whose own regions are ClientSpecs. The client owns it.
// Errors: ErrConfig.
func NewClient(link onesided.Link, cfg Config) (*Client, error) {
	if err := cfg.fill(); err != nil {
		return nil, err
	}
	for i, spec := range ClientSpecs(cfg.Geometry) {
		if len(link.Region(i)) != spec.Size {
			return nil, fmt.Errorf("%w: region %d has %d bytes, want %d",
				ErrConfig, i, len(link.Region(i)), spec.Size)
		}
	}
	if peer := link.Peer(); len(peer) != 2 || peer[serverRequests] != ServerSpecs(cfg.Geometry)[0] ||
		peer[serverResponses] != ServerSpecs(cfg.Geometry)[1] {
		return nil, fmt.Errorf("%w: its regions are %+v", ErrGeometry, peer)
	}
	c := &Client{link: link, cfg: cfg, private: link.Region(clientPrivate),
		replies: link.Region(clientReplies), view: link.View(serverResponses),
		free: 1<<cfg.Slots - 1, open: -1, soonest: never, wake: never}
	if cfg.Slots == MaxSlots {
		c.free = 1<<MaxSlots - 1
	}
	c.sizer = NewSizer(cfg.Batch, cfg.Limit, cfg.Tolerance)
	for i := range cfg.Slots {
		c.slots[i].entries = make([]entry, 0, cfg.Batch)
	}
	for i := range c.modes {
		c.modes[i].reply = cfg.Mode == Reply
	}
	return c, nil
}

// Stats returns the counters.
func (c *Client) Stats() Stats { return c.stats }

// Epoch returns the server's life; 0 before it is known.
func (c *Client) Epoch() uint64 { return c.control.epoch }

// Err returns why the client has ended, or nil.
func (c *Client) Err() error { return c.err }

// Idle reports whether no call is under way.
func (c *Client) Idle() bool { return c.busy == 0 && c.open < 0 }

// BatchSize returns how many calls a message takes now.
func (c *Client) BatchSize() int {
	if c.cfg.Limit > 0 {
		return c.sizer.Size()
	}
	return c.cfg.Batch
}

// Send takes a call; Poll sends it. Errors, without a call of Done: ErrBusy, ErrTooLarge, and what
// Err returns.
func (c *Client) Send(q *Call) error {
	if c.err != nil {
		return c.err
	}
	need := entrySize(len(q.Body))
	if need > c.cfg.Request {
		return fmt.Errorf("%w: a request of %d bytes, at most %d",
			ErrTooLarge, len(q.Body), c.cfg.Request-entryBytes)
	}
	if c.open >= 0 && c.slots[c.open].size+need > max(c.cfg.BatchBytes, need) {
		c.flush()
	}
	if c.open < 0 && !c.openSlot() {
		return ErrBusy
	}
	s := &c.slots[c.open]
	body := c.message(c.open)[headBytes:]
	putEntry(body[s.size:], len(q.Body), q.Kind)
	copy(body[s.size+entryBytes:], q.Body)
	s.size += need
	deadline := never
	if q.Deadline != 0 {
		deadline = q.Deadline
		c.soonest = min(c.soonest, deadline)
	}
	s.entries = append(s.entries, entry{q.Done, q.Tag, deadline, q.Kind})
	c.fresh = true
	if len(s.entries) >= min(c.BatchSize(), c.cfg.Batch) || s.size >= c.cfg.BatchBytes {
		c.flush()
	}
	return nil
}

// openSlot begins a message.
func (c *Client) openSlot() bool {
	if c.free == 0 || !c.opened {
		return false
	}
	c.open = bits.TrailingZeros64(c.free)
	c.free &^= 1 << c.open
	s := &c.slots[c.open]
	s.size, s.entries, s.opened = 0, s.entries[:0], c.now
	return true
}

// message is where the request of a slot is put together.
func (c *Client) message(i int) []byte {
	at := c.cfg.requestAt(i)
	return c.private[at : at+stride(c.cfg.Request)]
}

// flush puts the open message into the next doorbell.
func (c *Client) flush() {
	i := c.open
	s := &c.slots[i]
	c.open = -1
	m := &c.modes[s.entries[0].kind]
	h := head{seq: s.seq, size: s.size, count: len(s.entries), aux: uint16(c.BatchSize())}
	s.reply = m.reply || c.cfg.Mode == Hybrid && s.size > c.cfg.ReplyAbove
	if s.reply {
		h.flags |= flagReply
	}
	if c.cfg.Checksum {
		h.flags |= flagSum
	}
	finish(c.message(i), c.control.nonce, &h)
	s.asked, s.reading, s.reads, s.have, s.next = false, false, 0, 0, never
	signal := !s.reply && c.cfg.First == After && c.view == nil
	at := c.cfg.requestAt(i)
	c.batch.Write(clientPrivate, at, serverRequests, at, messageBytes(s.size),
		opID(opWrite, i, s.seq), signal)
	c.busy |= 1 << i
	c.leaving |= 1 << i
}

// depart notes the time at which the messages of this doorbell leave, and plans their first READs.
func (c *Client) depart() {
	for ; c.leaving != 0; c.leaving &= c.leaving - 1 {
		i := bits.TrailingZeros64(c.leaving)
		s := &c.slots[i]
		s.sent = c.now
		if !s.reply && c.view == nil {
			c.first(i, &c.modes[s.entries[0].kind])
		}
	}
}

// Poll makes progress: it looks for results, and sends what is to be sent. It returns how many
// calls have ended.
func (c *Client) Poll(now Time) int {
	c.now = now
	ended := c.stats.Calls
	if c.err != nil {
		return 0
	}
	if !c.opened {
		c.start()
	}
	c.completions()
	if c.busy != 0 {
		c.look()
	}
	if err := c.link.Err(); err != nil {
		c.fail(err)
	}
	if now >= c.soonest {
		c.expire()
	}
	if now >= c.wake {
		c.readDue()
	}
	if c.open >= 0 && (c.cfg.Wait == 0 || !c.fresh ||
		now.Sub(c.slots[c.open].opened) >= c.cfg.Wait) {
		c.flush()
	}
	c.fresh = false
	c.depart()
	c.ring()
	return int(c.stats.Calls - ended)
}

// NextWake returns when Poll has something to do if nothing comes: a time of the caller's clock,
// now at the earliest. After the client's end there is nothing more to do.
func (c *Client) NextWake() Time {
	if c.err != nil {
		return never
	}
	at := min(c.wake, c.soonest)
	if c.open >= 0 || c.leaving != 0 || len(c.batch.Ops) > 0 {
		at = c.now
	}
	return max(at, c.now)
}

// ring posts what has gathered.
func (c *Client) ring() {
	if len(c.batch.Ops) == 0 || c.err != nil {
		return
	}
	switch err := c.link.Post(&c.batch); err {
	case nil:
		c.batch.Reset()
	case onesided.ErrFull: // the next Poll tries again
	default:
		c.batch.Reset()
		c.fail(err)
	}
}

// start learns the control block.
func (c *Client) start() {
	if c.view != nil {
		c.learn(c.view)
		return
	}
	if !c.opening && c.link.Err() == nil {
		c.opening = true
		c.batch.Read(clientPrivate, c.cfg.controlAt(), serverResponses, 0, controlBytes,
			opID(opControl, 0, 0))
	}
}

// learn reads the control block.
func (c *Client) learn(mem []byte) {
	k, ok := readControl(mem)
	switch {
	case !ok:
	case k.geometry != c.cfg.Geometry:
		c.fail(fmt.Errorf("%w: %+v here, %+v there", ErrGeometry, c.cfg.Geometry, k.geometry))
	case c.cfg.Epoch != 0 && k.epoch != c.cfg.Epoch:
		c.control = k
		c.fail(ErrEpoch)
	default:
		c.control, c.opened = k, true
		for i := range c.slots {
			c.slots[i].seq = k.first
		}
	}
}

// Ready reports whether the client takes a call now; it may be false until the server is known.
func (c *Client) Ready() bool { return c.opened && c.err == nil && (c.free != 0 || c.open >= 0) }

// Close ends all calls with ErrClosed, and the link.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	return nil
}

// fail ends everything, once.
func (c *Client) fail(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	_ = c.link.Close()
	if c.open >= 0 {
		c.busy |= 1 << c.open
		c.open = -1
	}
	for c.busy != 0 {
		i := bits.TrailingZeros64(c.busy)
		c.busy &^= 1 << i
		for j := range c.slots[i].entries {
			c.end(&c.slots[i].entries[j], nil, err)
		}
	}
}

// end ends a call unless it has ended.
func (c *Client) end(e *entry, resp []byte, err error) {
	if done := e.done; done != nil {
		e.done = nil
		c.stats.Calls++
		done(e.tag, resp, err)
	}
}

// expire ends calls whose deadline has passed. Their slots stay in use until the result is there.
func (c *Client) expire() {
	c.soonest = never
	all := c.busy
	if c.open >= 0 {
		all |= 1 << c.open
	}
	for ; all != 0; all &= all - 1 {
		s := &c.slots[bits.TrailingZeros64(all)]
		for j := range s.entries {
			e := &s.entries[j]
			if e.done == nil {
				continue
			}
			if c.now >= e.deadline {
				c.stats.Late++
				c.end(e, nil, ErrDeadline)
				continue
			}
			c.soonest = min(c.soonest, e.deadline)
		}
	}
}

// deliver ends the calls of a message whose response lies in mem, checked as far as its words.
func (c *Client) deliver(i int, h *head, mem []byte) {
	s := &c.slots[i]
	rest := mem[headBytes : headBytes+h.size]
	if h.count != len(s.entries) {
		c.fail(fmt.Errorf("%w: %d answers to %d requests", ErrProtocol, h.count, len(s.entries)))
		return
	}
	c.stats.Messages++
	took := c.now.Sub(s.sent)
	for j := range s.entries {
		data, status, more, ok := nextEntry(rest)
		if !ok {
			c.fail(fmt.Errorf("%w: answer %d of %d", ErrProtocol, j, h.count))
			return
		}
		rest = more
		if c.cfg.Limit > 0 {
			c.sizer.Add(c.now, took)
		}
		c.end(&s.entries[j], data, statusErr(status, data))
		if c.err != nil {
			return // Done closed the client
		}
	}
	s.seq++
	c.busy &^= 1 << i
	c.free |= 1 << i
}

func statusErr(status uint8, data []byte) error {
	switch status {
	case statusOK:
		return nil
	case statusNoHandler:
		return ErrNoHandler
	case statusTooLarge:
		return ErrTooLarge
	}
	return RemoteError(data)
}

// Mode returns how results of a type come back now: Fetch or Reply.
func (c *Client) Mode(kind uint8) Mode {
	if c.modes[kind].reply {
		return Reply
	}
	return Fetch
}

// SetMode chooses it for the next calls, for callers that choose themselves. The mode Hybrid may
// change it again.
func (c *Client) SetMode(kind uint8, m Mode) {
	if c.modes[kind].reply == (m == Reply) {
		return
	}
	if c.open >= 0 && c.slots[c.open].entries[0].kind == kind {
		c.flush() // its calls were made before
	}
	c.modes[kind].reply = m == Reply
}

// Took is the process time that the server reported last for a type.
func (c *Client) Took(kind uint8) time.Duration { return c.modes[kind].process }
