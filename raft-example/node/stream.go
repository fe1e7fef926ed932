package node

import (
	"io"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// Stream gives out the data of a snapshot, in order. It belongs to the Rpc's thread.
type Stream interface {
	// Size is how many bytes there are.
	Size() uint64
	// Next fills b, which must not have more than what is left, and calls done: before it returns, or
	// later. There is one at a time.
	Next(b []byte, done func(error))
	// Close ends it; what is under way is not done.
	Close()
}

// Sink takes a snapshot beside the present one on a disk. It belongs to the Rpc's thread, in which
// each done is called, later, in their order. After an error there is only Abort.
type Sink interface {
	// Write appends b, which must not change until it is done.
	Write(b []byte, done func(error))
	// Commit ends the snapshot, which is whole, and makes it durable.
	Commit(s *pb.Snapshot, done func(error))
	// Abort removes what is written, unless it is committed.
	Abort()
}

// live is the state of a replica without a disk, as of when it began.
type live struct{ *kv.Saver }

// Next implements Stream.
func (s live) Next(b []byte, done func(error)) {
	_, err := io.ReadFull(s.Saver, b)
	done(err)
}

// Close implements Stream.
func (s live) Close() { s.End() }

// chunkSize is how much of a snapshot is moved in one step: some hundred microseconds of the loop.
const chunkSize = 256 << 10

// chunks reads a Stream, a chunk ahead.
type chunks struct {
	from    Stream
	left    uint64   // bytes that were not asked for
	ready   [][]byte // chunks, in their order
	at      int      // what is before it in the first one was given out
	free    [][]byte
	reading bool
	closed  bool
	err     error  // there is no more
	more    func() // there is more, or an error
}

func newChunks(from Stream, more func()) *chunks {
	c := &chunks{from: from, left: from.Size(), more: more}
	c.fetch()
	return c
}

// fetch asks for the next chunk, unless two are there.
func (c *chunks) fetch() {
	if c.reading || c.closed || c.err != nil || c.left == 0 || len(c.ready) > 1 {
		return
	}
	var b []byte
	if n := len(c.free); n > 0 {
		b, c.free = c.free[n-1], c.free[:n-1]
	} else {
		b = make([]byte, min(chunkSize, c.left))
	}
	b = b[:min(uint64(cap(b)), c.left)]
	c.left -= uint64(len(b))
	c.reading = true
	inside := true
	c.from.Next(b, func(err error) {
		if c.reading, c.err = false, err; err == nil {
			c.ready = append(c.ready, b)
		}
		if !inside && !c.closed {
			c.more()
		}
	})
	inside = false
}

// next returns the next n bytes, or those that a chunk has at the end; none if they are not there
// yet, or there was an error. They may be read until the next call. n must divide chunkSize.
func (c *chunks) next(n int) []byte {
	if len(c.ready) > 0 && c.at == len(c.ready[0]) {
		c.free = append(c.free, c.ready[0])
		c.ready, c.at = append(c.ready[:0], c.ready[1:]...), 0
	}
	c.fetch()
	if len(c.ready) == 0 {
		return nil
	}
	b := c.ready[0][c.at:]
	b = b[:min(n, len(b))]
	c.at += len(b)
	return b
}

func (c *chunks) close() {
	if !c.closed {
		c.closed = true
		c.from.Close()
	}
}
