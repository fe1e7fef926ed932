package erpc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

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
	cfg        *Shares
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
	refs             int // addrQuotas of endpoints
	first, last      *job
	waiting, running int
	next, prev       *workLine // in the ring, while jobs wait
}

func newWorkerPool(cfg *Shares, limit, maxWaiting int) *workerPool {
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
	l := j.quota.line
	queues := p.queues
	if l.waiting == 0 {
		queues++
	}
	if p.closed || !p.cfg.fair(p.waiting, l.waiting, p.maxWaiting, queues) {
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
	return p.closed || l.running == 0 || p.cfg.fair(p.running, l.running, p.limit, p.users)
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
