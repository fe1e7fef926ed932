package durable

import (
	"errors"
	"fmt"
	"time"
)

// writer holds the state of the goroutine that writes a log. Nobody else touches it.
type writer struct {
	log     *sink
	spare   []byte
	written Mark // records that are written
	synced  Mark // records that are synced

	began   time.Time        // the last sync
	syncing bool             // it goes on
	results chan error       // of it
	covers  Mark             // records that it syncs
	upTo    int64            // bytes that it syncs
	late    *time.Timer      // it takes too long
	due     <-chan time.Time // the next one
	wanted  bool             // ... for a snapshot

	behind   int64 // bytes of complete logs that the last base does not have
	base     int64 // its size
	snapshot chan snapshot
	snapping int64 // of behind, what the snapshot under way has
}

// snapshot is the end of a snapshot.
type snapshot struct {
	size int64
	err  error
}

// second is the time between syncs, and after which one is too slow.
const second = time.Second

func (l *Log) run() {
	w := &l.writer
	w.results = make(chan error, 1)
	w.spare = make([]byte, frameSize)
	defer close(l.done)
	for {
		select {
		case <-l.wake:
			if l.cfg.Sync != Always {
				time.Sleep(gather)
			}
			l.flush()
		case <-w.due:
			w.due = nil
			l.beginSync()
		case err := <-w.results:
			l.endSync(err)
		case <-l.sync:
			w.wanted = true
			l.flush()
		case s := <-w.snapshot:
			l.endSnapshot(s)
		case <-l.quit:
			l.finish()
			return
		}
		l.plan()
	}
}

// finish writes and syncs all that is left.
func (l *Log) finish() {
	w := &l.writer
	l.flush()
	if w.syncing {
		l.endSync(<-w.results)
	}
	if l.Err() == nil {
		if err := w.log.finish(); err != nil {
			l.fail(broken(err))
		} else {
			l.keep(w.written)
		}
	}
	l.fail(ErrClosed) // who waits is told, a snapshot too
	if w.snapshot != nil {
		l.endSnapshot(<-w.snapshot)
	}
	if err := w.log.close(); err != nil && errors.Is(l.Err(), ErrClosed) {
		l.say(err)
	}
}

// flush writes the buffer.
func (l *Log) flush() {
	w := &l.writer
	var b []byte
	var end Mark
	l.change(func() {
		b, end = l.buf, l.end
		l.buf = w.spare
	})
	if len(b) > frameSize && l.Err() == nil {
		var err error
		if b, err = w.log.frame(b, 0); err != nil {
			l.fail(broken(err))
		}
		w.written = end
	}
	if w.spare = b[:frameSize]; cap(b) > room {
		w.spare = make([]byte, frameSize)
	}
}

// plan says when the next sync is to begin.
func (l *Log) plan() {
	w := &l.writer
	full := w.log.size >= l.cfg.size
	switch {
	case l.Err() != nil:
		w.due = nil
	case w.syncing:
	case w.wanted, full, l.cfg.Sync == Always && w.written > w.synced:
		l.beginSync()
	case l.cfg.Sync == EverySecond && w.written > w.synced && w.due == nil:
		w.due = time.After(second - time.Since(w.began))
	}
}

// beginSync syncs what is written. Writes go on.
func (l *Log) beginSync() {
	w := &l.writer
	if w.syncing || l.Err() != nil {
		return
	}
	w.syncing, w.wanted, w.due = true, false, nil
	w.began, w.covers, w.upTo = time.Now(), w.written, w.log.size
	n := l.syncs
	w.late = time.AfterFunc(second, func() {
		l.change(func() { l.late = l.syncs == n })
		l.say(fmt.Errorf("durable: a sync has taken longer than %v: writes wait for it", second))
	})
	f := w.log.f
	go func() { w.results <- f.Sync() }()
}

// endSync takes the end of a sync.
func (l *Log) endSync(err error) {
	w := &l.writer
	w.syncing = false
	w.late.Stop()
	l.change(func() { l.late, l.syncs = false, l.syncs+1 })
	if err != nil {
		l.fail(broken(err))
	}
	if l.Err() != nil {
		return
	}
	w.log.synced = w.upTo
	l.keep(w.covers)
	switch {
	case w.log.size >= l.cfg.size:
		if err := l.turn(); err != nil {
			l.fail(broken(err))
		}
	case w.upTo == w.log.size: // nothing has come meanwhile
		if _, err := w.log.frame(make([]byte, frameSize), 0); err != nil {
			l.fail(broken(err))
		}
	}
}

// keep says that records are synced.
func (l *Log) keep(upTo Mark) {
	l.writer.synced = upTo
	l.change(func() { l.kept = upTo })
}

// turn begins the next log, and a snapshot if there is much behind the last one.
func (l *Log) turn() error {
	w := &l.writer
	if err := w.log.finish(); err != nil {
		return err
	}
	l.keep(w.written)
	old := w.log
	id := old.id
	id.n++
	next, err := newSink(l.on, id)
	if err != nil {
		return err
	}
	w.log = next
	if err := errors.Join(next.installLog(), old.close()); err != nil {
		return err
	}
	w.behind += old.size
	if w.snapshot == nil && w.behind >= max(l.cfg.size, w.base) {
		w.snapping, w.snapshot = w.behind, make(chan snapshot, 1)
		c := w.snapshot
		go func() {
			size, err := l.base(old.id.n, func() bool { return l.Err() != nil })
			c <- snapshot{size, err}
		}()
	}
	return nil
}

// endSnapshot takes the end of a snapshot.
func (l *Log) endSnapshot(s snapshot) {
	w := &l.writer
	w.snapshot = nil
	if s.size > 0 { // it is in place
		w.behind -= w.snapping
		w.base = s.size
	}
	if s.err != nil && !errors.Is(s.err, errStopped) {
		l.say(fmt.Errorf("durable: no snapshot: %w", s.err))
	}
}
