package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestLook: a request that a later one has overtaken goes again long before the next epoch. After a
// pause of the process that waits: the answer may be here.
func TestLook(t *testing.T) {
	const us = time.Microsecond
	st := newStub(t, Config{})
	s := st.dialTo(1)
	st.accepted(s, 1, 7)
	st.engine.ScanNow()
	st.pass(us)
	st.polling = true
	done := 0
	send := func() {
		t.Helper()
		q := Request{Done: func(e Completion) { done++; e.Req.Free(); e.Resp.Free() }}
		q.Req, _ = st.Alloc(10)
		if _, err := st.EnqueueRequest(s, q); err != nil {
			t.Fatal(err)
		}
		st.pass(us)
	}
	answer := func(num uint64) {
		t.Helper()
		pkt := make([]byte, wire.HeaderSize+10)
		h := wire.Header{Type: wire.TypeResp, Session: s.conn.End.Local, ReqNum: num, MsgSize: 10}
		h.Put(pkt, s.conn.End.LocalToken)
		st.end.in = append(st.end.in, transport.RxPacket{Data: pkt, From: stubAddr(1)})
		st.pass(us)
	}
	send()
	send()
	var h wire.Header
	if err := h.Parse(st.end.sent[0].data); err != nil || len(st.end.sent) != 2 {
		t.Fatalf("%d packets, %v", len(st.end.sent), err)
	}
	answer(h.ReqNum + 1)
	st.end.sent = nil

	epoch := st.engine.NextScan()
	st.pass(600 * us)
	if len(st.end.sent) != 0 || done != 1 || st.now >= epoch {
		t.Errorf("%d packets after a pause, %d answers, %v to the epoch", len(st.end.sent), done,
			epoch.Sub(st.now))
	}
	for len(st.end.sent) == 0 && st.now < epoch-1000 {
		st.pass(us)
	}
	if len(st.end.sent) != 1 {
		t.Fatalf("%d packets before the epoch, want 1", len(st.end.sent))
	}
	answer(h.ReqNum)
	if done != 2 {
		t.Errorf("%d answers, want 2", done)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
