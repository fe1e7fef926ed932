package durable

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/kit/filelock"
)

// ErrFailed means that a write or a sync of the log has failed: the Store takes no more writes.
// What was acknowledged is kept as far as the Policy says. To go on, close the Store and open the
// folder again when the disk is well.
var ErrFailed = errors.New("durable: the log has failed and takes no more writes")

// ErrBehind means that a GiB of writes waits for the disk, since writes by Try did not wait. This
// one was not done.
var ErrBehind = errors.New("durable: too many writes wait for the disk")

// ErrClosed means that the Store was closed.
var ErrClosed = errors.New("durable: closed")

// Policy says when a write is acknowledged, and thus what a crash can lose.
type Policy uint8

// The policies. They are those of redis's append-only file.
const (
	// EverySecond syncs once a second: the end of the process can lose what was acknowledged in the
	// last 2 ms before, a power failure that of the last second, or two if the disk is slow. When a
	// sync has taken a second writes wait for it.
	EverySecond Policy = iota
	// Always acknowledges a write when it is synced. Nothing of that is lost.
	Always
	// Never leaves it to the system when data go to the disk. The end of the process loses as much
	// as with EverySecond.
	Never
)

// Config says how a Store keeps writes. The zero value is for use.
type Config struct {
	Sync Policy
	// Report is told what happens beside the writes: that the log has failed, that the disk is slow,
	// that a snapshot failed, that an end of the log was torn. It is called by one goroutine at a
	// time, and must not wait. Nil: nobody is told.
	Report func(error)

	size  int64 // of a log; tests have small ones
	block int   // of a base's frame
}

// Log is the log of a Store.
type Log struct {
	cfg  Config
	on   disk
	lock *filelock.Lock
	base func(n uint64, stop func() bool) (size int64, err error) // writes a snapshot

	stalled atomic.Bool // writes are to wait
	behind  atomic.Bool // ... and those that do not are refused
	failed  atomic.Pointer[error]

	mu    sync.Mutex
	buf   []byte // of a frame: records that are not written yet
	end   Mark   // of all records
	kept  Mark   // of those that are synced
	late  bool   // a sync takes too long
	syncs uint64 // that have ended
	err   error
	ready []func()
	keeps []keep

	report sync.Mutex
	wake   chan struct{} // records have come
	sync   chan struct{} // a snapshot waits for a sync
	quit   chan struct{}
	done   chan struct{}
	writer writer
}

// Mark is how many records a log had at some time.
type Mark uint64

// keep waits for a mark to be synced.
type keep struct {
	at Mark
	fn func(error)
}

const (
	// How long records wait for others before they are written, unless each is synced.
	gather = 2 * time.Millisecond
	// With so many bytes that are not written, writes wait.
	room = 8 << 20
	// With so many, writes that do not wait are refused. What a write of each stripe adds then still
	// goes into one frame.
	most = 1 << 30
	// A log of so many bytes is followed by the next one.
	logSize = 64 << 20
)

func (l *Log) start() {
	l.wake, l.sync = make(chan struct{}, 1), make(chan struct{}, 1)
	l.quit, l.done = make(chan struct{}), make(chan struct{})
	l.buf = make([]byte, frameSize)
	go l.run()
}

// tell sends without waiting; one is enough.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// appended counts a record that was appended to the buffer. The log is locked.
func (l *Log) appended() {
	l.end++
	if len(l.buf) >= room {
		l.stalled.Store(true)
	}
	if len(l.buf) >= most {
		l.behind.Store(true)
	}
	tell(l.wake)
}

// Err returns nil, or why the log takes no more writes: ErrFailed or ErrClosed.
func (l *Log) Err() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Ready reports whether the disk keeps up with the writes. If not, wait with Try for WhenReady:
// what has not been written is in memory.
func (l *Log) Ready() bool { return !l.stalled.Load() }

// WhenReady calls fn once the Store is Ready, or takes no more writes: at once, or later from
// another goroutine. fn must not wait.
func (l *Log) WhenReady(fn func()) {
	l.mu.Lock()
	if l.stalled.Load() {
		l.ready = append(l.ready, fn)
		fn = nil
	}
	l.mu.Unlock()
	if fn != nil {
		fn()
	}
}

// WhenKept calls fn once all writes up to a mark are kept as the Policy says: at once, or later
// from another goroutine. fn must not wait. Its error is nil or that of Err.
func (l *Log) WhenKept(at Mark, fn func(error)) {
	if l.cfg.Sync != Always {
		fn(l.Err())
		return
	}
	l.whenSynced(at, fn)
}

// Kept reports whether all writes up to a mark are kept as the Policy says.
func (l *Log) Kept(at Mark) bool {
	if l.cfg.Sync != Always {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept >= at
}

func (l *Log) whenSynced(at Mark, fn func(error)) {
	l.mu.Lock()
	err, now := l.err, l.kept >= at || l.err != nil
	if !now {
		l.keeps = append(l.keeps, keep{at, fn})
	} else if l.kept >= at {
		err = nil
	}
	l.mu.Unlock()
	if now {
		fn(err)
	}
}

// change changes the state that others wait for, and calls those for whom it is time.
func (l *Log) change(fn func()) {
	l.mu.Lock()
	fn()
	stalled := l.err == nil && (l.late || len(l.buf) >= room)
	l.stalled.Store(stalled)
	l.behind.Store(len(l.buf) >= most)
	var ready []func()
	if !stalled {
		ready, l.ready = l.ready, nil
	}
	var now, later []keep
	for _, k := range l.keeps {
		if k.at <= l.kept || l.err != nil {
			now = append(now, k)
		} else {
			later = append(later, k)
		}
	}
	l.keeps = later
	kept, err := l.kept, l.err
	l.mu.Unlock()
	for _, fn := range ready {
		fn()
	}
	for _, k := range now {
		if k.at <= kept {
			k.fn(nil)
		} else {
			k.fn(err)
		}
	}
}

// fail ends the log. Only the first call counts.
func (l *Log) fail(err error) {
	first := false
	l.change(func() {
		if first = l.err == nil; first {
			l.err = err
			l.failed.Store(&err)
		}
	})
	if first && !errors.Is(err, ErrClosed) {
		l.say(err)
	}
}

func (l *Log) say(err error) {
	if l.cfg.Report != nil {
		l.report.Lock()
		defer l.report.Unlock()
		l.cfg.Report(err)
	}
}

// Close writes and syncs what is left, and gives the folder back. It waits for a sync that hangs.
// Errors: ErrFailed, those of the system. The map stays as it is.
func (l *Log) Close() error {
	close(l.quit)
	<-l.done
	err := l.Err()
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	if l.lock != nil {
		err = errors.Join(err, l.lock.Release())
	}
	return err
}

// broken is the error of a log that could not be written or synced.
func broken(err error) error { return fmt.Errorf("%w: %w", ErrFailed, err) }
