package node

import (
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	pb "go.etcd.io/raft/v3/raftpb"
)

// appends are the MsgApps to a peer. Raft sends at once all that it may, and all again when one is
// refused that came before those it follows, or when a request has failed. On a slow path the
// copies would be more than it carries. So appends of half a window of the session, or of a piece,
// travel alone: until their request is answered no others leave, and then a piece of those that
// wait.
type appends struct {
	alone bool     // such a request is under way
	size  int      // of those in peer.buf, bytes
	later [][]byte // those that wait, by piece
	end   uint64   // the index behind which later ends
}

// loneTicks is the time of such a request, in ticks. While its session lives it comes forward.
const loneTicks = 500

// waits takes an append that raft sends, and reports whether it waits. One that begins before the
// end of those that wait takes their place: raft knows by now that they are in vain.
func (a *appends) waits(m *pb.Message) bool {
	n := replica.Size(m)
	if !a.alone && len(a.later) == 0 && (a.size == 0 || a.size+n <= pieceSize) {
		a.size += n
		return false
	}
	if m.GetIndex() < a.end {
		a.later = a.later[:0]
	}
	last := len(a.later) - 1
	if last < 0 || len(a.later[last])+n > pieceSize {
		a.later = append(a.later, nil)
		last++
	}
	a.later[last] = replica.AppendMessage(a.later[last], m)
	a.end = m.GetIndex() + uint64(len(m.Entries))
	return true
}

// lone reports whether the appends in peer.buf travel alone: so do those before others that wait.
func (p *peer) lone() bool {
	a, least := &p.appends, pieceSize
	if p.sess != nil && p.sess.Connected() {
		least = min(least, p.sess.Window()*p.sess.Params().PerPacket/2)
	}
	return a.size >= least || a.size > 0 && len(a.later) > 0
}

// onAlone takes the answer to appends that travelled alone, and goes on with those that wait.
func (p *peer) onAlone(c erpc.Completion) {
	a := &p.appends
	p.onDone(c)
	if a.alone = false; len(a.later) == 0 {
		return
	}
	p.buf, a.size = append(p.buf, a.later[0]...), len(a.later[0])
	a.later = a.later[1:]
	p.touch()
	p.n.work()
}
