package session

import (
	"testing"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/wire"
)

// TestPreallocOutlivesSession: a handler that took its response buffer early and
// answers late still owns it when the session ends meanwhile; nobody else gets it.
func TestPreallocOutlivesSession(t *testing.T) {
	r := newRig(t, rigParams, Timing{}, 0, msgbuf.Config{})
	h := wire.Header{Type: wire.TypeReq, ReqType: 1, Session: serverSession, ReqNum: 8}
	r.sv.OnReq(&h, nil, &Arrival{}, r.sout)
	first, second := r.sv.Prealloc(0, 100, r.sout), r.sv.Prealloc(0, 200, r.sout)
	if first == nil || second == nil || first == second || first.Size() != 100 {
		t.Fatalf("got %p and %p", first, second)
	}
	r.sv.Close(r.sout)
	if err := r.sv.Respond(0, first, 0, r.sout); err != ErrNotHandling {
		t.Errorf("respond after the session's end: %v", err)
	}
	other, err := r.pool.Alloc(100)
	if err != nil || other == first || other == second {
		t.Errorf("the handler's buffer went to somebody else: %v", err)
	}
	for _, b := range []*msgbuf.Buffer{first, second, other} {
		if b.Owner() != msgbuf.OwnerApp {
			t.Errorf("owner %v", b.Owner())
		}
		b.Free()
	}
	r.noLeak()
}
