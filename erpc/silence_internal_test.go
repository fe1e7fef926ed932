package erpc

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// TestSessionSilence: a session is silent from the first packet on that has no answer, however
// often that was repeated, or from the last sign of life of its peer.
func TestSessionSilence(t *testing.T) {
	st := newStub(t, Config{
		Timing: Timing{RTOMin: 4 * time.Millisecond, RTOMax: 100 * time.Millisecond}})
	s := st.dialTo(0)
	if d, _ := s.Silence(); d != 0 {
		t.Errorf("while it connects it is silent for %v", d)
	}
	st.accepted(s, 0, 3)
	st.pass(time.Second)
	if d, rto := s.Silence(); d != 0 || rto != 4*time.Millisecond {
		t.Errorf("without requests it is silent for %v, timeout %v", d, rto)
	}
	req, err := st.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	done := func(c Completion) { c.Req.Free() }
	if _, err = st.EnqueueRequest(s, Request{Type: 1, Req: req, Done: done}); err != nil {
		t.Fatal(err)
	}
	st.pass(0)
	begun := st.now
	near := func(what string, want time.Duration) {
		t.Helper()
		if d, _ := s.Silence(); d > want || d < want-10*time.Millisecond {
			t.Errorf("%s: %v, want about %v", what, d, want)
		}
	}
	for range 300 { // 0.3 s: repeated at 4, 12, 28, 60, 124 and 224 ms, and looked at a little later
		st.pass(time.Millisecond)
		near("repeated", st.now.Sub(begun))
	}
	a := alive(s)
	st.receive(0, wire.OpPing, s.conn.End.Local, s.conn.End.LocalToken, wire.AliveSize, a.Put)
	st.pass(0)
	near("heard", 0)
	st.pass(30 * time.Millisecond)
	near("silent again", 30*time.Millisecond)
	if err := st.Rpc.Close(); err != nil {
		t.Error(err)
	}
	if d, _ := s.Silence(); d != 0 {
		t.Errorf("after its end it is silent for %v", d)
	}
}
