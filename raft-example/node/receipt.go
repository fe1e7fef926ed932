package node

import (
	"encoding/binary"
	"fmt"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// receipt is a snapshot that comes in. Its state is read as it comes, and with a disk written; only
// then raft hears of it. There is one at a time: a new one takes the place of one that goes on no
// more, or of an earlier leader.
type receipt struct {
	n     *Node
	p     *peer
	id    uint64
	total uint64
	next  uint64 // offset
	state *replica.Reader
	sink  Sink // nil without a disk
	ahead []erpc.ReqHandle
	free  [][]byte
	out   int // writes under way
	until monotime.Time
	over  bool
}

// piece is one that came.
type piece struct {
	id, total, offset uint64
	head, data        []byte
}

func parsePiece(b []byte) (c piece, ok bool) {
	if len(b) < pieceHeader {
		return c, false
	}
	c.id, c.total = binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])
	c.offset = binary.LittleEndian.Uint64(b[56:])
	size, body := uint64(binary.LittleEndian.Uint32(b[64:])), b[pieceHeader:]
	if size > uint64(len(body)) {
		return c, false
	}
	c.head, c.data = body[:size], body[size:]
	n := uint64(len(c.data))
	return c, n > 0 && n <= c.total && c.offset <= c.total-n && c.offset%pieceSize == 0
}

// onSnap takes a piece of a snapshot; with the last one, the message goes to the replica.
func (n *Node) onSnap(req erpc.ReqHandle) {
	p, _, verdict := n.checkRequest(req.Session(), req.Data())
	if verdict == taken {
		verdict = malformed
		if c, ok := parsePiece(req.Data()); ok {
			if g := n.receive(p, &c); g != nil {
				g.take(req, &c)
				return
			}
		}
	}
	n.refuse(req, verdict)
}

// receive returns the receipt that a piece belongs to, nil if there is none.
func (n *Node) receive(p *peer, c *piece) *receipt {
	g := n.get
	if g != nil && g.p == p && g.id == c.id {
		if g.total == c.total && g.out < 2*piecesOut && c.offset >= g.next &&
			c.offset <= g.next+piecesOut*pieceSize {
			return g
		}
		return nil
	}
	// Pieces come nearly in order, so one of a new transfer is of its beginning.
	if c.offset > piecesOut*pieceSize || n.rep.Restoring() {
		return nil
	}
	if g != nil {
		g.end()
	}
	g = &receipt{n: n, p: p, id: c.id, total: c.total, state: replica.NewReader(c.total)}
	if n.cfg.Disk != nil {
		g.sink = n.cfg.Disk.Receive(c.total)
	}
	n.get = g
	return g
}

// take takes a piece whose turn it is, and those that have come before their turn.
func (g *receipt) take(req erpc.ReqHandle, c *piece) {
	g.n.moved = true
	g.until = g.n.cfg.Clock().Add(10 * g.n.rep.ElectionTimeout())
	if c.offset != g.next {
		if len(g.ahead) >= piecesOut {
			g.n.refuse(req, malformed)
			return
		}
		g.ahead = append(g.ahead, req)
		return
	}
	for ok := true; ok && !g.over; {
		g.add(req, c)
		ok = false
		for i, r := range g.ahead {
			if next, whole := parsePiece(r.Data()); whole && next.offset == g.next {
				req, c, ok = r, &next, true
				g.ahead = append(g.ahead[:i], g.ahead[i+1:]...)
				break
			}
		}
	}
}

// add takes the next piece, and answers when it is written.
func (g *receipt) add(req erpc.ReqHandle, c *piece) {
	g.next += uint64(len(c.data))
	_, err := g.state.Write(c.data)
	m := g.message(c)
	if err != nil || g.next == g.total && m == nil || g.next < g.total && len(c.head) > 0 {
		g.n.refuse(req, malformed)
		g.end()
		return
	}
	if g.sink == nil {
		if m != nil {
			g.whole(m)
		}
		g.answer(req, taken)
		return
	}
	b := g.buffer(c.data)
	g.out++
	g.sink.Write(b, func(err error) {
		g.out--
		g.free = append(g.free, b)
		if g.written(req, err) && m == nil {
			g.answer(req, taken)
		}
	})
	if m != nil {
		g.sink.Commit(m.GetSnapshot(), func(err error) {
			if !g.over && g.written(req, err) {
				g.whole(m)
				g.answer(req, taken)
			}
		})
	}
}

// message returns the message in the last piece, nil if there is none or it is none.
func (g *receipt) message(c *piece) *pb.Message {
	m := &pb.Message{}
	if g.next < g.total || proto.Unmarshal(c.head, m) != nil || m.GetType() != pb.MsgSnap ||
		m.GetFrom() != g.p.id || m.GetTo() != g.n.cfg.ID || len(m.GetSnapshot().GetData()) > 0 ||
		m.GetSnapshot().GetMetadata().GetConfState() == nil {
		return nil
	}
	return m
}

// buffer returns a copy of what is to be written in another goroutine.
func (g *receipt) buffer(data []byte) []byte {
	var b []byte
	if n := len(g.free); n > 0 {
		b, g.free = g.free[n-1], g.free[:n-1]
	}
	return append(b[:0], data...)
}

// written reports whether the disk has taken a piece. One that cannot is the end of the replica.
func (g *receipt) written(req erpc.ReqHandle, err error) bool {
	if err != nil && !g.over {
		g.n.fail(fmt.Errorf("node: the leader's snapshot could not be written: %w", err))
		g.end()
	}
	if err != nil || g.over {
		g.answer(req, malformed)
		return false
	}
	return true
}

func (g *receipt) answer(req erpc.ReqHandle, verdict uint64) {
	g.n.moved = true
	_ = req.RespondBytes(g.n.appendHeader(nil, verdict, g.p.id))
}

// whole gives the replica a snapshot of which all has come.
func (g *receipt) whole(m *pb.Message) {
	g.over = true
	g.n.get = nil
	g.n.rep.Restore(m, g.state) // else the leader sends it again
	g.n.work()
}

// end drops what has come.
func (g *receipt) end() {
	g.over = true
	g.state = nil
	if g.n.get = nil; g.sink != nil {
		g.sink.Abort()
	}
	for _, req := range g.ahead {
		g.answer(req, malformed)
	}
	g.ahead = nil
}

// expire drops a snapshot whose sender goes on no more.
func (n *Node) expire(now monotime.Time) {
	if n.get != nil && now >= n.get.until {
		n.get.end()
	}
}
