package rc

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/rfp/onesided"
)

// signalEvery is how many operations without a completion have one for the queue's sake.
const signalEvery = 32

// ErrDeviceGone ends a link whose adapter is taken away.
var ErrDeviceGone = errors.New("rc: the adapter is gone")

// Link is one side of a connection.
type Link struct {
	own, peer []onesided.Spec
	conn      net.Conn
	mem       [][]byte
	mrs       []*verbs.MR
	keys      [onesided.MaxRegions]key
	cq        *verbs.CQ
	qp        *verbs.QP
	inline    int
	reads     uint32
	ends      []func() error // in the order of making

	wr       [depth]verbs.SendWR
	wc       [64]verbs.WC
	marks    [depth]mark // completions to come, a ring
	head, n  int
	queued   int // work requests in the send queue
	unsignal int // those since the last mark
	device   deviceWatch
	gone     atomic.Pointer[error] // why, as the watchers found out
	watched  chan struct{}
	err      error
}

// mark is a completion to come.
type mark struct {
	id      uint64
	retires int  // work requests that have ended with it
	wanted  bool // by the user
}

var _ onesided.Link = (*Link)(nil)

// Region returns own memory.
func (l *Link) Region(i int) []byte { return l.mem[i] }

// Peer returns the peer's regions.
func (l *Link) Peer() []onesided.Spec { return l.peer }

// View returns nil: nothing is seen in place.
func (l *Link) View(int) []byte { return nil }

// Window returns nil.
func (l *Link) Window(int) []byte { return nil }

// Err says why the link has ended.
func (l *Link) Err() error {
	if l.err == nil {
		if why := l.gone.Load(); why != nil {
			l.err = *why
		}
	}
	return l.err
}

// end is for the watchers: what one of them finds first ends the link.
func (l *Link) end(why error) { l.gone.CompareAndSwap(nil, &why) }

// watch notices the end of the peer's process.
func (l *Link) watch() {
	l.watched = make(chan struct{})
	go func() {
		defer close(l.watched)
		var b [1]byte
		_, _ = l.conn.Read(b[:]) // an honest peer sends nothing
		l.end(onesided.ErrPeer)
	}()
}

// Post starts operations.
func (l *Link) Post(b *onesided.Batch) error {
	if err := l.Err(); err != nil {
		return err
	}
	for i := range b.Ops {
		if err := b.Ops[i].Check(l.own, l.peer); err != nil {
			return err
		}
	}
	if l.queued+len(b.Ops) > depth {
		return onesided.ErrFull
	}
	for i := range b.Ops {
		l.prepare(&b.Ops[i], &l.wr[i])
	}
	if len(b.Ops) == 0 {
		return nil
	}
	if n, err := l.qp.PostSend(l.wr[:len(b.Ops)]); err != nil {
		l.err = fmt.Errorf("%w: %d of %d operations posted: %w", onesided.ErrPeer, n, len(b.Ops), err)
		return l.err
	}
	return nil
}

// prepare makes the work request of an operation.
func (l *Link) prepare(op *onesided.Op, wr *verbs.SendWR) {
	mr, k := l.mrs[op.Local], &l.keys[op.Remote]
	*wr = verbs.SendWR{ID: op.ID, Remote: k.addr + uint64(op.To), RKey: k.rkey, Num: 1,
		Opcode: verbs.OpWrite}
	wr.Pieces[0] = verbs.Piece{Addr: mr.Base() + uint64(op.At), Len: uint32(op.Size), LKey: mr.LKey()}
	switch {
	case op.Read:
		wr.Opcode = verbs.OpRead
	case op.Size <= l.inline:
		wr.Flags = verbs.Inline
	}
	l.queued++
	l.unsignal++
	if op.Signal || l.unsignal >= signalEvery {
		wr.Flags |= verbs.Signaled
		l.marks[(l.head+l.n)%depth] = mark{op.ID, l.unsignal, op.Signal}
		l.n++
		l.unsignal = 0
	}
}

// Poll takes completions.
func (l *Link) Poll(list []onesided.Completion) (n int) {
	// One that failed has a completion though it wanted none.
	for n < len(list) && l.queued > 0 && l.Err() == nil {
		got, err := l.cq.Poll(l.wc[:min(len(l.wc), len(list)-n)])
		if err != nil {
			l.err = err
			break
		}
		if got == 0 {
			return n
		}
		for i := range got {
			if l.wc[i].Status != verbs.StatusOK {
				l.fail(l.wc[i].Status)
				break
			}
			if m := l.next(); m.wanted {
				list[n] = onesided.Completion{ID: m.id}
				n++
			}
		}
	}
	if len(list) > 0 && l.Err() != nil {
		for n < len(list) && l.n > 0 {
			if m := l.next(); m.wanted {
				list[n] = onesided.Completion{ID: m.id, Err: l.err}
				n++
			}
		}
	}
	return n
}

// next takes the oldest mark.
func (l *Link) next() mark {
	m := l.marks[l.head]
	l.head = (l.head + 1) % depth
	l.n--
	l.queued -= m.retires
	return m
}

// fail ends the link for the status of a completion.
func (l *Link) fail(status uint32) {
	switch {
	case l.err != nil:
	case status == verbs.StatusRetryExc, status == verbs.StatusFlushed:
		l.err = onesided.ErrPeer
	case status == verbs.StatusAccess:
		l.err = fmt.Errorf("%w: %s", onesided.ErrAccess, verbs.StatusText(status))
	default:
		l.err = fmt.Errorf("rc: %s", verbs.StatusText(status))
	}
}

// Close ends the link.
func (l *Link) Close() error {
	if l.ends == nil {
		return nil
	}
	l.err = onesided.ErrClosed
	err := l.conn.Close()
	<-l.watched
	l.free() // the device's watch with it
	return err
}

// free undoes what open made, the last first.
func (l *Link) free() {
	for i := len(l.ends) - 1; i >= 0; i-- {
		_ = l.ends[i]() // nothing else refers to them, and there is nobody to tell
	}
	l.ends = nil
}
