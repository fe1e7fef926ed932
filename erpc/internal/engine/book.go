package engine

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

const (
	// maxLean is how many bytes a peer may hold ahead of its packets before it has sent any.
	maxLean = 2 << 20
	// slotMessages is how many of the largest messages a slot may keep, if others keep fewer.
	slotMessages = 2
)

// Book counts the memory of message buffers: what pools have taken from the system, and what
// of it the peers' requests and responses take, by address.
type Book struct {
	budget *msgbuf.Budget
	fair   bool
	used   atomic.Int64 // of all holders
	users  atomic.Int64 // holders that use some

	mu      sync.Mutex
	holders map[transport.Addr]*holder
}

// NewBook returns a book of a budget. Fair says that addresses share it.
func NewBook(budget *msgbuf.Budget, fair bool) *Book {
	return &Book{budget: budget, fair: fair, holders: make(map[transport.Addr]*holder)}
}

// Budget returns what the book is of.
func (b *Book) Budget() *msgbuf.Budget { return b.budget }

// Used returns the bytes that peers' requests and responses take.
func (b *Book) Used() int64 { return b.used.Load() }

// quota returns how much the slots of one session may keep: half of the limit at most, but enough
// for a request and a response.
func (b *Book) quota(slots, maxMessage int) int {
	each := slotMessages * int64(maxMessage+maxMessage/16+1<<16) // with headers
	return int(min(max(each, min(int64(slots)*each, b.budget.Limit()/2)), math.MaxInt))
}

// scarce reports whether three quarters are in use.
func (b *Book) scarce() bool {
	return max(b.used.Load(), b.budget.Used()) > LastQuarter(b.budget.Limit())
}

// holder counts what the sessions of one address use at all endpoints of a Nexus. It is their bank.
type holder struct {
	book *Book
	key  transport.Addr
	used atomic.Int64
	lean atomic.Int64
	// A handler is at work without memory for its response; see Quota.Venture.
	ventures atomic.Bool
	refs     int // quotas of endpoints; under book.mu
}

// open returns the holder of an address.
func (b *Book) open(key transport.Addr) *holder {
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
func (b *Book) close(h *holder) {
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
	case b.fair && max(all, b.budget.Used()) > LastQuarter(limit) && own > limit/(b.users.Load()+1):
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
