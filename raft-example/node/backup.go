package node

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
)

// ErrBackup means that bytes are no BackupRequest or BackupPiece.
var ErrBackup = errors.New("node: malformed piece of a backup")

// BackupRequest asks for a piece of the state. The first one has Index 0; its answer names the
// index from which on a state has all that was acknowledged before. Further ones have the Index of
// the answer before. As bytes:
//
//	0 cluster u64 · 8 index u64 · 16 offset u64
type BackupRequest struct{ Cluster, Index, Offset uint64 }

// Append appends the bytes of q.
func (q *BackupRequest) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, q.Cluster)
	b = binary.LittleEndian.AppendUint64(b, q.Index)
	return binary.LittleEndian.AppendUint64(b, q.Offset)
}

// BackupPiece is the answer. With a Total of 0 the state is not ready: ask again. As bytes:
//
//	0 index u64 · 8 term u64 · 16 bytes of the whole u64 · 24 data
//
// The whole is the data of a snapshot of raft: members, and a snapshot of package kv.
type BackupPiece struct {
	Index, Term, Total uint64
	Data               []byte
}

const backupHeader = 24

// ParseBackup reads an answer; Data is a part of b. The error is ErrBackup.
func ParseBackup(b []byte) (p BackupPiece, err error) {
	if len(b) < backupHeader {
		return p, ErrBackup
	}
	p = BackupPiece{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]),
		binary.LittleEndian.Uint64(b[16:]), b[backupHeader:]}
	if uint64(len(p.Data)) > p.Total {
		return p, ErrBackup
	}
	return p, nil
}

// backup is the state that is being fetched.
type backup struct {
	s     *pb.Snapshot // without its data; nil: nobody fetches
	data  *chunks      // nil until it is open
	size  uint64
	next  uint64           // offset
	asks  []erpc.ReqHandle // one that waits for data, or none
	by    *erpc.Session    // of the last that asked
	until monotime.Time    // when it is let go
	last  monotime.Time    // the same, however it is asked for
}

const (
	// backupPiece is the most data of an answer.
	backupPiece = chunkSize
	// backupIdle is how long a state is held for the next request.
	backupIdle = 10 * time.Second
	// A state is held for backupLeast, and as long as its bytes take with backupRate: while it is
	// held, there is no other backup, and a replica without a disk notes what changes.
	backupLeast = time.Minute
	backupRate  = 1 << 20 // bytes a second
)

// expire lets go of a state whose client has gone or asks no more, or fetches too slowly.
func (b *backup) expire(n *Node, now monotime.Time) {
	if b.s == nil || b.data == nil || now < b.until && now < b.last && goesOn(b.by) {
		return
	}
	for _, req := range b.asks {
		n.noBackup(req, again)
	}
	b.end()
}

func (b *backup) end() {
	b.data.close()
	*b = backup{}
}

// onBackup answers with a piece of the state.
func (n *Node) onBackup(req erpc.ReqHandle) {
	b := req.Data()
	n.moved = true
	if len(b) != backupHeader {
		_ = req.RespondError(&erpc.Error{Code: erpc.CodeInvalidArgument, Text: ErrBackup.Error()})
		return
	}
	field := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	cluster, index, offset := field(0), field(1), field(2)
	held := &n.backup
	switch {
	case index > n.rep.Status().Applied: // of an earlier start of this replica, or made up
		n.noBackup(req, again)
	case cluster != n.cfg.Cluster:
		_ = req.RespondError(&erpc.Error{Code: erpc.CodeFailedPrecondition,
			Text: kv.ErrWrongCluster.Error()})
	case index == 0: // a read tells what is committed
		key, _ := kv.MakeKey("-")
		tag := n.waiting.put(req, 0)
		n.waiting.list[uint32(tag)].save = true
		if a, ok := n.rep.Read(key, true, tag); !ok {
			n.waiting.take(tag)
			n.saving(req, &a)
			return
		}
		n.work()
	case offset > 0 && (held.s.GetMetadata().GetIndex() != index || held.next != offset):
		n.noBackup(req, again)
	case held.s != nil && offset == 0 || len(held.asks) > 0:
		n.noBackup(req, "another backup is made, or was left a moment ago: try again soon")
	case offset > 0:
		held.ask(n, req)
	default:
		n.beginBackup(req, index)
	}
}

// again tells a client that its state is not held.
const again = "the state is not held any more, which is at most a minute, and a second for each " +
	"MiB: begin again"

// beginBackup opens a state as of an index, or says that there is none yet.
func (n *Node) beginBackup(req erpc.ReqHandle, index uint64) {
	s, from := n.rep.Export(index)
	if s == nil {
		n.respond(req, &BackupPiece{Index: index})
		return
	}
	held := &n.backup
	held.s = s
	if from != nil {
		held.begin(n, live{from})
		held.ask(n, req)
		return
	}
	n.cfg.Disk.Open(s, func(from Stream, err error) {
		if err != nil {
			n.backup = backup{}
			n.noBackup(req, err.Error())
			return
		}
		held.begin(n, from)
		held.ask(n, req)
	})
}

func (b *backup) begin(n *Node, from Stream) {
	b.size = from.Size()
	b.last = n.cfg.Clock().Add(backupLeast + time.Duration(b.size/backupRate)*time.Second)
	b.data = newChunks(from, func() { b.piece(n) })
}

// ask has the next piece answer a request.
func (b *backup) ask(n *Node, req erpc.ReqHandle) {
	b.until, b.by = n.cfg.Clock().Add(backupIdle), req.Session()
	b.asks = append(b.asks, req)
	b.piece(n)
}

// piece answers with the next bytes, if they are asked for and there.
func (b *backup) piece(n *Node) {
	if len(b.asks) == 0 {
		return
	}
	req, data := b.asks[0], b.data.next(backupPiece)
	switch {
	case b.data.err != nil:
		n.noBackup(req, b.data.err.Error())
		b.end()
		return
	case len(data) == 0:
		return
	}
	b.asks = nil
	b.next += uint64(len(data))
	meta := b.s.GetMetadata()
	n.respond(req, &BackupPiece{meta.GetIndex(), meta.GetTerm(), b.size, data})
	if b.next == b.size {
		b.end()
	}
}

func (n *Node) noBackup(req erpc.ReqHandle, why string) {
	n.moved = true
	_ = req.RespondError(&erpc.Error{Code: erpc.CodeUnavailable, Text: why})
}

// saving answers the first request of a backup.
func (n *Node) saving(req erpc.ReqHandle, a *kv.Answer) {
	n.moved = true
	if a.Status != kv.OK && a.Status != kv.NotFound {
		why := a.Status.Err().Error()
		if a.Status == kv.Retry {
			why = "the leader changed meanwhile; a backup changes nothing: take it again"
		}
		n.noBackup(req, "this replica does not know what is committed: "+why)
		return
	}
	n.respond(req, &BackupPiece{Index: max(n.rep.Status().Applied, 1)})
}

func (n *Node) respond(req erpc.ReqHandle, p *BackupPiece) {
	n.moved = true
	buf, err := req.Alloc(backupHeader + len(p.Data))
	if err != nil {
		return // the client's request ends by its deadline
	}
	b := binary.LittleEndian.AppendUint64(buf.Data()[:0], p.Index)
	b = binary.LittleEndian.AppendUint64(b, p.Term)
	b = binary.LittleEndian.AppendUint64(b, p.Total)
	_ = append(b, p.Data...)
	if req.Respond(buf) != nil {
		buf.Free()
	}
}
