package node

import (
	"fmt"
	"io"

	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// own is a snapshot of this replica on its way to the disk, a chunk in each pass of the loop.
type own struct {
	n    *Node
	s    *pb.Snapshot
	from *kv.Saver
	left uint64
	sink Sink // nil before the first chunk
	free [][]byte
	out  int // chunks under way
}

// chunksOut is how many may be.
const chunksOut = 2

// Prepare implements replica.Host.
func (n *Node) Prepare(s *pb.Snapshot, from *kv.Saver) {
	n.own = &own{n: n, s: s, from: from, left: from.Size()}
}

// step gives the next chunk to the disk. It reports whether there is another one for the next pass.
func (o *own) step() (more bool) {
	if o == nil || o.n.compacting || o.left == 0 || o.out == chunksOut {
		return false
	}
	if o.sink == nil {
		o.sink = o.n.cfg.Disk.Prepare(o.left)
	}
	var b []byte
	if n := len(o.free); n > 0 {
		b, o.free = o.free[n-1], o.free[:n-1]
	} else {
		b = make([]byte, min(chunkSize, o.left))
	}
	b = b[:min(uint64(len(b)), o.left)]
	if _, err := io.ReadFull(o.from, b); err != nil {
		o.end(err)
		return false
	}
	o.left -= uint64(len(b))
	o.out++
	o.sink.Write(b, func(err error) {
		o.out--
		if o.free = append(o.free, b); err != nil {
			o.end(err)
		}
	})
	if o.left == 0 {
		o.sink.Commit(o.s, o.end)
	}
	return o.left > 0 && o.out < chunksOut
}

// end tells the replica that the snapshot is on the disk, or cannot be.
func (o *own) end(err error) {
	n := o.n
	if n.own != o {
		return
	}
	if n.own = nil; err != nil {
		o.from.End()
		o.sink.Abort()
	}
	n.rep.Prepared(err)
	n.work()
}

// Compact implements replica.Host. The next snapshot waits until this one is in its place.
func (n *Node) Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry) {
	n.compacting = true
	n.cfg.Disk.Compact(s, hard, entries, func(err error) {
		if n.compacting = false; err != nil {
			n.fail(fmt.Errorf("node: the snapshot could not be written: %w", err))
		}
	})
}
