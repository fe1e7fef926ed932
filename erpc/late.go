package erpc

import (
	"sync"

	"github.com/userspace-rpc/erpc/msgbuf"
)

// late ends the background requests whose handlers answer when the endpoint is closed. Nobody runs
// the loop any more, so that whoever answers does it.
type late struct {
	mu   sync.Mutex
	over bool   // Close has done all that it does
	jobs []*job // that found no room in the ring of commands
}

// tidy ends all requests that have their answers: j, nil if there is none, and those in the ring.
// Before Close is over it leaves them to that.
func (l *late) tidy(r *Rpc, j *job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j != nil {
		l.jobs = append(l.jobs, j)
	}
	if l.over {
		l.finish(r)
	}
}

// finish is tidy with the lock held. The last request ends what Close has left.
func (l *late) finish(r *Rpc) {
	e := &r.engine
	for c, ok := r.commands.Pop(); ok; c, ok = r.commands.Pop() {
		if c.job != nil {
			e.finishJob(c.job)
		}
	}
	for _, j := range l.jobs {
		e.finishJob(j)
	}
	l.jobs = nil
	if e.jobs.running == 0 {
		e.quotas.close()
	}
}

// closePools gives back the memory of messages, as soon as nobody has a buffer. The buffers of
// background requests at work are the library's; the others are the application's, which is told.
func (r *Rpc) closePools() error {
	r.late.mu.Lock()
	defer r.late.mu.Unlock()
	running := r.engine.jobs.running
	err := r.engine.pool.Close()
	if leak, ok := err.(*msgbuf.LeakError); ok {
		if leak.Count -= running; leak.Count <= 0 {
			err = nil
		}
	}
	r.sharedOnce.Do(func() {}) // none is made any more
	if p := r.shared.Load(); p != nil {
		if e := p.Close(); err == nil && running == 0 {
			err = e // else they may be the responses of those requests
		}
	}
	r.late.over = true
	r.late.finish(r)
	return err
}
