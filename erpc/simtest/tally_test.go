package simtest

import (
	"errors"
	"sync"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/session"
)

// tally sums up many runs, to see that they met what they are meant to meet: a test
// in which nothing goes wrong proves nothing.
type tally struct {
	mu     sync.Mutex
	calls  uint64
	ok     uint64
	errs   [len(reasons)]uint64
	proto  session.Stats
	token  uint64 // packets with a wrong token or checksum
	events [erpc.SessionDraining + 1]uint64
	steps  int    // of clocks
	lent   uint64 // packets that were lent and left without being flushed
}

// reasons holds what RPCs are to fail with somewhere.
var reasons = [...]error{
	erpc.ErrConnect, erpc.ErrPeerLost, erpc.ErrPeerRestarted, erpc.ErrDeadline, erpc.ErrCancelled,
	erpc.ErrExhausted, erpc.ErrClosed, erpc.ErrPeerClosed, erpc.ErrNoHandler, erpc.ErrTooLarge,
	erpc.ErrRemote,
}

// rare reports whether an error comes in so few runs, one in fifty, that only many runs must meet
// it.
func rare(err error) bool { return err == erpc.ErrPeerClosed }

// add counts one run before its nodes are closed.
func (y *tally) add(c *cluster) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, k := range c.calls {
		y.calls++
		if k.err == nil && k.ends == 1 {
			y.ok++
		}
		for i, e := range reasons {
			if errors.Is(k.err, e) {
				y.errs[i]++
			}
		}
	}
	y.steps += c.steps
	for _, tr := range c.lender.lent {
		n := tr.Counts()
		y.lent += n.Packets - n.Flushed
	}
	for _, n := range c.nodes {
		st := n.rpc.Stats()
		p := &st.Protocol
		y.proto.Retransmits += p.Retransmits
		y.proto.Rollbacks += p.Rollbacks
		y.proto.CreditStalls += p.CreditStalls
		y.proto.FastRollbacks += p.FastRollbacks
		y.proto.Gaps += p.Gaps
		y.proto.PaceStalls += p.PaceStalls
		y.proto.RateUpdates += p.RateUpdates
		y.proto.DropPast += p.DropPast
		y.proto.DropFuture += p.DropFuture
		y.proto.Waits += p.Waits
		y.proto.Pasts += p.Pasts
		y.proto.Cancels += p.Cancels
		y.proto.Lates += p.Lates
		y.proto.DropBusy += p.DropBusy
		y.token += st.DropToken
		for _, ev := range n.events {
			y.events[ev]++
		}
	}
}

// check sees that the runs met all events that they are meant to meet; few excuses rare ones.
func (y *tally) check(t *testing.T, few bool) {
	t.Logf("%d RPCs, %d with a response; %+v; %d bad tokens", y.calls, y.ok, y.proto, y.token)
	if y.lent == 0 {
		t.Error("no packet was lent")
	}
	if y.steps == 0 {
		t.Error("no clock was stepped")
	}
	for i, e := range reasons {
		t.Logf("%6d x %v", y.errs[i], e)
		if y.errs[i] == 0 && !(few && rare(e)) {
			t.Errorf("no RPC ended with %v", e)
		}
	}
	for ev, n := range y.events {
		t.Logf("%6d x session %v", n, erpc.SessionEvent(ev))
		if n == 0 && erpc.SessionEvent(ev) < erpc.SessionClosed { // these come after the count
			t.Errorf("no session event %v", erpc.SessionEvent(ev))
		}
	}
	p := &y.proto
	for name, n := range map[string]uint64{"Retransmits": p.Retransmits, "Rollbacks": p.Rollbacks,
		"CreditStalls":  p.CreditStalls,
		"FastRollbacks": p.FastRollbacks, "Gaps": p.Gaps, "PaceStalls": p.PaceStalls,
		"RateUpdates": p.RateUpdates,
		"DropPast":    p.DropPast, "DropFuture": p.DropFuture,
		"Waits":   p.Waits,
		"Cancels": p.Cancels, "Pasts": p.Pasts,
		"DropToken": y.token} {
		if n == 0 {
			t.Errorf("%s never counted", name)
		}
	}
	if p.DropBusy > 0 {
		t.Errorf("%d packets came for slots whose handlers ran", p.DropBusy)
	}
	if y.ok < y.calls/3 {
		t.Errorf("only %d of %d RPCs got a response", y.ok, y.calls)
	}
}
