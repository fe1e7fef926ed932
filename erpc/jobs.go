package erpc

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/wire"
)

// jobTable holds the background requests of an endpoint, which wait or run elsewhere.
type jobTable struct {
	exec    Executor
	running int
	free    []*job
}

// job is a background request: it owns the request's buffer while the handler
// runs, so that the end of the session does not pull the data away. Jobs are
// reused; gen tells a late response from a current one.
type job struct {
	handle ReqHandle
	req    *MsgBuffer
	fn     Handler
	share  *share // of the client's address
	next   *job   // in the line of a workerPool
	// When the client gives the request up, 0 if it did not say.
	deadline Time
	state    atomic.Uint64 // gen<<1 | responded; written by the loop (new gen) and by the one responder

	// Set by the responder before it hands the job back.
	resp  *MsgBuffer
	fault wire.Error // if resp is nil

	cancelled atomic.Bool // the client gave the request up
}

// slotJobs holds the background requests of a session by slot.
type slotJobs []*job

// set notes the job of a slot, nil if there is none.
func (s *slotJobs) set(slot uint8, j *job) {
	for int(slot) >= len(*s) {
		*s = append(*s, nil)
	}
	(*s)[slot] = j
}

// cancel tells a slot's job, if there is one, that the client gave the request up.
func (s slotJobs) cancel(slot uint8) {
	if int(slot) < len(s) && s[slot] != nil {
		s[slot].cancelled.Store(true)
	}
}

func (j *job) current(gen uint32) bool { return j.state.Load() == uint64(gen)<<1 }

// claim makes the caller the one who responds.
func (j *job) claim(gen uint32) bool {
	return j.state.CompareAndSwap(uint64(gen)<<1, uint64(gen)<<1|1)
}

// Run runs the handler, in a worker.
func (j *job) Run() {
	h := j.handle
	if code, text := h.tooLate(); code != CodeOK {
		h.refuse(code, text)
		return
	}
	defer func() {
		if p := recover(); p != nil {
			h.Rpc().logPanic(h.Type(), p)
			_ = h.RespondError(CodePanic, "")
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
		return ownError(err)
	}
	buf.Return() // lent only to see that it can be; the loop lends it for good
	j.resp = buf
	r.Rpc().post(command{job: j})
	return nil
}

func (j *job) respondError(r ReqHandle, f *wire.Error) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	j.resp, j.fault = nil, *f
	r.Rpc().post(command{job: j})
	return nil
}

// take returns a job that is not in use, of a new generation.
func (t *jobTable) take() (j *job, gen uint32) {
	if n := len(t.free); n > 0 {
		j = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		j = new(job)
	}
	gen = uint32(j.state.Load()>>1) + 1
	j.state.Store(uint64(gen) << 1)
	t.running++
	return j, gen
}

// put takes back a job that has ended.
func (t *jobTable) put(j *job) {
	j.handle, j.req, j.resp, j.fn, j.fault = ReqHandle{}, nil, nil, nil, wire.Error{}
	j.share = nil
	j.cancelled.Store(false)
	t.free = append(t.free, j)
	t.running--
}

// background hands a request to the executor.
func (e *engine) background(h ReqHandle, fn Handler) {
	sh := h.s.share
	if !e.shares.mayWork(sh, e.jobs.running, e.cfg.MaxBackground) {
		e.refuseWork(h, e.jobs.running < e.cfg.MaxBackground)
		return
	}
	buf, err := h.s.sv.Take(h.slot())
	if err != nil {
		h.refuse(CodeExhausted, "no memory for the request")
		return
	}
	j, gen := e.jobs.take()
	h.job = j
	h.bits |= uint64(gen) << genShift
	j.handle, j.req, j.fn, j.share = h, buf, fn, sh
	j.deadline = h.s.sv.Deadline(h.slot())
	h.s.jobs.set(h.slot(), j)
	e.shares.startWork(sh)
	if !e.jobs.exec.Submit(j) {
		_ = j.claim(gen)
		e.stats.WorkRefused++
		j.resp, j.fault = nil, *faultOf(CodeExhausted, "background workers are busy")
		e.finishJob(j)
	}
}

// refuseWork answers a background request for which there is no room. Share says that the address
// has its share.
func (e *engine) refuseWork(h ReqHandle, share bool) {
	e.stats.WorkRefused++
	text := "too many background requests"
	if share {
		e.stats.WorkOverShare++
		text = "background requests of this address"
	}
	h.refuse(CodeExhausted, text)
}

// finishJob sends the response of a background request, if its session still waits for it.
func (e *engine) finishJob(j *job) {
	h := j.handle
	h.job = nil
	if h.s.state == sessConnected && h.s.sv.Handling(h.slot(), h.reqNum) {
		if j.resp == nil {
			_ = h.s.respondError(h.slot(), h.reqNum, &j.fault)
		} else if err := h.Respond(j.resp); err != nil {
			_ = h.RespondError(codeOf(err), "")
			j.resp.Free()
		}
	} else if j.resp != nil {
		j.resp.Free()
	}
	sh, n := j.share, j.req.Footprint()
	j.req.Free()
	if jobs := h.s.jobs; jobs[h.slot()] == j {
		jobs[h.slot()] = nil
	}
	e.jobs.put(j)
	e.shares.endWork(sh, n)
}

// codeOf says how a server-side error travels.
func codeOf(err error) Code {
	if err == ErrTooLarge {
		return CodeTooLarge
	}
	return CodeExhausted
}
