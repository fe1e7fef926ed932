package node

import (
	"errors"
	"io"
	"sync"

	"github.com/userspace-rpc/erpc/raft-example/wal"
	pb "go.etcd.io/raft/v3/raftpb"
)

// fileSink writes a snapshot in a goroutine. It belongs to the Rpc's thread but for run.
type fileSink struct {
	f     *Files
	ops   chan sinkOp
	ended bool
}

// sinkOp is a Write or, with meta, a Commit.
type sinkOp struct {
	b    []byte
	meta *pb.SnapshotMetadata
	done func(error)
}

// mostOps is more than a sink has under way.
const mostOps = 4 * piecesOut

// newSink begins a snapshot of an origin. An earlier one of it comes to its end first.
func (f *Files) newSink(o wal.Origin, size uint64) Sink {
	s := &fileSink{f: f, ops: make(chan sinkOp, mostOps)}
	f.sinks[s] = true
	f.side.Go(func() { s.run(&f.origins[o], o, size) })
	return s
}

// Prepare implements Disk.
func (f *Files) Prepare(size uint64) Sink { return f.newSink(wal.Own, size) }

// Receive implements Disk.
func (f *Files) Receive(size uint64) Sink { return f.newSink(wal.Leader, size) }

// run does what is asked for, until there is no more.
func (s *fileSink) run(mu *sync.Mutex, o wal.Origin, size uint64) {
	mu.Lock()
	defer mu.Unlock()
	w, err := s.f.dir.Prepare(o, size)
	open := err == nil
	for op := range s.ops {
		switch {
		case err != nil:
		case op.meta != nil:
			err, open = w.Commit(op.meta), false
		default:
			_, err = w.Write(op.b)
		}
		_ = s.f.post(op.done, err)
	}
	if open {
		_ = w.Abort() // there was an error before, or nobody wants it
	}
}

// Write implements Sink.
func (s *fileSink) Write(b []byte, done func(error)) { s.ops <- sinkOp{b: b, done: done} }

// Commit implements Sink.
func (s *fileSink) Commit(snap *pb.Snapshot, done func(error)) {
	s.ops <- sinkOp{meta: snap.GetMetadata(), done: done}
	s.Abort() // comes behind it
}

// Abort implements Sink.
func (s *fileSink) Abort() {
	if !s.ended {
		s.ended = true
		delete(s.f.sinks, s)
		close(s.ops)
	}
}

// fileStream reads a snapshot file, each time in a goroutine.
type fileStream struct {
	f       *Files
	s       *wal.Snapshot
	reading bool
	closed  bool
}

// Open implements Disk.
func (f *Files) Open(snap *pb.Snapshot, done func(Stream, error)) {
	f.side.Go(func() {
		s, err := f.dir.Snapshot(snap.GetMetadata().GetIndex())
		t := &fileStream{f: f, s: s}
		posted := f.post(func(err error) {
			if err != nil {
				done(nil, err)
				return
			}
			f.streams[t] = true
			done(t, nil)
		}, err)
		if err == nil && posted != nil { // the loop has ended
			_ = s.Close()
		}
	})
}

// Size implements Stream.
func (t *fileStream) Size() uint64 { return t.s.Size() }

// Next implements Stream.
func (t *fileStream) Next(b []byte, done func(error)) {
	t.reading = true
	t.f.side.Go(func() {
		_, err := io.ReadFull(t.s, b)
		_ = t.f.post(func(err error) {
			if t.reading = false; t.closed {
				t.close()
			}
			done(err)
		}, err)
	})
}

// Close implements Stream.
func (t *fileStream) Close() {
	if t.closed = true; !t.reading {
		t.close()
	}
}

// close closes the file, which takes long if it is large and was replaced: it goes then.
func (t *fileStream) close() {
	delete(t.f.streams, t)
	t.f.side.Go(func() { _ = t.s.Close() }) // it was only read
}

// Close waits for what is under way. The loop must not run any more.
func (f *Files) Close() error {
	if f.stop != nil {
		close(f.stop)
	}
	for s := range f.sinks {
		s.Abort()
	}
	f.side.Wait()
	var list []error
	for t := range f.streams {
		list = append(list, t.s.Close())
	}
	close(f.jobs)
	if f.rpc != nil {
		<-f.ended
	}
	return errors.Join(append(list, f.start.Close(), f.dir.Close())...)
}
