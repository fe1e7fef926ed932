package erpc

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/memsize"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// memoryPart is which part of what the process may use message buffers take by default.
	memoryPart = 4
	// unknownMemory is the limit where the system does not say how much there is.
	unknownMemory = 1 << 30
	// maxLean is how many bytes a peer may hold ahead of its packets before it has sent any.
	maxLean = 2 << 20
	// slotMessages is how many of the largest messages a slot may keep, if others keep fewer.
	slotMessages = 2
)

// memoryBook counts the memory of message buffers: what pools have taken from the system, and what
// of it the peers' requests and responses take, by address.
type memoryBook struct {
	budget *msgbuf.Budget
	fair   bool
	used   atomic.Int64 // of all holders
	users  atomic.Int64 // holders that use some

	mu      sync.Mutex
	holders map[transport.Addr]*holder
}

func newMemoryBook(limit int64, fair bool) *memoryBook {
	return &memoryBook{
		budget: msgbuf.NewBudget(limit), fair: fair, holders: make(map[transport.Addr]*holder),
	}
}

// processMemory is the limit of all Nexus whose Config names none.
var processMemory = sync.OnceValue(func() *msgbuf.Budget {
	if all := memsize.Limit(); all > 0 {
		return msgbuf.NewBudget(all / memoryPart)
	}
	return msgbuf.NewBudget(unknownMemory)
})

// bookOf returns the book that a configuration asks for.
func bookOf(c *Config) *memoryBook {
	b := newMemoryBook(c.MemoryLimit, !c.Shares.Off)
	if c.MemoryLimit == 0 {
		b.budget = processMemory()
	}
	return b
}

// quota returns how much the slots of one session may keep: half of the limit at most, but enough
// for a request and a response.
func (b *memoryBook) quota(slots, maxMessage int) int {
	each := slotMessages * int64(maxMessage+maxMessage/16+1<<16) // with headers
	return int(min(max(each, min(int64(slots)*each, b.budget.Limit()/2)), math.MaxInt))
}

// scarce reports whether three quarters are in use.
func (b *memoryBook) scarce() bool {
	return max(b.used.Load(), b.budget.Used()) > lastQuarter(b.budget.Limit())
}

// holder counts what the sessions of one address use at all endpoints of a Nexus. It is their bank.
type holder struct {
	book *memoryBook
	key  transport.Addr
	used atomic.Int64
	lean atomic.Int64
	refs int // addrQuotas of endpoints; under book.mu
}

// open returns the holder of an address.
func (b *memoryBook) open(key transport.Addr) *holder {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := b.holders[key]
	if h == nil {
		h = &holder{book: b, key: key}
		b.holders[key] = h
	}
	h.refs++
	return h
}

// close undoes open.
func (b *memoryBook) close(h *holder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.refs--; h.refs == 0 {
		delete(b.holders, h.key)
	}
}

// Take takes n bytes, or says why not.
func (h *holder) Take(n int64) session.Refusal {
	b := h.book
	limit := b.budget.Limit()
	own := h.used.Add(n)
	if own == n {
		b.users.Add(1)
	}
	all := b.used.Add(n)
	switch {
	case all > limit:
		h.Give(n)
		return session.NoMemory
	case b.fair && max(all, b.budget.Used()) > lastQuarter(limit) && own > limit/(b.users.Load()+1):
		h.Give(n)
		return session.AddrQuotaUsed
	}
	return session.Granted
}

// Give gives n bytes back.
func (h *holder) Give(n int64) {
	if n == 0 {
		return
	}
	h.book.used.Add(-n)
	if h.used.Add(-n) == 0 {
		h.book.users.Add(-1)
	}
}

// Lean takes n bytes of maxLean, or gives back as many if n is negative.
func (h *holder) Lean(n int64) bool {
	if h.lean.Add(n) > maxLean && n > 0 {
		h.lean.Add(-n)
		return false
	}
	return true
}

const (
	// largeMessage is the least size of a message that a Call's goroutine copies: while the loop
	// copies some MiB, the calls of all others wait.
	largeMessage = 64 << 10
	// maxAhead bounds the bytes of requests that were copied and not sent. Beyond it the loop
	// copies them when it sends them.
	maxAhead = 64 << 20
	// copyPiece is how many bytes are copied in one go: some tens of microseconds.
	copyPiece = 128 << 10
)

// CopyLarge is copy for messages of some MiB: after each 128 KiB it lets other goroutines, and
// other threads of the machine, have the processor. Copying all in one go would take it from event
// loops for a whole time slice of some milliseconds, and the calls of all others would wait.
func CopyLarge(dst, src []byte) (n int) {
	for n < len(src) && n < len(dst) {
		if n > 0 {
			standAside()
		}
		n += copy(dst[n:min(n+copyPiece, len(dst))], src[n:])
	}
	return n
}

// CloneLarge is bytes.Clone as CopyLarge is copy.
func CloneLarge(b []byte) []byte { return sys.ClonePieces(b, copyPiece, standAside) }

// standAside lets other goroutines and threads have the processor.
func standAside() {
	runtime.Gosched()
	sys.Yield()
}

// InPlace writes the request of a call where it is sent from, and reads the response where it came.
type InPlace interface {
	// WriteRequest writes the whole request into b. An error ends the call before it was sent. It
	// may be called twice, if there is no more memory after the first time.
	WriteRequest(b []byte) error
	// ReadResponse reads the response, and keeps no part of it. Its error is that of the call.
	ReadResponse(b []byte) error
}

// CallInPlace is Call for a request of size bytes that m writes, and a response that m reads.
// Messages of 64 KiB and more lie in the memory of the Loop then: each is copied once less than by
// Call. The methods of m run in the caller's goroutine, one after the other; they must not close
// the Client or its Loop, which wait for them.
func (c *Client) CallInPlace(ctx context.Context, reqType uint8, size int, m InPlace) error {
	k, err := c.newCall(ctx, reqType)
	if err != nil {
		return err
	}
	k.place, k.size, k.req, k.resp = m, size, nil, k.spare[1][:0]
	if size >= largeMessage {
		k.msg, err = c.loop.writeIn(size, m)
	}
	if k.msg == nil && err == nil {
		k.req = slices.Grow(k.spare[0][:0], max(size, 1))[:size]
		if err = m.WriteRequest(k.req); size < largeMessage {
			k.spare[0] = k.req
		}
	}
	if err != nil {
		k.recycle()
		return err
	}
	reusable, err := k.run(ctx)
	if err != nil {
		return err
	}
	large := k.large != nil
	if k.fetch(); k.err == nil && !large {
		k.err, k.spare[1] = m.ReadResponse(k.resp), k.resp
	}
	err = k.err
	if reusable {
		k.recycle()
	}
	return err
}

// copies lets goroutines copy from and to the memory of a Loop, which is gone when the loop ends.
type copies struct {
	mu    sync.RWMutex
	gone  bool         // the memory; under mu
	ahead atomic.Int64 // bytes of requests that were copied and not sent

	out  sync.Mutex
	held map[*MsgBuffer]struct{} // those that calls hold; under out
}

// hold notes that a call holds a buffer.
func (c *copies) hold(b *MsgBuffer) {
	c.out.Lock()
	defer c.out.Unlock()
	if c.held == nil {
		c.held = make(map[*MsgBuffer]struct{})
	}
	c.held[b] = struct{}{}
}

// take undoes hold. It reports false if the buffer went with the loop.
func (c *copies) take(b *MsgBuffer) bool {
	c.out.Lock()
	defer c.out.Unlock()
	_, there := c.held[b]
	delete(c.held, b)
	return there
}

// copyIn returns a copy of a request in message memory, nil if the loop is to make it.
func (l *Loop) copyIn(b []byte) *MsgBuffer {
	buf, _ := l.fill(len(b), func(to []byte) error {
		CopyLarge(to, b)
		return nil
	})
	return buf
}

// writeIn returns message memory with a request that m wrote there, nil if there is none. The error
// is that of m.
func (l *Loop) writeIn(size int, m InPlace) (*MsgBuffer, error) {
	return l.fill(size, m.WriteRequest)
}

// fill returns message memory of n bytes that write has filled, nil if there is none.
func (l *Loop) fill(n int, write func([]byte) error) (*MsgBuffer, error) {
	c := &l.copies
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.gone {
		return nil, nil
	}
	if c.ahead.Add(int64(n)) > maxAhead {
		c.ahead.Add(int64(-n))
		return nil, nil
	}
	buf, err := l.rpc.allocShared(n)
	if err != nil {
		c.ahead.Add(int64(-n))
		return nil, nil
	}
	written := false
	defer func() {
		if !written { // an error, or a panic
			c.ahead.Add(int64(-n))
			buf.Free()
		}
	}()
	if err := write(buf.Data()); err != nil {
		return nil, err
	}
	written = true
	c.hold(buf)
	return buf, nil
}

// keep takes back the request of a call that may be sent again, in the loop.
func (k *goCall) keep(msg *MsgBuffer) {
	c := &k.client.loop.copies
	c.ahead.Add(int64(k.size))
	c.hold(msg)
	k.msg = msg
}

// takeCopy returns the copy that copyIn made for a call, nil if there is none, in the loop.
func (k *goCall) takeCopy() *MsgBuffer {
	msg := k.msg
	if msg == nil {
		return nil
	}
	k.msg = nil
	c := &k.client.loop.copies
	c.ahead.Add(-int64(k.size))
	if !c.take(msg) {
		return nil
	}
	return msg
}

// fetch takes a large response, in the goroutine of its call.
func (k *goCall) fetch() {
	large := k.large
	if large == nil {
		return
	}
	k.large = nil
	c := &k.client.loop.copies
	defer func() {
		_ = k.client.rpc.Post(func(*Rpc) { // in vain only if the loop has ended, which frees it
			if c.take(large) {
				large.Free()
			}
		})
	}()
	k.read(large)
}

// read takes a response out of the loop's memory.
func (k *goCall) read(large *MsgBuffer) {
	c := &k.client.loop.copies
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.gone:
		k.err = ErrClosed
	case k.place != nil:
		k.err = k.place.ReadResponse(large.Data())
	default:
		k.resp = append(k.resp, large.Data()...)
	}
}

// end waits for copies that are being made, and frees what calls hold. No more copies begin.
func (c *copies) end() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.out.Lock()
	defer c.out.Unlock()
	for b := range c.held {
		b.Free()
	}
	clear(c.held)
}
