package erpc

import (
	"sync"

	"github.com/userspace-rpc/erpc/transport"
)

// workerPool is the default Executor: a fixed number of goroutines. The requests of each address
// wait in a line, and the lines are served in turn, so that slow handlers of one address hold up
// that one. It can have three quarters of the workers; see Shares.
type workerPool struct {
	cfg     *Shares
	workers int
	most    int // jobs that may wait

	mu      sync.Mutex
	wake    sync.Cond
	idle    int // workers that wait in it
	lines   map[transport.Addr]*workLine
	next    *workLine // the ring of lines in which jobs wait; nil if there are none
	queues  int       // lines in the ring
	waiting int       // jobs in lines
	running int       // jobs in workers
	users   int       // lines that have some of either
	closed  bool
	done    sync.WaitGroup
}

// workLine is the work of one address, from all endpoints. All of it is under the pool's lock.
type workLine struct {
	key              transport.Addr
	refs             int // shares of endpoints
	first, last      *job
	waiting, running int
	next, prev       *workLine // in the ring, while jobs wait
}

func newWorkerPool(cfg *Shares, workers, most int) *workerPool {
	p := &workerPool{
		cfg: cfg, workers: workers, most: most, lines: make(map[transport.Addr]*workLine),
	}
	p.wake.L = &p.mu
	for range workers {
		p.done.Go(p.work)
	}
	return p
}

// open returns the line of an address. Without shares there is one line.
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

// Submit puts a job at the end of its line. The engine submits nothing else than jobs.
func (p *workerPool) Submit(t Task) bool {
	j := t.(*job)
	l := j.share.line
	p.mu.Lock()
	defer p.mu.Unlock()
	queues := p.queues
	if l.waiting == 0 {
		queues++
	}
	if p.closed || !p.cfg.fair(p.waiting, l.waiting, p.most, queues) {
		return false
	}
	if l.waiting+l.running == 0 {
		p.users++
	}
	p.push(l, j)
	if p.idle > 0 && p.serves(l) {
		p.wake.Signal()
	}
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
	return p.closed || l.running == 0 || p.cfg.fair(p.running, l.running, p.workers, p.users)
}

// take takes the next job that may run, nil if there is none. It passes over lines that have
// workers only, so there are no more of them than workers.
func (p *workerPool) take() *job {
	l := p.next
	for range p.queues {
		if p.serves(l) {
			return p.pop(l)
		}
		l = l.next
	}
	return nil
}

// work runs jobs until the pool is closed and no job waits.
func (p *workerPool) work() {
	p.mu.Lock()
	for {
		j := p.take()
		if j == nil {
			if p.closed && p.waiting == 0 {
				p.mu.Unlock()
				return
			}
			p.idle++
			p.wake.Wait()
			p.idle--
			continue
		}
		l := j.share.line // the job may be used again before Run returns
		p.mu.Unlock()
		j.Run()
		p.mu.Lock()
		p.running--
		if l.running--; l.running+l.waiting == 0 {
			p.users--
			if p.idle > 0 && p.waiting > 0 {
				p.wake.Signal() // shares have grown
			}
		}
	}
}

// stop lets the workers end when no job waits, and waits for them.
func (p *workerPool) stop() {
	p.mu.Lock()
	p.closed = true
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}
