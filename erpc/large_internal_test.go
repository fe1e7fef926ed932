package erpc

import (
	"bytes"
	"testing"
)

// TestWriteIn: what callers write in place is bounded and counted, and nothing is written once the
// memory is gone.
func TestWriteIn(t *testing.T) {
	st := newStub(t, Config{})
	l := &Loop{rpc: st.Rpc}
	c := &Client{loop: l, rpc: st.Rpc}
	req := bytes.Repeat([]byte{7}, 1<<20)
	write := func() *MsgBuffer {
		b, err := l.writeIn(len(req), func(to []byte) error {
			copy(to, req)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var calls []*goCall
	for {
		k := &goCall{client: c, req: req, size: len(req), msg: write()}
		if k.msg == nil {
			break
		}
		if !bytes.Equal(k.msg.Data(), req) {
			t.Fatal("another request")
		}
		if calls = append(calls, k); len(calls) > 1000 {
			t.Fatal("requests without end")
		}
	}
	if n := int64(len(calls)) << 20; n > maxAhead || l.copies.ahead.Load() != n {
		t.Errorf("%d bytes of requests, %d counted", n, l.copies.ahead.Load())
	}
	for _, k := range calls {
		k.takeMsg().Free()
		if k.takeMsg() != nil {
			t.Fatal("a request twice")
		}
	}
	if n := l.copies.ahead.Load(); n != 0 {
		t.Errorf("%d bytes are counted when none are left", n)
	}
	left := &goCall{client: c, req: req, size: len(req), msg: write()}
	if l.copies.end(); left.takeMsg() != nil {
		t.Error("a request that went with the loop")
	}
	if n := st.shared.Load().Stats().InUse; n != 0 {
		t.Errorf("%d buffers are left", n)
	}
	if write() != nil {
		t.Error("a request in memory that is gone")
	}
}

// TestNoRoomInRequest: a response is never received over the request, which may have to be sent
// again; nor where there is little room.
func TestNoRoomInRequest(t *testing.T) {
	st := newStub(t, Config{})
	b := make([]byte, 100_000)
	for _, c := range []struct {
		req, resp []byte
		want      bool
	}{
		{b[:50_000], b[:0], false}, {b[:50_000], b[:49_999], false}, {b[:50_000], b[:50_000], true},
		{nil, b[:0], true}, {b[:1], b[:100_000-minInPlace+1], false},
	} {
		k := &goCall{req: c.req, resp: c.resp}
		if k.makeRoom(st.Rpc); (k.into != nil) != c.want {
			t.Errorf("%d bytes of request, room behind %d: %v", len(c.req), len(c.resp), k.into != nil)
		}
		k.leaveRoom()
	}
}
