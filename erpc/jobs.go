package erpc

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc/internal/engine"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/session"
	"github.com/userspace-rpc/erpc/transport"
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
	quota  *engine.Quota // of the client's address
	work   *addrWork     // of the same; nil if another executor than the workers runs handlers
	next   *job          // in the line of a workerPool
	// When the client gives the request up, 0 if it did not say. It stays while the handler runs.
	deadline Time
	// gen<<1 | responded; written by the loop (new gen) and by the one responder
	state atomic.Uint64

	lately *atomic.Int64 // what responses of the request's type took; see Nexus.lately

	timed bool          // note began and took, for the meter
	began monotime.Time // when the handler was called

	// Set by the responder before it hands the job back.
	took  time.Duration
	resp  *MsgBuffer
	body  []byte     // a response that is sent from the handler's memory
	fault wire.Error // if there is no response
	// Bytes that are charged to the quota for the response. They count until the request is answered,
	// also those of buffers that the handler frees.
	made     int
	most     int             // bytes of a response as declared; 0 if it is not
	buffer   *MsgBuffer      // for such a response, until the handler takes it
	spare    int             // of them those without a buffer
	refused  int             // buffers that it did not get
	ventured bool            // it runs without what its response may take
	kept     session.Refusal // why the handler did not run, for what the address has

	cancelled atomic.Bool // nobody waits for the request any more
	ctx       atomic.Pointer[handlerContext]
}

// addrWork is what background handlers know of an address, at one endpoint. It is the Owner of the
// address's quota.
type addrWork struct {
	line    *workLine
	blocked map[uint8]*blocked // by request type; nil until a handler has held up the loop
}

// QuotaOpened is told by the engine.
func (p port) QuotaOpened(q *engine.Quota) {
	if pool := p.jobs.pool; pool != nil {
		q.Owner = &addrWork{line: pool.open(q.Key())}
	}
}

// QuotaClosed forgets the address.
func (p port) QuotaClosed(q *engine.Quota) {
	if w, ok := q.Owner.(*addrWork); ok {
		p.jobs.pool.close(w.line)
	}
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
	if !j.admitted() {
		h.refuse(ReasonExhausted, notAdmitted(j.kept))
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
		return engine.OwnError(err)
	}
	buf.Return() // lent only to see that it can be: the loop lends it for good

	if n := buf.Footprint(); session.Counts(n) || j.made > 0 {
		if err := j.answer(n); err != nil {
			j.state.Store(uint64(r.gen()) << 1)
			return err
		}
	}
	j.resp = buf
	j.stop(r)
	r.Rpc().post(command{job: j})
	return nil
}

// respondWith answers with b, which the loop makes a buffer of.
func (j *job) respondWith(r ReqHandle, b []byte) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	if err := j.answer(len(b)); err != nil {
		j.state.Store(uint64(r.gen()) << 1)
		return err
	}
	j.body = b
	j.stop(r)
	r.Rpc().post(command{job: j})
	return nil
}

// respondRequest answers with the first n bytes of the request itself.
func (j *job) respondRequest(r ReqHandle, n int) error {
	if !j.claim(r.gen()) {
		return ErrResponded
	}
	if err := j.req.Resize(n); err != nil {
		j.state.Store(uint64(r.gen()) << 1)
		return engine.OwnError(err)
	}
	j.resp = j.req
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
	j.quota, j.work, j.lately = nil, nil, nil
	j.made, j.spare, j.refused, j.kept, j.ventured = 0, 0, 0, session.Granted, false
	j.most, j.buffer, j.body = 0, nil, nil
	j.timed, j.began, j.took = false, 0, 0
	j.cancelled.Store(false)
	t.free = append(t.free, j)
	t.running--
}

// background hands a request to the executor.
func (r *Rpc) background(h ReqHandle, entry *handlerEntry) {
	q, quotas := h.s.conn.Quota(), r.engine.Quotas()
	if !quotas.MayWork(q, r.jobs.running, r.cfg.MaxBackground) {
		r.refuseWork(h, r.jobs.running < r.cfg.MaxBackground)
		return
	}
	buf, err := h.s.half.Take(h.slot())
	if err != nil {
		h.refuse(ReasonExhausted, "no memory for the request")
		return
	}
	j, gen := r.jobs.take()
	h.job = j
	h.bits |= uint64(gen) << genShift
	j.handle, j.req, j.fn, j.quota = h, buf, entry.fn, q
	j.promise(int(entry.most))
	j.lately = &r.nexus.lately[h.Type()]
	j.work, _ = q.Owner.(*addrWork)
	j.deadline = h.s.half.Deadline(h.slot())
	h.s.jobs.set(h.slot(), j)
	j.timed = r.meter != nil
	quotas.StartWork(q)
	t := &r.jobs
	if t.paces != nil && len(t.own) < maxOwn && t.paces.quick(j.work, h.Type(), r.engine.Now()) {
		t.own = append(t.own, j)
	} else if t.pool != nil {
		t.batch = append(t.batch, j)
		r.engine.Handed++
	} else if !r.jobs.exec.Submit(j) {
		r.unworked(j)
	}
}

// handOverJobs gives the background requests of the last pass to the workers, all at once: the lock
// and the wake-up are paid once.
//
//go:noinline
func (r *Rpc) handOverJobs() {
	batch := r.jobs.batch
	refused := r.jobs.pool.submit(batch)
	for _, j := range batch[:refused] {
		r.unworked(j)
	}
	clear(batch)
	r.jobs.batch = batch[:0]
}

// handAll gives the workers all background requests that wait for them here.
func (r *Rpc) handAll() {
	r.jobs.toPool(nil)
	if len(r.jobs.batch) > 0 {
		r.handOverJobs()
	}
}

// unworked ends a job for which the executor has no room.
func (r *Rpc) unworked(j *job) {
	_ = j.claim(j.handle.gen())
	r.stats.WorkRefused++
	j.resp, j.fault = nil, *faultOf(ReasonExhausted, "background workers are busy")
	r.finishJob(j)
}

// refuseWork answers a background request for which there is no room. OverQuota says that the
// address has used its quota.
func (r *Rpc) refuseWork(h ReqHandle, overQuota bool) {
	r.stats.WorkRefused++
	text := "too many background requests"
	if overQuota {
		r.stats.WorkOverShare++
		text = "background requests of this address"
	}
	h.refuse(ReasonExhausted, text)
}

// finishJob sends the response of a background request, if its session still waits for it.
func (r *Rpc) finishJob(j *job) {
	h := j.handle
	h.job = nil
	if j.began != 0 && r.meter != nil {
		r.meter.server(h.Type()).Handler.Add(int64(j.took))
	}
	if j.made|j.refused|int(j.kept)|j.most != 0 || j.ventured {
		r.tally(j)
	}
	q, n := j.quota, j.req.Footprint()
	waits := h.s.conn.Open() && h.s.half.Handling(h.slot(), h.reqNum)
	if j.resp == j.req {
		j.req = nil
		if waits {
			h.s.half.GiveBack(h.slot(), n)
			n = 0
		}
	}
	if waits {
		j.answerIn(h)
	} else if j.resp != nil {
		j.resp.Free()
	}
	if j.req != nil {
		j.req.Free()
	}
	if jobs := h.s.jobs; jobs[h.slot()] == j {
		jobs[h.slot()] = nil
	}
	r.jobs.put(j)
	r.engine.Quotas().EndWork(q, n)
}

// answerIn answers the job's request, which its session waits for.
func (j *job) answerIn(h ReqHandle) {
	var err error
	if j.body != nil {
		j.resp, err = h.Rpc().pool.Wrap(j.body)
		err = allocError(err)
	} else if j.resp == nil {
		_ = h.s.respondError(h.slot(), h.reqNum, &j.fault)
		return
	}
	if err == nil {
		err = h.Respond(j.resp)
	}
	if err != nil {
		_ = h.fail(reasonOf(err), refusalOf(err))
		if j.resp != nil {
			j.resp.Free()
		}
	}
}

// reasonOf says how a server-side error travels.
func reasonOf(err error) Reason {
	if err == ErrTooLarge {
		return ReasonTooLarge
	}
	return ReasonExhausted
}

// idleFor is how long a worker waits for work at least until it ends. It may wait twice as long.
const idleFor = 10 * time.Second

// workerPool runs background handlers in goroutines of its own: as many as there is work for, up to
// a limit. The requests of each address wait in a line, and the lines are served in turn, so that
// slow handlers of one address hold up that one. It can have three quarters of the workers; see
// Shares.
//
// At most one worker at a time is on its way to look for work. It starts or wakes the next one when
// it has found some and more waits. So an endpoint wakes one worker at most when it hands over the
// requests of a pass, and handlers that return at once need few workers, however many requests
// there are.
type workerPool struct {
	cfg        *engine.Shares
	limit      int // workers
	maxWaiting int // jobs that may wait

	mu      sync.Mutex
	lines   map[transport.Addr]*workLine
	next    *workLine // the ring of lines in which jobs wait; nil if there are none
	queues  int       // lines in the ring
	waiting int       // jobs in lines
	running int       // jobs in workers
	users   int       // lines that have some of either

	workers  int       // all of them
	idle     []*worker // those that wait; the last one was at work last
	coming   bool      // a worker is on its way
	spare    int       // the least length of idle since it was trimmed
	trimming bool      // trimmer is set
	trimmer  *time.Timer
	closed   bool
	done     sync.WaitGroup

	// since when a loop has waited for a processor; 0 if none does, as far as is known.
	waited atomic.Int64
}

// worker is a goroutine of the pool.
type worker struct {
	wake sync.Cond
	line *workLine // of the job at work
	// Both under the pool's lock.
	awake, retired bool
}

// workLine is the work of one address, from all endpoints. All of it is under the pool's lock.
type workLine struct {
	key              transport.Addr
	refs             int // quotas of endpoints
	first, last      *job
	waiting, running int
	next, prev       *workLine // in the ring, while jobs wait
}

func newWorkerPool(cfg *engine.Shares, limit, maxWaiting int) *workerPool {
	return &workerPool{
		cfg: cfg, limit: limit, maxWaiting: maxWaiting, lines: make(map[transport.Addr]*workLine),
	}
}

// open returns the line of an address. Without quotas there is one line.
func (p *workerPool) open(key transport.Addr) *workLine {
	if p.cfg.Off {
		key = transport.Addr{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[key]
	if l == nil {
		l = &workLine{key: key}
		p.lines[key] = l
	}
	l.refs++
	return l
}

// close undoes open.
func (p *workerPool) close(l *workLine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(p.lines, l.key)
	}
}

// submit puts each job at the end of its line, and has a worker come. The jobs for which there is
// no room are the first ones of jobs afterwards; it returns their number.
func (p *workerPool) submit(jobs []*job) (refused int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, j := range jobs {
		if !p.admit(j) {
			jobs[i], jobs[refused] = jobs[refused], j
			refused++
		}
	}
	p.call()
	return refused
}

// admit puts a job at the end of its line if there is room.
func (p *workerPool) admit(j *job) bool {
	l := j.work.line
	queues := p.queues
	if l.waiting == 0 {
		queues++
	}
	if p.closed || !p.cfg.Fair(p.waiting, l.waiting, p.maxWaiting, queues) {
		return false
	}
	if l.waiting+l.running == 0 {
		p.users++
	}
	p.push(l, j)
	return true
}

// push puts a job at the end of a line, and the line behind the others if it is the first one.
func (p *workerPool) push(l *workLine, j *job) {
	p.waiting++
	if l.waiting++; l.waiting > 1 {
		l.last.next = j
		l.last = j
		return
	}
	l.first, l.last = j, j
	p.queues++
	if p.next == nil {
		p.next, l.next, l.prev = l, l, l
		return
	}
	l.next, l.prev = p.next, p.next.prev
	l.prev.next, l.next.prev = l, l
}

// pop takes the first job of a line. The line behind it is the next to be served.
func (p *workerPool) pop(l *workLine) *job {
	j := l.first
	l.first, j.next = j.next, nil
	p.next = l.next
	p.waiting--
	p.running++
	l.running++
	if l.waiting--; l.waiting == 0 {
		l.last = nil
		p.queues--
		if p.queues == 0 {
			p.next = nil
		}
		l.prev.next, l.next.prev = l.next, l.prev
		l.next, l.prev = nil, nil
	}
	return j
}

// serves reports whether a line may have one more worker.
func (p *workerPool) serves(l *workLine) bool {
	return p.closed || l.running == 0 || p.cfg.Fair(p.running, l.running, p.limit, p.users)
}

// ready returns the line whose job is the next to run, nil if there is none. It passes over lines
// that have workers only, so there are no more of them than workers.
func (p *workerPool) ready() *workLine {
	l := p.next
	for range p.queues {
		if p.serves(l) {
			return l
		}
		l = l.next
	}
	return nil
}

// call makes a worker come if there is a job for it and none is on its way.
func (p *workerPool) call() {
	if !p.coming {
		p.bring()
	}
}

// bring makes a worker come if there is a job for it.
func (p *workerPool) bring() {
	if p.waiting == 0 || len(p.idle) == 0 && p.workers == p.limit || p.ready() == nil {
		return
	}
	p.coming = true
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.spare = min(p.spare, n-1)
		w.rouse()
		return
	}
	p.workers++
	w := &worker{awake: true}
	w.wake.L = &p.mu
	p.done.Go(func() { p.work(w) })
}

// rouse ends a worker's wait.
func (w *worker) rouse() {
	w.awake = true
	w.wake.Signal()
}

// work runs jobs until the worker is retired, or the pool is closed and no job waits.
func (p *workerPool) work(w *worker) {
	defer p.end(w)
	p.mu.Lock()
	p.coming = false
	for {
		l := p.ready()
		if l == nil {
			if !p.rest(w) {
				return
			}
			continue
		}
		j := p.pop(l)
		p.call()
		w.line = l
		p.mu.Unlock()
		j.Run() // it may be used again before that returns
		p.giveWay()
		p.mu.Lock()
		p.ran(w)
	}
}

// loopPatience is how long a loop waits for a processor until a worker gives it its own. Results
// gather meanwhile, which leave together.
const loopPatience = 200 * time.Microsecond

// letRun has a loop that has nothing to do wait until other goroutines have run. A worker that is
// on its way waits for the processor of the one that called it, so another one comes to the loop's.
//
// Workers that always find another job would keep the processors for up to 10 ms, and the results
// of the jobs with them. They give way to the loop.
func (p *workerPool) letRun() {
	p.mu.Lock()
	p.bring()
	p.mu.Unlock()
	now := int64(monotime.Now())
	p.waited.CompareAndSwap(0, now)
	runtime.Gosched()
	p.waited.CompareAndSwap(now, 0)
}

// giveWay lets a loop run that has waited for long.
func (p *workerPool) giveWay() {
	if at := p.waited.Load(); at != 0 && overdue(monotime.Time(at), monotime.Now()) {
		runtime.Gosched()
	}
}

// overdue reports whether a loop that has waited since at is to run now.
func overdue(at, now monotime.Time) bool { return now.Sub(at) >= loopPatience }

// ran notes that the worker's job has ended.
func (p *workerPool) ran(w *worker) {
	l := w.line
	w.line = nil
	p.running--
	if l.running--; l.running+l.waiting == 0 {
		p.users-- // quotas have grown
	}
}

// end ends a worker, which holds the lock unless its handler called runtime.Goexit.
func (p *workerPool) end(w *worker) {
	if w.line != nil {
		p.mu.Lock()
		p.ran(w)
	}
	p.workers--
	p.call()
	if p.closed && p.waiting == 0 {
		p.retire(len(p.idle))
	}
	p.mu.Unlock()
}

// rest waits until there may be a job. It returns false if the worker is to end.
func (p *workerPool) rest(w *worker) bool {
	if p.closed && p.waiting == 0 {
		return false
	}
	p.idle = append(p.idle, w)
	if !p.trimming {
		p.trimming, p.spare = true, len(p.idle)
		if p.trimmer == nil {
			p.trimmer = time.AfterFunc(idleFor, p.trim)
		} else {
			p.trimmer.Reset(idleFor)
		}
	}
	for w.awake = false; !w.awake; {
		w.wake.Wait()
	}
	if w.retired {
		return false
	}
	p.coming = false
	return true
}

// trim retires the workers that no job needed since it was last called, or since the first one
// waited.
func (p *workerPool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retire(p.spare)
	p.spare = len(p.idle)
	p.trimming = p.spare > 0 && !p.closed
	if p.trimming {
		p.trimmer.Reset(idleFor)
	}
}

// retire ends the n workers that have waited longest.
func (p *workerPool) retire(n int) {
	for _, w := range p.idle[:n] {
		w.retired = true
		w.rouse()
	}
	left := copy(p.idle, p.idle[n:])
	clear(p.idle[left:])
	p.idle = p.idle[:left]
	p.spare = min(p.spare, left)
}

// stop lets the workers end when no job waits, and waits for them.
func (p *workerPool) stop() {
	p.mu.Lock()
	p.closed = true
	if p.waiting == 0 {
		p.retire(len(p.idle))
	}
	p.call() // closed lines wait for no quota
	if p.trimmer != nil {
		p.trimmer.Stop()
	}
	p.mu.Unlock()
	p.done.Wait()
}

const (
	// A handler is quick if it takes less than quickFor: little more than it costs to wake a
	// goroutine for it.
	quickFor = 5 * time.Microsecond
	// A measurement above quickFor adds slowStep to the sum of a type, each other one takes 1 away. A
	// type whose sum reaches slowSum is slow. So a type with one slow handler in four is slow, and one
	// that the system interrupts now and then is not.
	slowStep = 3
	slowSum  = 8
	// A slow type stays slow for minSlow, for twice as long each time that it is found slow again, and
	// for half as long after each trustAfter quick measurements.
	minSlow    = 100 * time.Millisecond
	maxSlow    = 10 * time.Second
	trustAfter = 256
	// When a handler of a type has blocked, requests of that type and address go to the pool for
	// minBlocked, and for twice as long each time; for half as long after each believeAfter that
	// did not block.
	minBlocked   = 20 * time.Millisecond
	believeAfter = 16
	// Handlers that block after all may hold up the loop for maxStalled, and a twentieth of the
	// time. Beyond that all go to the pool for stallPause.
	maxStalled = 50 * time.Millisecond
	stallLeak  = 20
	stallPause = time.Second
)

// pace holds measurements of how long the handlers of a request type take. Without any they
// count as quick.
type pace struct {
	sum   int
	trust int           // measurements that were quick since hold was halved
	until monotime.Time // the type is slow
	hold  time.Duration // for how long, the last time
}

// paces are those of all request types, and what shifts that blocked have cost.
type paces struct {
	types   [256]pace
	blocked [256]struct {
		blocked           // if more than one address called handlers that blocked
		by      *addrWork // the last one, to compare
	}
	stalled time.Duration // by shifts that blocked, less what is forgiven
	at      monotime.Time // when it was
	until   monotime.Time // no type is quick
}

// quick reports whether the handler of a request of an address and a type is supposed to return at
// once.
func (p *paces) quick(w *addrWork, typ uint8, now monotime.Time) bool {
	if now < p.until || !p.types[typ].quick(now) {
		return false
	}
	b := &p.blocked[typ]
	return b.by == nil || b.ends(now) && (w.blocked[typ] == nil || w.blocked[typ].ends(now))
}

// stall notes that the handler of such a request has held up the loop.
func (p *paces) stall(w *addrWork, typ uint8, now monotime.Time, d time.Duration) {
	if w.blocked == nil {
		w.blocked = make(map[uint8]*blocked)
	}
	if w.blocked[typ] == nil {
		w.blocked[typ] = new(blocked)
	}
	w.blocked[typ].begin(now)
	b := &p.blocked[typ]
	if b.by != nil && b.by != w {
		b.begin(now)
	}
	b.by = w
	p.stalled = max(0, p.stalled-now.Sub(p.at)/stallLeak) + d
	p.at = now
	if p.stalled > maxStalled {
		p.until = now.Add(stallPause)
	}
}

// blocked is a time in which handlers are supposed to block, since one did.
type blocked struct {
	until monotime.Time
	hold  time.Duration // how long it was
	quick int           // requests since hold was set
}

// begin begins such a time.
func (b *blocked) begin(now monotime.Time) {
	b.hold = max(minBlocked, min(2*b.hold, maxSlow))
	b.until, b.quick = now.Add(b.hold), 0
}

// ends reports whether it is over. If so, one request is tried.
func (b *blocked) ends(now monotime.Time) bool {
	if now < b.until {
		return false
	}
	if b.quick++; b.quick == believeAfter {
		b.quick, b.hold = 0, b.hold/2
	}
	return true
}

// quick reports whether handlers are supposed to return at once.
func (p *pace) quick(now monotime.Time) bool { return now >= p.until }

// note says how long n handlers took together.
func (p *pace) note(now monotime.Time, took time.Duration, n int) {
	if took >= time.Duration(n)*quickFor {
		p.slow(now)
		return
	}
	p.sum = max(p.sum-1, 0)
	if p.trust++; p.trust == trustAfter {
		p.trust, p.hold = 0, p.hold/2
	}
}

// slow says that handlers were not quick once.
func (p *pace) slow(now monotime.Time) {
	p.trust = 0
	if p.sum += slowStep; p.sum < slowSum {
		return
	}
	p.sum = slowSum - slowStep // one more, and it is slow again
	p.hold = max(minSlow, min(2*p.hold, maxSlow))
	p.until = now.Add(p.hold)
}
