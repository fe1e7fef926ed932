package shm

import (
	"sync/atomic"

	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// queue bounds completions that nobody has polled.
const queue = 1024

// Link is one side of a connection.
type Link struct {
	own, peer []onesided.Spec
	mem, far  [][]byte // own regions, and the peer's where this side may reach them
	done      [queue]onesided.Completion
	head, n   int
	closed    bool
	gone      atomic.Bool // the peer's process has ended, or its link
	free      func()      // ends socket and mappings
}

var _ onesided.Link = (*Link)(nil)

// Region returns own memory.
func (l *Link) Region(i int) []byte { return l.mem[i] }

// Peer returns the peer's regions.
func (l *Link) Peer() []onesided.Spec { return l.peer }

// View returns the peer's region in place.
func (l *Link) View(i int) []byte { return l.inPlace(i, onesided.PeerReads) }

// Window returns the peer's region in place, for stores.
func (l *Link) Window(i int) []byte { return l.inPlace(i, onesided.PeerWrites) }

func (l *Link) inPlace(i int, need onesided.Access) []byte {
	if i < 0 || i >= len(l.peer) || l.peer[i].Access&need == 0 {
		return nil
	}
	return l.far[i]
}

// Err says why the link has ended.
func (l *Link) Err() error {
	if l.closed {
		return onesided.ErrClosed
	}
	if l.gone.Load() {
		return onesided.ErrPeer
	}
	return nil
}

// Post carries the operations out.
func (l *Link) Post(b *onesided.Batch) error {
	if err := l.Err(); err != nil {
		return err
	}
	signals := 0
	for i := range b.Ops {
		if err := b.Ops[i].Check(l.own, l.peer); err != nil {
			return err
		}
		if b.Ops[i].Signal {
			signals++
		}
	}
	if l.n+signals > queue {
		return onesided.ErrFull
	}
	for i := range b.Ops {
		op := &b.Ops[i]
		here := l.mem[op.Local][op.At : op.At+op.Size]
		there := l.far[op.Remote][op.To : op.To+op.Size]
		if op.Read {
			copy(here, there)
		} else {
			onesided.Copy(there, here)
		}
		if op.Signal {
			l.done[(l.head+l.n)%queue] = onesided.Completion{ID: op.ID}
			l.n++
		}
	}
	return nil
}

// Poll takes completions.
func (l *Link) Poll(list []onesided.Completion) int {
	n := min(len(list), l.n)
	for i := range n {
		list[i] = l.done[l.head]
		l.head = (l.head + 1) % queue
	}
	l.n -= n
	return n
}

// Close ends the link.
func (l *Link) Close() error {
	if !l.closed {
		l.closed = true
		l.free()
	}
	return nil
}
