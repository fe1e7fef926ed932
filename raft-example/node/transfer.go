package node

import (
	"encoding/binary"
	"errors"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A piece of a snapshot is the header and
//
//	40 transfer u64 · 48 total size u64 · 56 offset u64 · 64 size of the message u32 · 68 zero u32
//	72 the MsgSnap without its data, in the last piece only · data
const pieceHeader = 72

// pieceSize is the data in a piece, and piecesOut how many are under way.
const (
	pieceSize = 64 << 10
	piecesOut = 4
)

// transfer is a snapshot on its way to a peer.
type transfer struct {
	id     uint64
	m      *pb.Message
	data   *chunks // nil until it is open
	size   uint64
	next   uint64 // offset
	out    int    // pieces
	failed bool
}

// SendSnapshot implements replica.Host. A peer has one transfer at a time.
func (n *Node) SendSnapshot(m *pb.Message, from *kv.Saver) {
	p := n.peer(m.GetTo())
	if p == nil || p.snap != nil {
		if from != nil {
			from.End()
		}
		n.sent(m.GetTo(), false)
		return
	}
	n.transfers++
	t := &transfer{id: n.transfers ^ uint64(n.cfg.Clock())<<8, m: proto.Clone(m).(*pb.Message)}
	p.snap = t
	if from != nil {
		p.begin(t, live{from})
		return
	}
	n.cfg.Disk.Open(m.GetSnapshot(), func(s Stream, err error) {
		if err != nil {
			n.cfg.Logger.Warn("no snapshot to send", "peer", p.id, "error", err)
			p.snap = nil
			n.sent(p.id, false)
			return
		}
		p.begin(t, s)
		n.work()
	})
}

// sent tells the replica, which does not expect it in the call that sends, how a transfer ended.
func (n *Node) sent(id uint64, ok bool) { n.ended = append(n.ended, ended{id, ok}) }

// ended is how a transfer to a peer has ended.
type ended struct {
	id uint64
	ok bool
}

// tellEnded tells the replica which transfers have ended.
func (n *Node) tellEnded() {
	for _, e := range n.ended {
		n.rep.SnapshotSent(e.id, e.ok)
	}
	n.ended = n.ended[:0]
}

func (p *peer) begin(t *transfer, from Stream) {
	t.size = from.Size()
	t.data = newChunks(from, func() { p.pieces(t) })
	p.pieces(t)
}

// pieces sends as many as may be under way. The last one, with the message, leaves alone.
func (p *peer) pieces(t *transfer) {
	n := p.n
	for !t.failed && t.out < piecesOut && t.next < t.size {
		size := min(pieceSize, t.size-t.next)
		var head []byte
		if t.next+size == t.size {
			if t.out > 0 {
				return
			}
			head, _ = proto.Marshal(t.m)
		}
		b := t.data.next(pieceSize)
		if err := t.data.err; err != nil && !t.failed && !errors.Is(err, kv.ErrEnded) {
			n.cfg.Logger.Error("a snapshot for a peer could not be read", "replica", n.cfg.ID,
				"peer", p.id, "err", err)
		}
		t.failed = t.data.err != nil || len(b) > 0 && !p.piece(t, b, head)
		if t.failed || len(b) == 0 {
			break
		}
		n.moved = true
		t.next += size
		t.out++
	}
	if t.failed && t.out == 0 {
		p.end(t, false)
	}
}

// end ends a transfer.
func (p *peer) end(t *transfer, ok bool) {
	t.data.close()
	p.snap = nil
	p.n.sent(p.id, ok)
}

func (p *peer) piece(t *transfer, data, head []byte) bool {
	n := p.n
	s := p.session()
	if s == nil || p.mute(s) {
		return false
	}
	req, err := n.rpc.Alloc(pieceHeader + len(head) + len(data))
	if err != nil {
		return false
	}
	b := n.appendHeader(req.Data()[:0], n.announce(), p.id)
	b = binary.LittleEndian.AppendUint64(b, t.id)
	b = binary.LittleEndian.AppendUint64(b, t.size)
	b = binary.LittleEndian.AppendUint64(b, t.next)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, head...)
	_ = append(b, data...)
	_, err = n.rpc.EnqueueRequest(s, erpc.Request{Type: TypeSnap, Req: req,
		Timeout: 10 * n.rep.ElectionTimeout(),
		Done:    func(c erpc.Completion) { p.pieceDone(t, c) }})
	if err != nil {
		req.Free()
		return false
	}
	return true
}

func (p *peer) pieceDone(t *transfer, c erpc.Completion) {
	n := p.n
	c.Req.Free()
	t.out--
	verdict := uint64(malformed)
	if c.Err == nil {
		_, _, verdict = n.check(c.Session, c.Resp.Data())
		if verdict == taken {
			verdict = binary.LittleEndian.Uint64(c.Resp.Data())
		}
		p.heed(c.Resp.Data())
		c.Resp.Free()
	}
	if verdict != taken {
		t.failed = true
	}
	if !t.failed && t.next == t.size {
		p.end(t, true)
	} else {
		p.pieces(t)
	}
	n.tellEnded()
	n.work()
}
