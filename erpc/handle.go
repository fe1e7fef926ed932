package erpc

import (
	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/sys"
	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// MsgBuffer is memory for one message; see package msgbuf for its layout.
//
// The application owns a MsgBuffer that it allocated until it gives it away: with EnqueueRequest
// until the continuation, with Respond for good. Meanwhile it must not touch the buffer; builds
// with the tag "invariants" catch that. The request that a handler of Server.Handle gets is the
// handler's own, on the Go heap. That of Server.HandleBorrowed, and ReqHandle.Data, belong to the
// library and are read-only.
type MsgBuffer = msgbuf.Buffer

// ReqHandle is one request at the server. It is a small value: copy it, keep it,
// answer later. Answering twice, or after the session ended, gives ErrResponded.
//
// The handle of a Dispatch handler is used only in the Rpc's thread, that of a
// Background handler in any goroutine, one at a time.
type ReqHandle struct {
	s      *serverEnd
	job    *job // background only
	reqNum uint64
	// Place in a batch, generation of job, slot, request type. The compiler keeps four fields in
	// registers, no more.
	bits uint64
}

// Places in ReqHandle.bits.
const (
	slotShift  = 8
	genShift   = 16
	placeShift = 48
)

func (r ReqHandle) slot() uint8 { return uint8(r.bits >> slotShift) }
func (r ReqHandle) gen() uint32 { return uint32(r.bits >> genShift) }

// place returns where a batch has the request's data, from 1; 0 if it has not.
func (r ReqHandle) place() int { return int(r.bits >> placeShift) }

// Type returns the request type.
func (r ReqHandle) Type() uint8 { return uint8(r.bits) }

// Peer returns the client's address.
func (r ReqHandle) Peer() transport.Addr { return r.s.Peer() }

// Session returns the session that the request came in.
func (r ReqHandle) Session() *Session { return &r.s.Session }

// Rpc returns the endpoint that received the request.
func (r ReqHandle) Rpc() *Rpc { return r.s.rpc }

// Data returns the request, to be read only. For a Dispatch handler it may lie in
// the receive buffer: after the handler has returned, call Data again instead of
// keeping the slice. It ends when the request is answered. nil after that.
func (r ReqHandle) Data() []byte {
	if r.job != nil {
		if !r.job.current(r.gen()) {
			return nil
		}
		return r.job.req.Bytes()
	}
	if !r.s.half.Handling(r.slot(), r.reqNum) {
		return nil
	}
	_, _, data := r.s.half.Request(r.slot())
	if data == nil && r.place() != 0 {
		return r.s.rpc.batches.view(&r.s.rpc.nexus.handlers[r.Type()], r)
	}
	return data
}

// Alloc returns a buffer of n bytes for the response: the slot's preallocated one
// if n fits it (eRPC, section 4.3), else a new one. Give it to Respond, or free it.
// It counts as memory of the client until the request is answered, also if it is freed
// before. Errors: ErrTooLarge, ErrExhausted, ErrResponded.
func (r ReqHandle) Alloc(n int) (*MsgBuffer, error) {
	if r.job != nil {
		if !r.job.current(r.gen()) {
			return nil, ErrResponded
		}
		return r.job.alloc(r.Rpc(), n)
	}
	if !r.s.half.Handling(r.slot(), r.reqNum) {
		return nil, ErrResponded
	}
	if b := r.s.prealloc(r.slot(), n); b != nil {
		return b, nil
	}
	return r.s.alloc(r.slot(), n)
}

// Respond answers with buf, which the library owns from now on. After an error
// buf is still the caller's. Errors: ErrResponded, ErrTooLarge, ErrBufferInUse,
// ErrBufferFreed, ErrRequest if buf is nil, and ErrExhausted if there is no memory to keep
// buf in until the client has it: then the client has been answered with that error.
func (r ReqHandle) Respond(buf *MsgBuffer) error {
	if buf == nil {
		return ErrRequest
	}
	if r.job != nil {
		return r.job.respond(r, buf)
	}
	if !r.s.half.Handling(r.slot(), r.reqNum) {
		return ErrResponded
	}
	if err := r.s.respond(r.slot(), buf, buf.Size()); err != nil {
		return engine.OwnError(err)
	}
	return nil
}

// RespondBytes answers with a copy of b. If b is too large or there is no memory
// both the client and the caller get that as their error. Where b is the beginning of a large
// request, as of Data, and half of it or more, there is no copy: the request becomes the response.
func (r ReqHandle) RespondBytes(b []byte) error {
	var err error
	if len(b) >= largeMessage && r.begins(b) {
		if err = r.respondRequest(len(b)); err != nil && err != ErrResponded {
			_ = r.fail(reasonOf(err), refusalOf(err))
		}
		return err
	}
	buf, err := r.Alloc(len(b))
	if err != nil {
		if err != ErrResponded {
			_ = r.fail(reasonOf(err), refusalOf(err))
		}
		return err
	}
	copy(buf.Bytes(), b)
	if err = r.Respond(buf); err != nil {
		if err != ErrResponded {
			_ = r.fail(reasonOf(err), refusalOf(err))
		}
		buf.Free()
	}
	return err
}

// respondWith is RespondBytes for b that is the library's from now on: a large one is sent from
// where it lies, unless that is the request, which goes back, or a small part of what would be
// kept.
func (r ReqHandle) respondWith(b []byte) error {
	if r.job == nil || len(b) < minInPlace || len(b) > r.Rpc().cfg.MaxMessage || cap(b) > 2*len(b) ||
		sys.Overlap(b, r.Data()) {
		return r.RespondBytes(b)
	}
	err := r.job.respondWith(r, b)
	if err != nil && err != ErrResponded {
		_ = r.fail(reasonOf(err), refusalOf(err))
	}
	return err
}

// begins reports whether b is the beginning of the request, which lies in a buffer, and at least
// half of it: the server keeps all of it until the client has the response.
func (r ReqHandle) begins(b []byte) bool {
	data := r.Data()
	return len(b) <= len(data) && len(b) >= len(data)/2 && &b[0] == &data[0] &&
		(r.job != nil || r.s.half.Buffered(r.slot()))
}

// respondRequest answers with the first n bytes of the request, which lie in a buffer.
func (r ReqHandle) respondRequest(n int) error {
	if r.job != nil {
		return r.job.respondRequest(r, n)
	}
	return engine.OwnError(r.s.respond(r.slot(), nil, n))
}

// RespondError answers with an error. The client gets the Code, Text and Details of an *Error, also
// of one that err wraps; then the text is that of err. Other errors have the code of CodeOf and
// their text; the client of ErrTooLarge and ErrExhausted gets errors that match these. Text and
// details are cut to MaxErrorText and MaxErrorDetails bytes. The error is ErrResponded.
func (r ReqHandle) RespondError(err error) error { return r.respondError(faultFrom(err)) }

// fail answers with an error of the library, after the handler has run.
func (r ReqHandle) fail(why Reason, text string) error {
	f := faultOf(why, text)
	f.Ran = true
	return r.respondError(f)
}

// refuse answers with an error of the library: the handler did not run.
func (r ReqHandle) refuse(why Reason, text string) { _ = r.respondError(faultOf(why, text)) }

func (r ReqHandle) respondError(f *wire.Error) error {
	if r.job != nil {
		return r.job.respondError(r, f)
	}
	return r.s.respondError(r.slot(), r.reqNum, f)
}

// faultOf is an error on its way to the client.
func faultOf(why Reason, text string) *wire.Error {
	return &wire.Error{Status: why.wire().Status(), Code: why.wire(), Text: []byte(text)}
}

// Deadline returns when the client gives the request up, on the clock of the Rpc; ok is false if
// it did not say. It is never before the client's own deadline. It is later by the time that the
// request was on its way, and by up to a sixteenth of the time that it had left. Once the request
// is answered there is none.
func (r ReqHandle) Deadline() (t Time, ok bool) {
	if r.job != nil {
		if !r.job.current(r.gen()) {
			return 0, false // the job may be another request's by now
		}
		t = r.job.deadline
	} else if r.s.half.Handling(r.slot(), r.reqNum) {
		t = r.s.half.Deadline(r.slot())
	}
	return t, t != 0
}

// Cancelled reports whether the client gave the request up, or the session of a background request
// has ended: nobody waits for its response. The handler still has to respond, which ends the
// request and drops what it responds.
func (r ReqHandle) Cancelled() bool {
	if r.job != nil {
		return r.job.current(r.gen()) && r.job.cancelled.Load()
	}
	return r.s.half.Cancelled(r.slot(), r.reqNum)
}

// Wait tells the client at once that the handler will take long (a long poll, a lock): the request
// gives its credit back, and the client does not repeat it. Without it the client learns the same
// when it asks. Of one session's requests Config.Waiting can wait like this; the others keep their
// credits. The error is ErrResponded. It is for Dispatch handlers; in others it does nothing.
func (r ReqHandle) Wait() error {
	if r.job != nil {
		return nil
	}
	if !r.s.half.Handling(r.slot(), r.reqNum) {
		return ErrResponded
	}
	return engine.OwnError(r.s.half.Wait(r.slot(), r.Rpc().engine.Now(), r.Rpc().engine.Out))
}

// tooLate says why a request that waited for a worker is not to run any more, ReasonNone if it is.
func (r ReqHandle) tooLate() (why Reason, text string) {
	if r.job.cancelled.Load() {
		return ReasonCancelled, "given up before it ran"
	}
	if at := r.job.deadline; at != 0 && r.Rpc().clock() > at {
		return ReasonDeadline, "its time passed before it ran"
	}
	return ReasonNone, ""
}

// respond answers the request in slot with the n bytes of buf, or with its own first ones if buf is
// nil.
func (s *serverEnd) respond(slot uint8, buf *MsgBuffer, n int) (err error) {
	r := s.rpc
	now := r.engine.Now()
	if buf != nil {
		err = s.half.Respond(slot, buf, now, r.engine.Out)
	} else {
		err = s.half.RespondRequest(slot, n, now, r.engine.Out)
	}
	if r.meter != nil && err == nil {
		req := s.half.Served(slot)
		if !r.meter.answers.runs.more(0, stampOf(req.At, req.ReqType), req.Size, n) {
			r.meterAnswer(req, n)
		}
	}
	return err
}

// respondError answers the request in slot with an error.
func (s *serverEnd) respondError(slot uint8, num uint64, f *wire.Error) error {
	r := s.rpc
	if !s.half.Handling(slot, num) {
		return ErrResponded
	}
	if r.meter != nil {
		r.meterError(s, slot, Code(f.Status))
	}
	return engine.OwnError(s.half.RespondError(slot, f, r.engine.Now(), r.engine.Out))
}

// alloc returns a buffer of n bytes for the response to the request in slot, which counts before it
// is there.
func (s *serverEnd) alloc(slot uint8, n int) (*MsgBuffer, error) {
	if b := s.half.Reserved(slot, n); b != nil {
		return b, nil
	}
	size := s.rpc.pool.Footprint(n)
	if why := s.half.Make(slot, size); why != session.Granted {
		return nil, memoryError(why)
	}
	b, err := s.rpc.Alloc(n)
	if err != nil {
		s.half.Unmake(slot, size)
	}
	return b, err
}

// prealloc returns the preallocated buffer for the response to the request in slot, sized to n
// bytes, or nil if there is none.
func (s *serverEnd) prealloc(slot uint8, n int) *MsgBuffer {
	if s.rpc.cfg.Experiment.NoPrealloc {
		return nil
	}
	return s.half.Prealloc(slot, n, s.rpc.engine.Out)
}
