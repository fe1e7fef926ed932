package simtest

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/wal"
	"github.com/userspace-rpc/erpc/transport/sim"
	pb "go.etcd.io/raft/v3/raftpb"
)

// sink is a snapshot that is written to a simulated disk. A crash leaves nothing of it.
type sink struct {
	d    *disk
	o    wal.Origin
	gen  int
	size uint64
	data []byte
	free sim.Time // when what is under way is done
	over bool
}

// Prepare implements node.Disk. It takes much longer than a write.
func (d *disk) Prepare(size uint64) node.Sink { return d.newSink(wal.Own, size) }

// Receive implements node.Disk.
func (d *disk) Receive(size uint64) node.Sink { return d.newSink(wal.Leader, size) }

func (d *disk) newSink(o wal.Origin, size uint64) node.Sink {
	d.beside[o] = nil
	return &sink{d: d, o: o, gen: d.gen, size: size}
}

// after does something later, behind what came before, unless the process has ended.
func (s *sink) after(takes time.Duration, do func()) {
	c := s.d.s.c
	if s.d.s.down {
		return
	}
	s.free = max(s.free, c.net.Now()).Add(takes + s.d.hangs())
	c.net.After(s.free.Sub(c.net.Now()), func() {
		if s.d.gen == s.gen {
			do()
			s.d.s.ep.Wake()
		}
	})
}

// Write implements node.Sink.
func (s *sink) Write(b []byte, done func(error)) {
	s.after(s.d.takes()/4, func() {
		s.data = append(s.data, b...)
		done(nil)
	})
}

// Commit implements node.Sink.
func (s *sink) Commit(snap *pb.Snapshot, done func(error)) {
	s.after(5*s.d.takes(), func() {
		var err error
		if uint64(len(s.data)) != s.size {
			err = fmt.Errorf("%d bytes of %d", len(s.data), s.size)
		} else if !s.over {
			s.d.beside[s.o] = &pb.Snapshot{Data: s.data, Metadata: snap.GetMetadata()}
		}
		done(err)
	})
}

// Abort implements node.Sink.
func (s *sink) Abort() { s.over = true }

// stream gives out a snapshot of a simulated disk.
type stream struct {
	d    *disk
	data io.Reader
	size uint64
	gen  int
}

// Open implements node.Disk.
func (d *disk) Open(snap *pb.Snapshot, done func(node.Stream, error)) {
	t := &stream{d: d, gen: d.gen}
	t.later(func() {
		index := snap.GetMetadata().GetIndex()
		if b := d.beside[wal.Own]; b.GetMetadata().GetIndex() == index {
			t.data, t.size = bytes.NewReader(b.GetData()), uint64(len(b.GetData()))
			done(t, nil)
			return
		}
		s, err := wal.ReadSnapshot(bytes.NewReader(slices.Clone(d.snap)), d.id)
		if err == nil && s.Meta.GetIndex() != index {
			err = fmt.Errorf("no snapshot at %d", index)
		}
		if err != nil {
			done(nil, err)
			return
		}
		t.data, t.size = s, s.Size()
		done(t, nil)
	})
}

func (t *stream) later(do func()) {
	c := t.d.s.c
	c.net.After(t.d.takes()/4+t.d.hangs(), func() {
		if t.d.gen == t.gen && !t.d.s.down {
			do()
			t.d.s.ep.Wake()
		}
	})
}

// Size implements node.Stream.
func (t *stream) Size() uint64 { return t.size }

// Next implements node.Stream.
func (t *stream) Next(b []byte, done func(error)) {
	t.later(func() {
		_, err := io.ReadFull(t.data, b)
		done(err)
	})
}

// Close implements node.Stream.
func (t *stream) Close() {}

// installed returns what a Save or Compact puts in its place.
func (d *disk) installed(o wal.Origin, s *pb.Snapshot) *pb.Snapshot {
	b := d.beside[o]
	if b.GetMetadata().GetIndex() != s.GetMetadata().GetIndex() {
		d.s.c.t.Errorf("replica %d: the snapshot at %d is not prepared, one at %d is", d.s.id,
			s.GetMetadata().GetIndex(), b.GetMetadata().GetIndex())
	}
	return b
}
