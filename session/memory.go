package session

import (
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// Memory joins the server's halves of an endpoint: it lists the slots that hold requests and
// responses for their clients. A client that waits asks at least once
// per largest retransmission timeout, and a slot that nobody asks for gives its memory up. The
// request then has an error for an answer, for as long as the slot remembers it.
type Memory struct {
	quota   int           // bytes of one session
	patient time.Duration // until a slot gives up
	hasty   time.Duration // the same when memory is scarce
	list    held          // the head of a ring; next is looked at next
	behind  bool          // Expire has left slots that it was to look at
	back    monotime.Time // when this side came back from an absence
}

// held names a slot whose memory waits for its client: for the rest of a request, or for questions
// for a response of several packets.
type held struct {
	next, prev *held
	sv         *Server // nil if it does not wait
	sl         *serverSlot
	heardAt    monotime.Time // when the client last sent something for it
	checkAt    monotime.Time // when it is to be looked at
	ahead      int64         // bytes; see Account
}

// hasteFactor says after how many of the largest retransmission timeouts a slot gives up when
// memory is scarce. A client that lives has asked that often, and hardly all of that was lost. On
// the slowest paths, whose timeouts are the longest, it has asked twice.
const hasteFactor = 2 * slowFactor

// expireBatch is how many slots one call of Expire looks at.
const expireBatch = 256

// NewMemory returns the memory of the sessions of an endpoint with timing t. Quota bounds what one
// session has, in bytes.
func NewMemory(quota int, t Timing) *Memory {
	m := &Memory{quota: quota, patient: t.FailureTimeout}
	m.hasty = min(m.patient, hasteFactor*t.RTOMax)
	m.list.next, m.list.prev = &m.list, &m.list
	return m
}

// Next returns when Expire has something to do.
func (m *Memory) Next() monotime.Time {
	if m.list.next == &m.list {
		return monotime.Never
	}
	return m.list.next.checkAt
}

// Expire lets slots give up that were not asked for in time. Scarce says that memory is.
//
// It is called when Next says so. If that is long ago this side was away: stopped, or without a
// processor. Packets that clients sent meanwhile may be unread, and those on the same machine may
// have been away too. So nothing is given up until they had time to ask.
func (m *Memory) Expire(now monotime.Time, scarce bool, out *Out) {
	span := m.patient
	if scarce {
		span = m.hasty
	}
	if x := m.list.next; x != &m.list && !m.behind && now.Sub(x.checkAt) >= 2*m.look() {
		m.back = now
	}
	m.behind = false
	asks := m.back == 0 || now.Sub(m.back) >= m.hasty // clients had time to
	for range expireBatch {
		x := m.list.next
		if x == &m.list || x.checkAt > now {
			return
		}
		if asks && now.Sub(x.heardAt) >= span && !x.sl.late { // what is late is repeated to who waits
			x.sv.giveUp(x.sl, out)
			continue
		}
		x.unlink()
		m.append(x, now)
	}
	m.behind = true
}

// append puts x behind the others. It is looked at several times before it may give up, so that
// it does so soon after its time, and the list is in the order of these times.
func (m *Memory) append(x *held, now monotime.Time) {
	x.checkAt = now.Add(m.look())
	x.next, x.prev = &m.list, m.list.prev
	x.prev.next, x.next.prev = x, x
}

// look returns the time between two looks at a slot.
func (m *Memory) look() time.Duration { return max(m.hasty/hasteFactor, 1) }

func (x *held) unlink() { x.prev.next, x.next.prev = x.next, x.prev }

// SetMemory makes the session's memory count. It comes before the first packet.
func (s *Server) SetMemory(m *Memory, a *Account) { s.mem, s.acct = m, a }

// charge counts a buffer of n bytes, or says why it must not be.
func (s *Server) charge(n int) Refusal {
	if n <= smallBuffer || s.acct == nil {
		return Granted
	}
	return s.count(n)
}

// count counts n bytes, or says why they must not be.
func (s *Server) count(n int) Refusal {
	if s.kept+s.due+n > s.mem.quota {
		return QuotaUsed
	}
	why := s.acct.take(n)
	if why == Granted {
		s.kept += n
	}
	return why
}

// uncharge undoes charge.
func (s *Server) uncharge(n int) {
	if n > smallBuffer && s.acct != nil {
		s.uncount(n)
	}
}

// uncount undoes count.
func (s *Server) uncount(n int) {
	s.kept -= n
	s.acct.give(n)
}

// Make counts a buffer of n bytes that the slot's handler is about to take for its response, or
// says why it must not be. It counts until the request is answered; what it is answered with then
// counts instead.
func (s *Server) Make(slot uint8, n int) Refusal {
	if n <= smallBuffer || s.acct == nil {
		return Granted
	}
	why := s.count(n)
	if why == Granted {
		s.slots[slot].more().made += n
	} else {
		s.stats.NoMemory++
	}
	return why.ofResponse()
}

// Unmake undoes Make.
func (s *Server) Unmake(slot uint8, n int) {
	if n > smallBuffer && s.acct != nil {
		s.slots[slot].rare.made -= n
		s.uncount(n)
	}
}

// unmake stops counting what the slot's handler has made, and frees what is reserved for it.
func (s *Server) unmake(sl *serverSlot) {
	r := sl.rare
	if r == nil {
		return
	}
	if r.made != 0 {
		s.uncount(r.made)
		r.made = 0
	}
	if r.reserve != nil {
		r.reserve.Free()
		r.reserve = nil
	}
}

// Reserve takes a buffer for a response of n bytes to the slot's request, whose handler is about to
// run, or says why it must not run. It counts as one that Make has counted.
func (s *Server) Reserve(slot uint8, n int) Refusal {
	size := s.pool.Footprint(n)
	if size <= smallBuffer {
		return Granted
	}
	if why := s.Make(slot, size); why != Granted {
		return why
	}
	b, err := s.pool.Alloc(n)
	if err != nil {
		s.Unmake(slot, size)
		s.stats.NoMemory++
		return NotKept
	}
	s.slots[slot].more().reserve = b
	return Granted
}

// Reserved returns a buffer of n bytes from what is reserved for the slot's response, nil if there
// is none as large: then nothing is reserved any more. The caller owns it.
func (s *Server) Reserved(slot uint8, n int) *msgbuf.Buffer {
	r := s.slots[slot].rare
	if r == nil || r.reserve == nil {
		return nil
	}
	b := r.reserve
	r.reserve = nil
	if n > b.MaxSize() {
		s.Unmake(slot, b.Footprint())
		b.Free()
		return nil
	}
	return s.pool.Shrink(b, n)
}

// MayPromise says whether Promise may come, or why the handler must not run.
func (s *Server) MayPromise(n int) Refusal {
	if s.acct != nil && n > smallBuffer && s.kept+s.due+n > s.mem.quota {
		s.stats.NoMemory++
		return QuotaUsed
	}
	return Granted
}

// Promise has n bytes of the session's quota wait for the response to a request whose handler runs
// elsewhere. Just before the response comes they are given back, as -n.
func (s *Server) Promise(n int) {
	if n > smallBuffer || n < -smallBuffer {
		s.due += n
	}
}

// hold notes that the slot's memory waits for its client.
func (s *Server) hold(sl *serverSlot, now monotime.Time) {
	if s.mem == nil {
		return
	}
	x := &sl.more().held
	*x = held{sv: s, sl: sl, heardAt: now}
	s.mem.append(x, now)
}

// watched returns what the slot is known by whose memory waits, nil if it does not.
func (sl *serverSlot) watched() *held {
	if sl.rare == nil || sl.rare.held.sv == nil {
		return nil
	}
	return &sl.rare.held
}

// release undoes hold.
func (s *Server) release(x *held) {
	if x.ahead != 0 {
		s.acct.fallBack(x.ahead)
	}
	x.unlink()
	*x = held{}
}

// fit sees that the buffer of the slot's request has room up to byte end, where the packet at hand
// ends. If it has not, the request gets its whole buffer if it may be that far ahead of its
// packets, else one of twice the size, else the next larger one. It reports false if there is no
// memory: the request is refused then.
func (s *Server) fit(sl *serverSlot, end int, in *Arrival, out *Out) bool {
	if sl.req != nil && end <= sl.req.Size() {
		sl.watched().note(in.Now)
		return true
	}
	if why := s.grow(sl, end, in.Now); why != Granted {
		s.refuseFor(sl, why, in.Now, out)
		return false
	}
	return true
}

// note notes that the client has asked for a slot; nil is one that nobody watches.
func (x *held) note(now monotime.Time) {
	if x != nil {
		x.heardAt = now
	}
}

// grow is the rare half of fit.
func (s *Server) grow(sl *serverSlot, end int, now monotime.Time) (why Refusal) {
	if sl.watched() == nil {
		s.hold(sl, now)
	}
	sl.watched().note(now)
	size := int(sl.msgSize)
	twice := 2 * end
	if sl.req != nil {
		twice = 2 * sl.req.MaxSize()
	}
	for i, n := range [...]int{size, min(size, max(twice, end)), end} {
		if i > 0 && s.acct == nil {
			break
		}
		var buf *msgbuf.Buffer
		if buf, why = s.request(sl, n, end); buf == nil {
			continue
		}
		if old := sl.req; old != nil && old != buf {
			copy(buf.Bytes(), old.Bytes())
			s.uncharge(old.Footprint())
			old.Free()
		}
		sl.req = buf
		return Granted
	}
	return why
}

// request returns a buffer for at least n bytes of the slot's request, of which end bytes are
// here, or says why it must not be.
func (s *Server) request(sl *serverSlot, n, end int) (*msgbuf.Buffer, Refusal) {
	bytes := s.pool.Footprint(n)
	x := sl.watched()
	before := int64(0)
	if x != nil {
		ahead := int64(max(0, bytes-2*end))
		if !s.acct.getAhead(ahead - x.ahead) {
			return nil, AddrQuotaUsed
		}
		before, x.ahead = x.ahead, ahead
	}
	why := s.growInPlace(sl, n, bytes)
	if why == Granted {
		return sl.req, Granted
	}
	if why = s.charge(bytes); why == Granted {
		if buf, err := s.pool.Alloc(n); err == nil {
			buf.SetSize(min(int(sl.msgSize), buf.MaxSize()))
			return buf, Granted
		}
		s.uncharge(bytes)
		why = NoMemory
	}
	if x != nil {
		s.acct.fallBack(x.ahead - before)
		x.ahead = before
	}
	return nil, why
}

// growInPlace makes the buffer of the slot's request one for n bytes, which takes so many bytes of
// memory, if its memory need not be copied for that.
func (s *Server) growInPlace(sl *serverSlot, n, bytes int) Refusal {
	if sl.req == nil {
		return NoMemory
	}
	more := bytes - sl.req.Footprint()
	why := s.charge(more)
	switch {
	case why != Granted:
		return why
	case !s.pool.Grow(sl.req, n):
		s.uncharge(more)
		return NoMemory
	}
	sl.req.SetSize(min(int(sl.msgSize), sl.req.MaxSize()))
	return Granted
}

// dropRequest frees what the slot has of its request, ends the wait for its client, and stops
// counting what its handler has made.
func (s *Server) dropRequest(sl *serverSlot) {
	s.unmake(sl)
	if x := sl.watched(); x != nil {
		s.release(x)
	}
	if sl.req != nil {
		s.uncharge(sl.req.Footprint())
		sl.req.Free()
		sl.req = nil
	}
}

// complete notes that all packets of the slot's request are here.
func (s *Server) complete(sl *serverSlot) {
	if x := sl.watched(); x != nil {
		s.release(x)
		s.acct.complete(int(sl.msgSize))
	}
}

// keep counts a response of more than a small buffer, in place of what the handler has made. It is
// refused if it must not be kept.
func (s *Server) keep(sl *serverSlot, buf *msgbuf.Buffer, now monotime.Time, out *Out) bool {
	if s.acct == nil {
		return true
	}
	more := buf.Footprint()
	if sl.rare != nil {
		more -= sl.rare.made
	}
	if more <= 0 {
		s.uncount(-more)
	} else if why := s.count(more); why != Granted {
		s.running--
		if sl.waits {
			s.startLate(sl, now, out)
		}
		s.refuseFor(sl, why.ofResponse(), now, out)
		return false
	}
	if sl.rare != nil {
		sl.rare.made = 0
	}
	return true
}

// refuseFor answers the slot's request with the error of a refusal.
func (s *Server) refuseFor(sl *serverSlot, why Refusal, now monotime.Time, out *Out) {
	if s.acct != nil {
		s.stats.NoMemory++
	}
	sl.why = why
	e := codeError(wire.CodeExhausted)
	e.Ran = sl.state == stateHandling
	s.respondError(sl, e, now, out)
}

// giveUp frees what the slot holds, which nobody has asked for. A client that still asks gets an
// error.
func (s *Server) giveUp(sl *serverSlot, out *Out) {
	if sl.state == stateResponded {
		s.stats.StaleResponses++
		s.forgetResponse(sl, out)
		return
	}
	s.stats.StaleRequests++
	s.freeRequest(sl)
	s.answerGone(sl, RequestStale, false)
}

// forgetResponse frees the slot's response. Who asks again gets an error.
func (s *Server) forgetResponse(sl *serverSlot, out *Out) {
	s.clear(sl, out)
	s.answerGone(sl, ResponseGone, true)
}

// answerGone makes the slot's answer an error that says why there is no other any more, and whether
// the handler has run.
func (s *Server) answerGone(sl *serverSlot, why Refusal, ran bool) {
	sl.why, sl.state, sl.isError = why, stateResponded, true
	sl.code, sl.status, sl.ran = wire.CodeExhausted, wire.CodeExhausted.Status(), ran
}

// Refusal says why a request got no memory.
type Refusal uint8

// The refusals.
const (
	Granted       Refusal = iota
	NoMemory              // the process has none left
	NotKept               // the same for a response
	AddrQuotaUsed         // the address has its quota, and most of the process's memory is in use
	QuotaUsed             // the session has its quota
	RequestStale          // the request stood still too long
	ResponseGone          // the response was not asked for, and made room
)

// ofResponse returns the refusal of a response for the same reason.
func (r Refusal) ofResponse() Refusal {
	if r == NoMemory {
		return NotKept
	}
	return r
}

// String returns the text of the error that the client gets.
func (r Refusal) String() string { return string(refusalText[r]) }

// refusalText is the text of the error that the client gets.
var refusalText = [...][]byte{
	Granted:       nil,
	NoMemory:      []byte("no memory for the request"),
	NotKept:       []byte("no memory for the response"),
	AddrQuotaUsed: []byte("memory of this address"),
	QuotaUsed:     []byte("memory of this session"),
	RequestStale:  []byte("the request stood still too long"),
	ResponseGone:  []byte("the response was kept too long"),
}

// maxRefusal is enough for the body of an error with such a text.
const maxRefusal = 64

// Bank is where accounts get memory from, in pieces: what the process may use. What an endpoint's
// handlers make in other goroutines takes from it directly; see Account.Adopt.
type Bank interface {
	// Take takes n bytes, or says why not.
	Take(n int64) Refusal
	// Give gives n bytes back.
	Give(n int64)
	// Lean takes n bytes of what a peer may hold ahead of its packets, and reports whether there
	// were as many. A negative n gives them back.
	Lean(n int64) bool
}

const (
	// smallBuffer is the largest buffer that is not counted: there are few of them in a slot, and
	// small requests stay as fast as they are.
	smallBuffer = 512
	// accountStep is how much an account takes from its bank at least. It keeps up to twice that.
	accountStep = 16 << 10
	// maxCredit bounds the bytes of finished requests that let a peer hold memory ahead of its
	// packets.
	maxCredit = 32 << 20
)

// Account counts the memory that the sessions of one peer have at an endpoint: requests and
// responses that the library keeps, in buffers of more than 512 bytes.
//
// A request's buffer may be larger than twice the bytes that have come of it. The rest counts as
// ahead of its packets from when the buffer was taken until the request is complete, also when
// packets catch up meanwhile. All requests of a peer together are ahead by at most twice the bytes
// of its complete requests, of which 32 MiB count, and what the bank lets it lean. So buffers of
// unfinished requests take at most twice the bytes that the peer has sent, and what it may lean.
type Account struct {
	bank   Bank
	used   int64
	spare  int64 // taken from the bank and not used
	ahead  int64
	credit int64 // bytes of complete requests
	leant  int64 // of ahead, taken from the bank
}

// NewAccount returns an account at a bank.
func NewAccount(bank Bank) Account { return Account{bank: bank} }

// Used returns the bytes that count.
func (a *Account) Used() int64 { return a.used }

// take takes n bytes, or says why not.
func (a *Account) take(n int) Refusal {
	if int64(n) > a.spare {
		need := int64(n) - a.spare
		step := max(need, accountStep)
		why := a.bank.Take(step)
		if why != Granted && step > need {
			step = need
			why = a.bank.Take(step)
		}
		if why != Granted {
			return why
		}
		a.spare += step
	}
	a.spare -= int64(n)
	a.used += int64(n)
	return Granted
}

// Counts reports whether a buffer of n bytes counts.
func Counts(n int) bool { return n > smallBuffer }

// Adopt makes n bytes the account's that somebody else has taken from its bank, for a response that
// a session of the account is about to get. Release gives back what is left of them.
func (a *Account) Adopt(n int) { a.spare += int64(n) }

// Release gives back what a buffer of n bytes took that Server.Take has handed over.
func (a *Account) Release(n int) {
	if n <= smallBuffer {
		n = 0
	}
	a.give(n)
}

func (a *Account) give(n int) {
	a.used -= int64(n)
	a.spare += int64(n)
	if a.spare > 2*accountStep {
		a.bank.Give(a.spare - accountStep)
		a.spare = accountStep
	}
}

// Close gives everything back to the bank. Nothing counts any more.
func (a *Account) Close() {
	a.bank.Give(a.used + a.spare)
	a.used, a.spare = 0, 0
	a.fallBack(a.ahead)
}

// getAhead notes n more bytes ahead of their packets, if there may be so many, or fewer if n is
// negative.
func (a *Account) getAhead(n int64) bool {
	if n <= 0 {
		a.fallBack(-n)
		return true
	}
	if lean := a.ahead + n - 2*a.credit - a.leant; lean > 0 {
		if !a.bank.Lean(lean) {
			return false
		}
		a.leant += lean
	}
	a.ahead += n
	return true
}

// fallBack notes that n bytes are not ahead of their packets any more.
func (a *Account) fallBack(n int64) {
	a.ahead -= n
	if a.leant > 0 {
		if back := min(a.leant, 2*a.credit+a.leant-a.ahead); back > 0 {
			a.bank.Lean(-back)
			a.leant -= back
		}
	}
}

// complete notes a complete request of n bytes.
func (a *Account) complete(n int) { a.credit = min(a.credit+int64(n), maxCredit) }
