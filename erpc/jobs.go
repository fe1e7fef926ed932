package erpc

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/wire"
)

// jobTable holds the background requests of an endpoint, which wait or run elsewhere.
type jobTable struct {
	exec    Executor    // nil if pool runs them
	pool    *workerPool // nil if exec does
	batch   []*job      // of this pass, for pool
	running int
	// If a handoff runs the loop: what it knows of handlers, and the requests of this pass that it
	// runs itself.
	paces *paces
	own   []*job
	free  []*job
}

// job is a background request: it owns the request's buffer while the handler
// runs, so that the end of the session does not pull the data away. Jobs are
// reused; gen tells a late response from a current one.
type job struct {
	handle ReqHandle
	req    *MsgBuffer
	fn     Handler
	quota  *addrQuota // of the client's address
	next   *job       // in the line of a workerPool
	// When the client gives the request up, 0 if it did not say. It stays while the handler runs.
	deadline Time
	// gen<<1 | responded; written by the loop (new gen) and by the one responder
	state atomic.Uint64

	timed bool          // note began and took, for the meter
	began monotime.Time // when the handler was called

	// Set by the responder before it hands the job back.
	took  time.Duration
	resp  *MsgBuffer
	fault wire.Error // if resp is nil

	cancelled atomic.Bool // nobody waits for the request any more
	ctx       atomic.Pointer[handlerContext]
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
		s[slot].cancel()
	}
}

// cancelAll tells all jobs that their session has ended.
func (s slotJobs) cancelAll() {
	for _, j := range s {
		if j != nil {
			j.cancel()
		}
	}
}

// cancel notes that nobody waits for the request any more.
func (j *job) cancel() {
	j.cancelled.Store(true)
	if c := j.ctx.Load(); c != nil {
		c.end(context.Canceled)
	}
}

func (j *job) current(gen uint32) bool { return j.state.Load() == uint64(gen)<<1 }

// responded reports whether the request has its answer.
func (j *job) responded() bool { return j.state.Load()&1 != 0 }

// claim makes the caller the one who responds.
func (j *job) claim(gen uint32) bool {
	return j.state.CompareAndSwap(uint64(gen)<<1, uint64(gen)<<1|1)
}

// Run runs the handler, in a worker.
func (j *job) Run() {
	h := j.handle
	if why, text := h.tooLate(); why != ReasonNone {
		h.refuse(why, text)
		return
	}
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			h.Rpc().logPanic(h.Type(), recover())
			_ = h.fail(ReasonPanic, "")
		}
	}()
	if j.timed {
		j.began = h.Rpc().clock()
	}
	j.fn(h)
	returned = true
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
	j.stop(r)
	r.Rpc().post(command{job: j})
	return nil
}

func (j *job) respondError(r ReqHandle, f *wire.Error) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	j.resp, j.fault = nil, *f
	j.stop(r)
	r.Rpc().post(command{job: j})
	return nil
}

// stop notes how long the handler of a timed job took to answer.
func (j *job) stop(r ReqHandle) {
	if j.timed && j.began != 0 {
		j.took = r.Rpc().clock().Sub(j.began)
	}
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

// toPool has the pool run the requests that a handoff has not run itself.
func (t *jobTable) toPool(rest []*job) {
	t.batch = append(append(t.batch, rest...), t.own...)
	clear(t.own)
	t.own = t.own[:0]
}

// put takes back a job that has ended.
func (t *jobTable) put(j *job) {
	j.handle, j.req, j.resp, j.fn, j.fault = ReqHandle{}, nil, nil, nil, wire.Error{}
	j.quota = nil
	j.timed, j.began, j.took = false, 0, 0
	j.cancelled.Store(false)
	t.free = append(t.free, j)
	t.running--
}

// background hands a request to the executor.
func (e *engine) background(h ReqHandle, fn Handler) {
	q := h.s.srv.quota
	if !e.quotas.mayWork(q, e.jobs.running, e.cfg.MaxBackground) {
		e.refuseWork(h, e.jobs.running < e.cfg.MaxBackground)
		return
	}
	buf, err := h.s.sv.Take(h.slot())
	if err != nil {
		h.refuse(ReasonExhausted, "no memory for the request")
		return
	}
	j, gen := e.jobs.take()
	h.job = j
	h.bits |= uint64(gen) << genShift
	j.handle, j.req, j.fn, j.quota = h, buf, fn, q
	j.deadline = h.s.sv.Deadline(h.slot())
	h.s.srv.jobs.set(h.slot(), j)
	j.timed = e.meter != nil
	e.quotas.startWork(q)
	t := &e.jobs
	if t.paces != nil && len(t.own) < maxOwn && t.paces.quick(q, h.Type(), e.in.Now) {
		t.own = append(t.own, j)
	} else if t.pool != nil {
		t.batch = append(t.batch, j)
		e.handed++
	} else if !e.jobs.exec.Submit(j) {
		e.unworked(j)
	}
}

// handOver gives the background requests of the last pass to the workers, all at once: the lock
// and the wake-up are paid once.
//
//go:noinline
func (e *engine) handOver() {
	batch := e.jobs.batch
	refused := e.jobs.pool.submit(batch)
	for _, j := range batch[:refused] {
		e.unworked(j)
	}
	clear(batch)
	e.jobs.batch = batch[:0]
}

// handAll gives the workers all background requests that wait for them here.
func (e *engine) handAll() {
	e.jobs.toPool(nil)
	if len(e.jobs.batch) > 0 {
		e.handOver()
	}
}

// unworked ends a job for which the executor has no room.
func (e *engine) unworked(j *job) {
	_ = j.claim(j.handle.gen())
	e.stats.WorkRefused++
	j.resp, j.fault = nil, *faultOf(ReasonExhausted, "background workers are busy")
	e.finishJob(j)
}

// refuseWork answers a background request for which there is no room. OverQuota says that the
// address has used its quota.
func (e *engine) refuseWork(h ReqHandle, overQuota bool) {
	e.stats.WorkRefused++
	text := "too many background requests"
	if overQuota {
		e.stats.WorkOverShare++
		text = "background requests of this address"
	}
	h.refuse(ReasonExhausted, text)
}

// finishJob sends the response of a background request, if its session still waits for it.
func (e *engine) finishJob(j *job) {
	h := j.handle
	h.job = nil
	if j.began != 0 && e.meter != nil {
		e.meter.server(h.Type()).Handler.Add(int64(j.took))
	}
	if h.s.state == sessConnected && h.s.sv.Handling(h.slot(), h.reqNum) {
		if j.resp == nil {
			_ = h.s.respondError(h.slot(), h.reqNum, &j.fault)
		} else if err := h.Respond(j.resp); err != nil {
			_ = h.fail(reasonOf(err), "")
			j.resp.Free()
		}
	} else if j.resp != nil {
		j.resp.Free()
	}
	q, n := j.quota, j.req.Footprint()
	j.req.Free()
	if jobs := h.s.srv.jobs; jobs[h.slot()] == j {
		jobs[h.slot()] = nil
	}
	e.jobs.put(j)
	e.quotas.endWork(q, n)
}

// reasonOf says how a server-side error travels.
func reasonOf(err error) Reason {
	if err == ErrTooLarge {
		return ReasonTooLarge
	}
	return ReasonExhausted
}
