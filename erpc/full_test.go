package erpc_test

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// newFullPair is a pair whose client's transport takes nothing. Arrived counts the request
// packets that come to the server.
func newFullPair(t *testing.T) (p *errPair, arrived *int) {
	p = newErrPair(t, erpc.Config{Burst: 4, Slots: 64, Credits: 64, NoBundles: true})
	p.cend.takes = func(int) int { return 0 }
	p.cend.record = true
	arrived = new(int)
	p.send.tap = func(pkt []byte, _ transport.Addr) {
		if wire.Type(pkt[0]&15) == wire.TypeReq {
			*arrived++
		}
	}
	return p, arrived
}

// calls returns the calls of the client's transport since the last time.
func (p *errPair) calls() string {
	s := string(p.cend.calls)
	p.cend.calls = nil
	return s
}

// stats returns the client's counters, which it publishes once an epoch.
func (p *errPair) stats(t *testing.T) erpc.Stats {
	t.Helper()
	takes := p.cend.takes
	p.cend.takes = func(int) int { return 0 }
	p.net.now = p.net.now.Add(epoch)
	p.run(p.client)
	p.cend.takes = takes
	p.calls()
	return p.client.Stats()
}

// enqueueMany starts n small calls.
func (p *errPair) enqueueMany(n int) (results []*result) {
	for range n {
		results = append(results, p.enqueue(tEcho, 10, 0))
	}
	return results
}

// allSucceed waits for the calls.
func (p *errPair) allSucceed(t *testing.T, results []*result) {
	t.Helper()
	for _, res := range results {
		p.until(func() bool { return res.ends > 0 })
		is(t, "the call", res.err, nil)
	}
}

// TestFullTransportKeeps: what a full transport does not take waits for the next pass, and is
// offered four times in each.
func TestFullTransportKeeps(t *testing.T) {
	p, arrived := newFullPair(t)
	results := p.enqueueMany(32) // eight bursts
	p.run(p.client)
	if got := p.calls(); got != "TTTTRTTTT" {
		t.Errorf("first pass: calls %s", got)
	}
	if wake := p.client.NextWake(); wake != p.net.now+1000 {
		t.Errorf("the loop wants to run after %v", wake.Sub(p.net.now))
	}
	for range 3 {
		p.run(p.client)
		if got := p.calls(); got != "RTTTT" { // received meanwhile
			t.Errorf("next pass: calls %s", got)
		}
	}
	if n := p.stats(t).TxDropped; n != 0 {
		t.Errorf("%d packets dropped", n)
	}
	p.cend.takes = nil
	p.run(p.client)
	if *arrived != len(results) {
		t.Errorf("%d packets left, want %d", *arrived, len(results))
	}
	p.allSucceed(t, results)
	if st := p.stats(t); st.Protocol.Retransmits != 0 || st.TxDropped != 0 {
		t.Errorf("%d packets sent again, %d dropped", st.Protocol.Retransmits, st.TxDropped)
	}
	p.cend.takes = nil
	p.close()
}

// TestFullTransportDrops: more than eight bursts are not kept. They are counted, and sent again
// after the timeout, one of them before.
func TestFullTransportDrops(t *testing.T) {
	p, arrived := newFullPair(t)
	results := p.enqueueMany(33)
	p.run(p.client)
	if got := p.calls(); got != "TTTTR" { // nothing is left to offer
		t.Errorf("calls %s", got)
	}
	if n := p.stats(t).TxDropped; n != 33 {
		t.Errorf("%d packets dropped", n)
	}
	p.cend.takes = nil
	p.run(p.client)
	if *arrived != 1 {
		t.Errorf("%d packets left", *arrived)
	}
	p.allSucceed(t, results)
	p.close()
}

// TestSlowTransport: a transport that takes little is offered the rest as long as it takes some.
func TestSlowTransport(t *testing.T) {
	for _, flush := range []bool{false, true} {
		p, arrived := newFullPair(t)
		calls := 0
		p.cend.takes = func(n int) int {
			if calls++; calls%4 == 0 {
				return min(n, 1)
			}
			return 0
		}
		results := p.enqueueMany(30)
		if flush { // as the end of a session does
			is(t, "close", p.client.CloseSession(p.sess), nil)
		} else {
			p.run(p.client)
		}
		if *arrived != 30 || calls != 4*30 {
			t.Errorf("%d packets left in %d calls", *arrived, calls)
		}
		p.cend.takes = nil
		if !flush {
			p.allSucceed(t, results)
		}
		p.close()
	}
}

// TestFullTransportFlush: a flush cannot wait. A full transport is offered the batch 64 times,
// then it is given up; calls that go on are repeated.
func TestFullTransportFlush(t *testing.T) {
	p, arrived := newFullPair(t)
	results := p.enqueueMany(5)
	is(t, "cancel", p.client.Cancel(results[4].id), nil)
	if got := p.calls(); got != strings.Repeat("T", 64) {
		t.Errorf("calls %s", got)
	}
	if st := p.stats(t); st.TxDropped != 6 || // a CANCEL too
		st.Flushes != 1 {
		t.Errorf("%d packets dropped, %d flushes", st.TxDropped, st.Flushes)
	}
	p.cend.takes = nil
	p.run(p.client)
	if *arrived != 1 {
		t.Errorf("%d packets left", *arrived)
	}
	p.allSucceed(t, results[:4])
	is(t, "the cancelled", results[4].err, erpc.ErrCancelled)
	p.close()
}
