package erpc

import (
	"bytes"
	"testing"
)

// TestCopies: what callers copy ahead is bounded and counted, and nothing is copied once the memory
// is gone.
func TestCopies(t *testing.T) {
	st := newStub(t, Config{})
	l := &Loop{rpc: st.Rpc}
	c := &Client{loop: l, rpc: st.Rpc}
	req := bytes.Repeat([]byte{7}, 1<<20)
	var calls []*goCall
	for {
		k := &goCall{client: c, req: req, size: len(req), msg: l.copyIn(req)}
		if k.msg == nil {
			break
		}
		if !bytes.Equal(k.msg.Data(), req) {
			t.Fatal("another request")
		}
		if calls = append(calls, k); len(calls) > 1000 {
			t.Fatal("copies without end")
		}
	}
	if n := int64(len(calls)) << 20; n > maxAhead || l.copies.ahead.Load() != n {
		t.Errorf("%d bytes of copies, %d counted", n, l.copies.ahead.Load())
	}
	for _, k := range calls {
		k.takeCopy().Free()
		if k.takeCopy() != nil {
			t.Fatal("a copy twice")
		}
	}
	if n := l.copies.ahead.Load(); n != 0 {
		t.Errorf("%d bytes are counted when none are left", n)
	}
	left := &goCall{client: c, req: req, size: len(req), msg: l.copyIn(req)}
	if l.copies.end(); left.takeCopy() != nil {
		t.Error("a copy that went with the loop")
	}
	if n := st.shared.Load().Stats().InUse; n != 0 {
		t.Errorf("%d buffers are left", n)
	}
	if l.copyIn(req) != nil {
		t.Error("a copy in memory that is gone")
	}
}
