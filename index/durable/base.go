package durable

import "errors"

const (
	blockSize    = 64 << 10 // of a base's frame, about
	syncedAtOnce = 4 << 20  // one sync of all of a base would hold up those of the log
)

// errStopped ends a snapshot.
var errStopped = errors.New("durable: stopped")

// writeBase writes a snapshot as base n, and removes what it replaces. The size is 0 if it is not
// in place.
func (s *Store[V]) writeBase(id identity, stop func() bool) (size int64, err error) {
	id.role = baseFile
	f, err := newSink(s.on, id)
	if err != nil {
		return 0, err
	}
	err = s.scan(f, stop)
	if err == nil {
		err = f.finish()
	}
	if err == nil {
		err = s.syncAll()
	}
	if err == nil {
		err = f.install()
	}
	if err != nil {
		return 0, errors.Join(err, f.discard())
	}
	return f.size, s.clean(id.n, false)
}

// scan writes what the map has.
func (s *Store[V]) scan(f *sink, stop func() bool) (err error) {
	b := make([]byte, frameSize)
	for key, value := range s.m.Ascend(nil) {
		b = s.values.append(appendKey(b, Put, key), value)
		if len(b) < s.cfg.block {
			continue
		}
		if stop() {
			return errStopped
		}
		if b, err = f.frame(b, 0); err == nil && f.size-f.synced >= syncedAtOnce {
			err = f.sync()
		}
		if err != nil {
			return err
		}
		b = b[:frameSize]
	}
	if len(b) > frameSize {
		_, err = f.frame(b, 0)
	}
	return err
}

// syncAll waits until all records are synced that there are now.
func (s *Store[V]) syncAll() error {
	if s.done == nil { // there is no log yet
		return nil
	}
	s.mu.Lock()
	at := s.end
	s.mu.Unlock()
	done := make(chan error, 1)
	s.whenSynced(at, func(err error) { done <- err })
	tell(s.Log.sync)
	if <-done != nil { // it has been told
		return errStopped
	}
	return nil
}

// clean removes what base n replaces, and files that nobody will complete: all that are not
// complete when the folder is opened.
func (l *Log) clean(n uint64, opened bool) error {
	found, err := survey(l.on)
	if err != nil {
		return err
	}
	for _, f := range found {
		old := f.id.n < n || f.id.n == n && f.id.role == logFile
		if old || f.new && opened {
			err = errors.Join(err, l.on.remove(f.name))
		}
	}
	return err
}
