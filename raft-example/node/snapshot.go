package node

import (
	"encoding/binary"

	"github.com/userspace-rpc/erpc/erpc"
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
	data   []byte
	next   int // offset
	out    int
	failed bool
}

// receipt is a snapshot that comes in.
type receipt struct {
	id    uint64
	total uint64
	data  []byte
	got   uint64
}

// sendSnapshot begins a transfer; the peer has one at a time.
func (p *peer) sendSnapshot(m *pb.Message) {
	n := p.n
	if p.snap != nil && !p.snap.failed {
		n.rep.SnapshotSent(p.id, false)
		return
	}
	id := uint64(1)
	if p.snap != nil {
		id = p.snap.id + 1
	}
	head := proto.Clone(&pb.Message{Type: m.Type, To: m.To, From: m.From, Term: m.Term,
		Snapshot: &pb.Snapshot{Metadata: m.GetSnapshot().GetMetadata()}}).(*pb.Message)
	p.snap = &transfer{id: id ^ uint64(n.cfg.Clock())<<8, m: head, data: m.GetSnapshot().GetData()}
	p.pieces()
}

// pieces sends as many as may be under way. The last one, with the message, leaves alone.
func (p *peer) pieces() {
	n, t := p.n, p.snap
	for !t.failed && t.out < piecesOut && t.next < len(t.data) {
		size := min(pieceSize, len(t.data)-t.next)
		var head []byte
		if t.next+size == len(t.data) {
			if t.out > 0 {
				return
			}
			head, _ = proto.Marshal(t.m)
		}
		if !p.piece(t, size, head) {
			t.failed = true
			break
		}
		n.moved = true
		t.next += size
		t.out++
	}
	if t.failed && t.out == 0 {
		p.snap = nil
		n.rep.SnapshotSent(p.id, false)
	}
}

func (p *peer) piece(t *transfer, size int, head []byte) bool {
	n := p.n
	s := p.session()
	if s == nil || p.mute(s) {
		return false
	}
	req, err := n.rpc.Alloc(pieceHeader + len(head) + size)
	if err != nil {
		return false
	}
	b := n.appendHeader(req.Data()[:0], n.announce(), p.id)
	b = binary.LittleEndian.AppendUint64(b, t.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(t.data)))
	b = binary.LittleEndian.AppendUint64(b, uint64(t.next))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, head...)
	_ = append(b, t.data[t.next:t.next+size]...)
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
	if p.snap != t {
		return
	}
	if !t.failed && t.next == len(t.data) {
		p.snap = nil
		n.rep.SnapshotSent(p.id, true)
	} else {
		p.pieces()
	}
	n.work()
}

// onSnap takes a piece of a snapshot; with the last one, the message goes to the replica.
func (n *Node) onSnap(req erpc.ReqHandle) {
	p, _, verdict := n.checkRequest(req.Session(), req.Data())
	if verdict == taken {
		verdict = n.takePiece(p, req.Data())
	}
	if verdict != taken {
		n.refuse(req, verdict)
		return
	}
	n.moved = true
	_ = req.RespondBytes(n.appendHeader(nil, taken, p.id))
	n.work()
}

func (n *Node) takePiece(p *peer, b []byte) (verdict uint64) {
	if len(b) < pieceHeader {
		return malformed
	}
	id, total, offset := binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:]),
		binary.LittleEndian.Uint64(b[56:])
	size := uint64(binary.LittleEndian.Uint32(b[64:]))
	body := b[pieceHeader:]
	if size > uint64(len(body)) || total > uint64(n.cfg.MaxSnapshot) {
		return malformed
	}
	head, data := body[:size], body[size:]
	g := &p.get
	if g.id != id {
		*g = receipt{id: id, total: total}
	}
	end := offset + uint64(len(data))
	// Pieces come nearly in order: memory grows with what has come, up to sixteenfold, not with
	// what is announced.
	if total != g.total || end < offset || end > total || len(data) == 0 || offset%pieceSize != 0 ||
		offset > uint64(len(g.data))+piecesOut*pieceSize {
		return malformed
	}
	if end > uint64(cap(g.data)) { // rarely, since what is there is copied
		room := min(total, max(16*end, 1<<20))
		g.data = append(make([]byte, 0, room), g.data...)
	}
	g.data = g.data[:max(end, uint64(len(g.data)))]
	copy(g.data[offset:], data)
	g.got += uint64(len(data))
	if size == 0 {
		return taken
	}
	m := &pb.Message{}
	whole := g.got == g.total && end == g.total
	got := g.data
	*g = receipt{}
	if !whole || proto.Unmarshal(head, m) != nil || m.GetType() != pb.MsgSnap || m.GetFrom() != p.id ||
		m.GetTo() != n.cfg.ID || m.GetSnapshot().GetMetadata().GetConfState() == nil {
		return malformed
	}
	m.Snapshot.Data = got
	n.rep.Step(m)
	return taken
}
