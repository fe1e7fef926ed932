package engine

import (
	"encoding/binary"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
)

// Shares says how the addresses of clients share an endpoint; see erpc.Shares.
type Shares struct {
	Off                bool
	IPv4Bits, IPv6Bits int
}

// discardOnly is 100::/64 (RFC 6666), where transport/shm has its addresses.
const discardOnly = 0x0100_0000_0000_0000

// Key returns the address for which a peer counts.
func (s *Shares) Key(a transport.Addr) transport.Addr {
	if binary.BigEndian.Uint64(a.IP[:]) == discardOnly {
		return a
	}
	a.Port = 0
	ip := netip.AddrFrom16(a.IP)
	bits := s.IPv6Bits
	switch {
	case ip.Is4In6():
		bits = 96 + s.IPv4Bits
	case ip.IsLinkLocalUnicast():
		return a
	}
	p, _ := ip.Prefix(bits) // in range
	a.IP = p.Addr().As16()
	return a
}

// LastQuarter returns how much of a limit is given to any client.
func LastQuarter[T int | int64](limit T) T { return limit - limit/4 }

// Fair reports whether one more of limit may go to an address that has own of all, when users
// addresses have some of it, this one included.
func (s *Shares) Fair(all, own, limit, users int) bool {
	switch {
	case all >= limit:
		return false
	case s.Off || all < LastQuarter(limit):
		return true
	}
	return own < limit/(users+1)
}

// Quota counts what one address uses of an endpoint. It is there while it has a session or a
// request at work.
type Quota struct {
	// Owner is what the owner keeps of the address; it sets that in Port.QuotaOpened.
	Owner    any
	key      transport.Addr
	sessions int
	atWork   int // background requests that wait or run
	account  session.Account
	holder   *holder
}

// Key returns what the quota is of.
func (q *Quota) Key() transport.Addr { return q.key }

// Charge counts n bytes that a background handler of the address is about to take for a response,
// or says why it must not. It is for any goroutine, as long as the request is at work. Then Adopt
// takes the bytes over.
func (q *Quota) Charge(n int) session.Refusal { return q.holder.Take(int64(n)) }

// Venture reports whether a handler of the address may run for which Charge has refused n bytes:
// one at a time if the address has less than that. It is for the same goroutines.
func (q *Quota) Venture(n int) bool {
	h := q.holder
	return h.used.Load() < int64(n) && h.ventures.CompareAndSwap(false, true)
}

// Ventured undoes Venture that has said so.
func (q *Quota) Ventured() { q.holder.ventures.Store(false) }

// Adopt gives the sessions of the address what Charge has taken, for a response.
func (q *Quota) Adopt(n int) { q.account.Adopt(n) }

// Quotas holds the quotas of an endpoint.
type Quotas struct {
	cfg    *Shares
	port   Port
	book   *Book
	memory *session.Memory
	byKey  map[transport.Addr]*Quota
	busy   int // quotas with requests at work
}

// newQuotas returns the quotas of a new endpoint.
func newQuotas(cfg *Config, port Port) Quotas {
	return Quotas{
		cfg: &cfg.Shares, port: port, book: cfg.Book, byKey: make(map[transport.Addr]*Quota),
		memory: session.NewMemory(cfg.Book.quota(cfg.Slots, cfg.MaxMessage), cfg.Timing),
	}
}

// Used returns the bytes that the addresses' sessions take.
func (t *Quotas) Used() (n int64) {
	for _, q := range t.byKey {
		n += q.account.Used()
	}
	return n
}

// Close gives all back, when the endpoint has ended and no handler runs.
func (t *Quotas) Close() {
	for _, q := range t.byKey {
		q.account.Close()
	}
}

// keyOf returns the key of a peer's quota: its identity if it has proved one, else its address.
func (s *Shares) keyOf(a *association) transport.Addr {
	if a.quotaKey.IsValid() && !s.Off {
		return a.quotaKey
	}
	return s.Key(a.addr)
}

// admits reports whether a peer may have one more session. All are in the table.
func (t *Quotas) admits(key transport.Addr, all, limit int) bool {
	q := t.byKey[key]
	if q == nil {
		return t.cfg.Fair(all, 0, limit, len(t.byKey)+1)
	}
	return t.cfg.Fair(all, q.sessions, limit, len(t.byKey))
}

// join notes a server's session of an association.
func (t *Quotas) join(s *Conn, a *association) {
	key := t.cfg.keyOf(a)
	q := t.byKey[key]
	if q == nil {
		q = &Quota{key: key, holder: t.book.open(key)}
		q.account = session.NewAccount(q.holder)
		t.byKey[key] = q
		t.port.QuotaOpened(q)
	}
	q.sessions++
	s.srv.quota = q
	s.Server.SetMemory(t.memory, &q.account)
}

// leave undoes join, if there was one.
func (t *Quotas) leave(s *Conn) {
	if s.srv == nil {
		return
	}
	if q := s.srv.quota; q != nil {
		s.srv.quota = nil
		q.sessions--
		t.drop(q)
	}
}

// drop forgets a quota that has nothing any more.
func (t *Quotas) drop(q *Quota) {
	if q.sessions > 0 || q.atWork > 0 {
		return
	}
	q.account.Close()
	t.book.close(q.holder)
	delete(t.byKey, q.key)
	t.port.QuotaClosed(q)
}

// MayWork reports whether the address may have one more request at work, when all are.
func (t *Quotas) MayWork(q *Quota, all, limit int) bool {
	users := t.busy
	if q.atWork == 0 {
		users++
	}
	return t.cfg.Fair(all, q.atWork, limit, users)
}

// StartWork notes a request at work.
func (t *Quotas) StartWork(q *Quota) {
	if q.atWork++; q.atWork == 1 {
		t.busy++
	}
}

// EndWork undoes StartWork. The request had a buffer of n bytes. What sessions have not used of
// what they adopted goes back.
func (t *Quotas) EndWork(q *Quota, n int) {
	q.account.Release(n)
	if q.atWork--; q.atWork == 0 {
		t.busy--
		t.drop(q)
	}
}

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
