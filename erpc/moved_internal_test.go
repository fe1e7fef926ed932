package erpc

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/wire"
)

// sentTo returns the operations and addresses of the management packets sent since the last time.
func (st *stub) sentTo() (ops []wire.Op, to []int) {
	for _, p := range st.end.sent {
		to = append(to, int(p.to.Port)-1)
	}
	return st.take(), to
}

// TestPingFromElsewhere: a ping of a living session from another address is answered if it knows
// both tokens, by the word that the session is known elsewhere. The session stays where it is.
func TestPingFromElsewhere(t *testing.T) {
	st := newStub(t, Config{})
	s := st.connectFrom(1, 7, 1)
	st.take()
	ping := alive(s)
	ping.Seq = 33
	ask := func(from int, op wire.Op, a wire.Alive, token uint32) []wire.Op {
		st.receive(from, op, s.end.Local, token, wire.AliveSize, a.Put)
		st.pass(1000)
		ops, to := st.sentTo()
		for _, i := range to {
			if i != from {
				t.Errorf("an answer went to %d", i)
			}
		}
		return ops
	}
	wrong := ping
	wrong.Token++
	elsewhere := ping
	elsewhere.Session++
	for _, c := range []struct {
		what  string
		from  int
		op    wire.Op
		a     wire.Alive
		token uint32
		want  wire.Op // 0: silence
	}{
		{"ping of the peer", 1, wire.OpPing, ping, s.end.LocalToken, wire.OpPong},
		{"ping from elsewhere", 2, wire.OpPing, ping, s.end.LocalToken, wire.OpMoved},
		{"with another token of its own", 2, wire.OpPing, wrong, s.end.LocalToken, 0},
		{"of another session of its own", 2, wire.OpPing, elsewhere, s.end.LocalToken, 0},
		{"disconnect from elsewhere", 2, wire.OpDisconnect, ping, s.end.LocalToken, 0},
		{"reset from elsewhere", 2, wire.OpReset, ping, s.end.LocalToken, 0},
		{"moved from elsewhere", 2, wire.OpMoved, ping, s.end.LocalToken, 0},
		{"moved at a server", 1, wire.OpMoved, ping, s.end.LocalToken, 0},
	} {
		got := ask(c.from, c.op, c.a, c.token)
		if c.want == 0 && len(got) != 0 || c.want != 0 && (len(got) != 1 || got[0] != c.want) {
			t.Errorf("%s: answered by %v", c.what, got)
		}
		if !s.Connected() || s.end.Peer != stubAddr(1) {
			t.Fatalf("%s: the session is %v, of %v", c.what, s.Err(), s.end.Peer)
		}
	}
	// An earlier incarnation of the number is unknown, wherever the ping comes from.
	old := ping
	old.To = s.end.LocalToken + 1
	if got := ask(2, wire.OpPing, old, old.To); len(got) != 1 || got[0] != wire.OpReset {
		t.Errorf("a ping of an earlier session: answered by %v", got)
	}
	st.engine.timers.resetsLeft = 0
	if got := ask(2, wire.OpPing, ping, s.end.LocalToken); len(got) != 0 {
		t.Errorf("without budget: answered by %v", got)
	}
}

// TestMoved: a client session ends when its server knows it under another address, but only by the
// answer to its last question, and if it has heard nothing since.
func TestMoved(t *testing.T) {
	for _, c := range []struct {
		name string
		seq  int64 // more than that of the last question
		hear bool  // the server is heard from meanwhile
		ends bool
	}{
		{"answer", 0, false, true}, {"answer to an earlier question", -1, false, false},
		{"answer to a later question", 1, false, false}, {"living session", 0, true, false},
	} {
		st := newStub(t, Config{})
		s := st.dialTo(1)
		st.accepted(s, 1, 7)
		st.pass(time.Millisecond)
		s.live.Probe(s.end, 1, st.now, st.engine.out)
		s.live.Probe(s.end, 2, st.now, st.engine.out)
		st.pass(time.Millisecond)
		var asked wire.Alive
		asked.Parse(st.end.sent[1].data[wire.HeaderSize:])
		if st.take(); c.hear {
			pong := alive(s)
			st.receive(1, wire.OpPong, s.end.Local, s.end.LocalToken, wire.AliveSize, pong.Put)
			st.pass(time.Millisecond)
		}
		moved := wire.Alive{
			Session: wire.NoSession, To: s.end.LocalToken, Seq: uint64(int64(asked.Seq) + c.seq),
		}
		st.receive(1, wire.OpMoved, s.end.Local, s.end.LocalToken, wire.AliveSize, moved.Put)
		st.pass(time.Millisecond)
		if c.ends != (s.Err() != nil) || c.ends && !errors.Is(s.Err(), ErrPeerLost) {
			t.Errorf("%s: the session is %v", c.name, s.Err())
		}
		if ops := st.take(); len(ops) != 0 {
			t.Errorf("%s: sent %v", c.name, ops)
		}
	}
}
