package erpc_test

import (
	"hash/maphash"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
)

// loan is the Data of a packet to which a lending transport refers after TxBurst. It reads the
// data as late as it may: when the receiver takes the packet, or in Flush.
type loan struct {
	data []byte
	sum  uint64
	over bool
}

var loanSeed = maphash.MakeSeed()

// lendTo notes that this end refers to data, of the packet last put to peer, until the peer
// takes it or this end's Flush is called.
func (e *memEnd) lendTo(peer *memEnd, data []byte) {
	if len(data) == 0 {
		return
	}
	e.loans = slices.DeleteFunc(e.loans, func(l *loan) bool { return l.over })
	l := &loan{data: data, sum: maphash.Bytes(loanSeed, data)}
	e.loans = append(e.loans, l)
	peer.owed[(peer.tail-1)%memRing] = l
}

// lent returns how many packets this end refers to.
func (e *memEnd) lent() (n int) {
	if e.memFaults == nil {
		return 0
	}
	for _, l := range e.loans {
		if !l.over {
			n++
		}
	}
	return n
}

// end reads the data for the last time. It fails the test if they have changed, or their memory
// has gone.
func (l *loan) end(tb testing.TB) {
	if l == nil || l.over {
		return
	}
	tb.Helper()
	l.over = true
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			tb.Error("memory was unmapped to which a queued packet refers")
		}
	}()
	if maphash.Bytes(loanSeed, l.data) != l.sum {
		tb.Error("a buffer was changed to which a queued packet refers")
	}
}

// endLoans ends those of the next n packets that this end receives.
func (e *memEnd) endLoans(n uint) {
	for i := range n {
		l := &e.owed[(e.head+i)%memRing]
		(*l).end(e.net.tb)
		*l = nil
	}
}

// Flush reads all that the end refers to.
func (e *memEnd) Flush() {
	if e.memFaults == nil {
		return
	}
	for _, l := range e.loans {
		l.end(e.net.tb)
	}
	clear(e.loans)
	e.loans = e.loans[:0]
}

// Close wants nothing to be lent.
func (e *memEnd) Close() error {
	if n := e.lent(); n != 0 {
		e.net.tb.Errorf("the endpoint was closed while %d packets were lent", n)
	}
	return nil
}

// spoil frees a buffer and writes over it, as its next owner would.
func spoil(b *erpc.MsgBuffer) {
	for i := range b.Data() {
		b.Data()[i] = 0xDB
	}
	b.Free()
}

// eachNet runs a test on a transport that copies and on one that lends.
func eachNet(t *testing.T, run func(t *testing.T, net *memNet)) {
	t.Run("copies", func(t *testing.T) { run(t, newMemNet()) })
	t.Run("lends", func(t *testing.T) {
		net := newMemNet()
		net.lends = true
		run(t, net)
	})
}
