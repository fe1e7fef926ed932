package erpc_test

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/wire"
)

// TestDrain: a server that shuts down tells its clients, until they say that they know. Requests
// under way go on; what was not sent ends, new ones are refused, and both say that they never ran.
func TestDrain(t *testing.T) {
	var events []erpc.SessionEvent
	cfg := erpc.Config{Slots: 1, OnSession: func(_ *erpc.Rpc, s *erpc.Session, ev erpc.SessionEvent) {
		if s.IsClient() {
			events = append(events, ev)
		}
	}}
	p := newErrPair(t, cfg)
	running := p.enqueue(tHold, 10, 0)
	p.until(func() bool { return len(p.held) == 1 })
	queued := p.enqueue(tEcho, 10, 0)
	told, acked := 0, 0
	p.cend.lose = func(pkt []byte) bool {
		if isOp(pkt, wire.OpDrain) {
			told++
		}
		return isOp(pkt, wire.OpDrain) && told <= 2
	}
	p.send.lose = func(pkt []byte) bool {
		if isOp(pkt, wire.OpDrainAck) {
			acked++
		}
		return isOp(pkt, wire.OpDrainAck) && acked <= 2
	}
	is(t, "refuse", p.server.Refuse(), nil)
	p.until(func() bool { return acked == 3 })
	p.tick = 100_000
	p.pass(10_000)
	if told != 5 || acked != 3 || !p.sess.Draining() {
		t.Errorf("told %d times, %d times acknowledged", told, acked)
	}
	is(t, "what waited", queued.err, erpc.ErrDraining)
	is(t, "a new request", p.call(tEcho, 10).err, erpc.ErrDraining)
	is(t, "respond", p.held[0].RespondBytes(nil), nil)
	p.until(func() bool { return running.ends > 0 })
	is(t, "what was under way", running.err, nil)
	if len(events) != 2 || events[1] != erpc.SessionDraining {
		t.Errorf("events %v", events)
	}
	p.close()
}

// TestNeverRan: a request that crosses the notice is told by its own answer that it did not run.
func TestNeverRan(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	is(t, "refuse", p.server.Refuse(), nil)
	res := p.enqueue(tEcho, 10, 0)
	p.until(func() bool { return res.ends > 0 })
	var remote *erpc.Error
	is(t, "the request", res.err, erpc.ErrDraining, erpc.ErrRemote)
	if !errors.As(res.err, &remote) || !remote.NotRun || remote.Code != erpc.CodeUnavailable {
		t.Errorf("%+v", remote)
	}
	p.close()
}

// TestDrainMany: a server with many clients tells them in portions.
func TestDrainMany(t *testing.T) {
	p := newErrPair(t, erpc.Config{})
	const more = 600
	for range more {
		p.connect()
	}
	told, most := 0, 0
	p.cend.lose = func(pkt []byte) bool {
		if isOp(pkt, wire.OpDrain) {
			told++
		}
		return false
	}
	is(t, "refuse", p.server.Refuse(), nil)
	for last := 0; told < more+1; last = told {
		p.step()
		most = max(most, told-last)
	}
	p.pass(int(time.Second.Nanoseconds()) / 100_000)
	if told != more+1 || most > 256 {
		t.Errorf("%d clients were told, %d at a time", told, most)
	}
	p.close()
}

func isOp(pkt []byte, op wire.Op) bool {
	var h wire.Header
	return h.Parse(pkt) == nil && h.Type == wire.TypeMgmt && wire.Op(h.ReqType) == op
}
