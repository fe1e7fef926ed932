package erpc

import (
	"errors"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
)

// Memory of responses.
//
// The response of a background handler counts as memory of its client from before it is made. Its
// job has what ReqHandle.Alloc charged to the address, in whatever goroutine, and hands that over
// to the session with the answer; that gives back what it does not keep. A Func's own slice counts
// when it is returned, since RespondBytes allocates before it copies. The loop's own handlers do
// the same with their slot (Server.Make). Buffers of 512 bytes and less count nowhere.
//
// What a handler has on the Go heap until it returns is not known. So if responses of the type were
// large lately, as much as these took is charged before the handler runs: no more handlers of an
// address run than may have their responses. Lately, not ever: else one large response would hold
// back a type for good.
//
// The responses of a type may be declared (Nexus.MaxResponse). Then a request runs only when it has
// a buffer for the response, and room for it in the quotas of its session and its address. So no
// answer within what was declared is refused after its handler has run.

// largeResponse is the least memory of a response for which the type's next requests are charged
// before they run.
const largeResponse = 64 << 10

// reserve charges n bytes before the handler runs. It reports false if the handler must not, since
// there is no memory. That refusal costs the client less than a response that is made and dropped,
// and a Client tries again. An address that has less than n bytes runs one handler all the same:
// the response may be a small one.
func (j *job) reserve(n int) bool {
	switch j.kept = j.quota.Charge(n); {
	case j.kept == session.Granted:
		j.made, j.spare = n, n
	case j.quota.Venture(n):
		j.kept, j.ventured = session.Granted, true
	default:
		return false
	}
	return true
}

// admit reports whether the handler of a request may run whose response is declared. If not, it is
// answered. A handler in the loop has its buffer then. For one in the background the session has
// room; its worker does the rest, see admitted.
//
//go:noinline
func (r *Rpc) admit(h ReqHandle, entry *handlerEntry) bool {
	n, why := int(entry.most), session.Granted
	if entry.mode == Background {
		why = h.s.half.MayPromise(r.pool.Footprint(n))
	} else {
		why = h.s.half.Reserve(h.slot(), n)
	}
	if why == session.Granted {
		return true
	}
	if entry.mode == Background {
		r.stats.WorkRefused++
	}
	h.refuse(ReasonExhausted, notAdmitted(why))
	return false
}

// notAdmitted is the text for the client of a request that did not run.
func notAdmitted(why session.Refusal) string {
	return "not run, the server's Config.MemoryLimit has no room for its response: " + why.String()
}

// promise notes what is declared of the response.
func (j *job) promise(n int) {
	if n != 0 {
		j.most = n
		j.handle.s.half.Promise(j.handle.Rpc().pool.Footprint(n))
	}
}

// admitted charges what the response may take, before the handler runs. It reports false if the
// handler must not run.
func (j *job) admitted() bool {
	n := int(j.lately.Load())
	if j.most == 0 {
		return n == 0 || j.reserve(n)
	}
	r := j.handle.Rpc()
	size := r.pool.Footprint(j.most)
	if !session.Counts(size) {
		return true
	}
	n = max(n, size)
	if j.kept = j.quota.Charge(n); j.kept != session.Granted {
		return false
	}
	j.made, j.spare = n, n
	var err error
	if j.buffer, err = r.allocShared(j.most); err != nil {
		j.kept = session.NotKept
		return false
	}
	return true
}

// learn notes what a response takes, for the next requests of its type. Small ones among large ones
// lower that step by step.
func (j *job) learn(size int) {
	last, next := j.lately.Load(), int64(size)
	if next < last {
		next = last - (last-next+3)/4
	}
	if next < largeResponse {
		next = 0
	}
	if next != last {
		j.lately.Store(next)
	}
}

// alloc returns a buffer of n bytes for the response, which counts before it is there.
func (j *job) alloc(r *Rpc, n int) (*MsgBuffer, error) {
	size := r.pool.Footprint(n)
	if !session.Counts(size) {
		return r.allocShared(n)
	}
	if b := j.buffer; b != nil {
		j.buffer = nil
		if n <= b.MaxSize() {
			j.spare -= b.Footprint()
			return r.shared.Load().Shrink(b, n), nil
		}
		b.Free()
	}
	if size > j.spare {
		if err := j.charge(size - j.spare); err != nil {
			return nil, err
		}
		j.spare = size
	}
	b, err := r.allocShared(n)
	if err == nil {
		j.spare -= size
	}
	return b, err
}

// charge has n bytes more count for the response.
func (j *job) charge(n int) error {
	if why := j.quota.Charge(n); why != session.Granted {
		j.refused++
		return memoryError(why)
	}
	j.made += n
	return nil
}

// answer charges what a response takes beyond what is charged: its buffer is not from
// ReqHandle.Alloc then.
func (j *job) answer(size int) error {
	if session.Counts(size) && size > j.made {
		if err := j.charge(size - j.made); err != nil {
			return err
		}
	}
	j.learn(size)
	return nil
}

// memoryError is why a handler got no memory for a response.
type memoryError session.Refusal

// Error says so.
func (e memoryError) Error() string {
	return ErrExhausted.Error() + ": " + session.Refusal(e).String() + ", by Config.MemoryLimit"
}

// Unwrap returns ErrExhausted.
func (e memoryError) Unwrap() error { return ErrExhausted }

// tally hands over what the response of a job takes, and counts what was refused for memory.
func (r *Rpc) tally(j *job) {
	if j.most != 0 {
		j.handle.s.half.Promise(-r.pool.Footprint(j.most))
	}
	if j.buffer != nil {
		j.buffer.Free()
	}
	j.quota.Adopt(j.made)
	if j.ventured {
		j.quota.Ventured()
	}
	r.engine.ProtocolStats().NoMemory += uint64(j.refused)
	if j.kept != session.Granted {
		r.stats.WorkRefused++
		if j.kept == session.AddrQuotaUsed {
			r.stats.WorkOverShare++
		}
	}
}

// refusalOf is why memory was refused, for the client; "" if that was not so.
func refusalOf(err error) string {
	if why, ok := err.(memoryError); ok {
		return session.Refusal(why).String() + ", by the server's Config.MemoryLimit"
	}
	if errors.Is(err, msgbuf.ErrNoMemory) {
		return refusalOf(memoryError(session.NotKept))
	}
	return ""
}
