package erpc

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// MsgBuffer is a message buffer; see package msgbuf for its layout and ownership.
type MsgBuffer = msgbuf.Buffer

// ReqHandle is one request at the server. It is a small value: copy it, keep it,
// answer later. Answering twice, or after the session ended, gives ErrResponded.
//
// The handle of a Dispatch handler is used only in the Rpc's thread, that of a
// Background handler in any goroutine, one at a time.
type ReqHandle struct {
	s      *Session
	job    *job // background only
	reqNum uint64
	bits   uint64 // generation of job, slot, request type; four fields are what the compiler keeps in registers
}

// Places in ReqHandle.bits.
const (
	slotShift = 8
	genShift  = 16
)

func (r ReqHandle) slot() uint8 { return uint8(r.bits >> slotShift) }
func (r ReqHandle) gen() uint32 { return uint32(r.bits >> genShift) }

// Type returns the request type.
func (r ReqHandle) Type() uint8 { return uint8(r.bits) }

// Peer returns the client's address.
func (r ReqHandle) Peer() transport.Addr { return r.s.peer }

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
	if !r.s.sv.Handling(r.slot(), r.reqNum) {
		return nil
	}
	_, _, data := r.s.sv.Request(r.slot())
	return data
}

// Alloc returns a buffer of n bytes for the response: the slot's preallocated one
// if n fits it (eRPC, section 4.3), else a new one. Give it to Respond, or free it.
// Errors: ErrTooLarge, ErrExhausted, ErrResponded.
func (r ReqHandle) Alloc(n int) (*MsgBuffer, error) {
	if r.job != nil {
		return r.s.rpc.allocShared(n)
	}
	if !r.s.sv.Handling(r.slot(), r.reqNum) {
		return nil, ErrResponded
	}
	if !r.s.rpc.cfg.NoPrealloc {
		if b := r.s.sv.Prealloc(r.slot(), n); b != nil {
			return b, nil
		}
	}
	return r.s.rpc.Alloc(n)
}

// Respond answers with buf, which the library owns from now on. After an error
// buf is still the caller's. Errors: ErrResponded, ErrTooLarge, ErrBufferInUse,
// ErrBufferFreed, ErrRequest if buf is nil.
func (r ReqHandle) Respond(buf *MsgBuffer) error {
	if buf == nil {
		return ErrRequest
	}
	if r.job != nil {
		return r.job.respond(r, buf)
	}
	e := &r.s.rpc.engine
	if !r.s.sv.Handling(r.slot(), r.reqNum) {
		return ErrResponded
	}
	if err := r.s.sv.Respond(r.slot(), buf, e.now, e.out); err != nil {
		return err
	}
	e.collect(r.s)
	return nil
}

// RespondBytes answers with a copy of b. If b is too large or there is no memory
// the client gets that as its error, and so does the caller.
func (r ReqHandle) RespondBytes(b []byte) error {
	buf, err := r.Alloc(len(b))
	if err != nil {
		if err != ErrResponded {
			_ = r.RespondError(codeOf(err), "")
		}
		return err
	}
	copy(buf.Bytes(), b)
	if err = r.Respond(buf); err != nil {
		if err != ErrResponded {
			_ = r.RespondError(codeOf(err), "")
		}
		buf.Free()
	}
	return err
}

// RespondError answers with an error: the client sees a *RemoteError of the given
// code with text, cut to wire.MaxErrorText bytes.
func (r ReqHandle) RespondError(code wire.Code, text string) error {
	if code == wire.CodeOK {
		code = wire.CodeApplication
	}
	if r.job != nil {
		return r.job.respondError(r, code, text)
	}
	if !r.s.sv.Handling(r.slot(), r.reqNum) {
		return ErrResponded
	}
	e := &r.s.rpc.engine
	err := r.s.sv.RespondError(r.slot(), code, text, e.now, e.out)
	e.collect(r.s)
	return err
}

// codeOf says how a server-side error travels.
func codeOf(err error) wire.Code {
	if err == msgbuf.ErrTooLarge || err == ErrTooLarge {
		return wire.CodeTooLarge
	}
	return wire.CodeExhausted
}

// job is a background request: it owns the request's buffer while the handler
// runs, so that the end of the session does not pull the data away. Jobs are
// reused; gen tells a late response from a current one.
type job struct {
	handle ReqHandle
	req    *MsgBuffer
	fn     Handler
	state  atomic.Uint64 // gen<<1 | responded; written by the loop (new gen) and by the one responder

	// Set by the responder before it hands the job back.
	resp *MsgBuffer
	code wire.Code
	text string
}

func (j *job) current(gen uint32) bool { return j.state.Load() == uint64(gen)<<1 }

// claim makes the caller the one who responds.
func (j *job) claim(gen uint32) bool {
	return j.state.CompareAndSwap(uint64(gen)<<1, uint64(gen)<<1|1)
}

// Run runs the handler, in a worker.
func (j *job) Run() {
	h := j.handle
	defer func() {
		if p := recover(); p != nil {
			h.s.rpc.logPanic(h.Type(), p)
			_ = h.RespondError(wire.CodePanic, "")
		}
	}()
	j.fn(h)
}

func (j *job) respond(r ReqHandle, buf *MsgBuffer) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	if err := buf.Lend(); err != nil {
		j.state.Store(uint64(r.gen()) << 1)
		return err
	}
	buf.Return() // lent only to see that it can be; the loop lends it for good
	j.resp, j.code = buf, wire.CodeOK
	r.s.rpc.post(command{job: j})
	return nil
}

func (j *job) respondError(r ReqHandle, code wire.Code, text string) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	j.resp, j.code, j.text = nil, code, text
	r.s.rpc.post(command{job: j})
	return nil
}
