package engine

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
	st := newStub(t, setup{})
	s := st.connectFrom(1, 7, 1)
	st.take()
	ping := alive(s)
	ping.Seq = 33
	ask := func(from int, op wire.Op, a wire.Alive, token uint32) []wire.Op {
		st.receive(from, op, s.End.Local, token, wire.AliveSize, a.Put)
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
		{"ping of the peer", 1, wire.OpPing, ping, s.End.LocalToken, wire.OpPong},
		{"ping from elsewhere", 2, wire.OpPing, ping, s.End.LocalToken, wire.OpMoved},
		{"with another token of its own", 2, wire.OpPing, wrong, s.End.LocalToken, 0},
		{"of another session of its own", 2, wire.OpPing, elsewhere, s.End.LocalToken, 0},
		{"disconnect from elsewhere", 2, wire.OpDisconnect, ping, s.End.LocalToken, 0},
		{"reset from elsewhere", 2, wire.OpReset, ping, s.End.LocalToken, 0},
		{"moved from elsewhere", 2, wire.OpMoved, ping, s.End.LocalToken, 0},
		{"moved at a server", 1, wire.OpMoved, ping, s.End.LocalToken, 0},
	} {
		got := ask(c.from, c.op, c.a, c.token)
		if c.want == 0 && len(got) != 0 || c.want != 0 && (len(got) != 1 || got[0] != c.want) {
			t.Errorf("%s: answered by %v", c.what, got)
		}
		if !s.Open() || s.End.Peer != stubAddr(1) {
			t.Fatalf("%s: the session is %v, of %v", c.what, s.Err(), s.End.Peer)
		}
	}
	// An earlier incarnation of the number is unknown, wherever the ping comes from.
	old := ping
	old.To = s.End.LocalToken + 1
	if got := ask(2, wire.OpPing, old, old.To); len(got) != 1 || got[0] != wire.OpReset {
		t.Errorf("a ping of an earlier session: answered by %v", got)
	}
	st.timers.resetsLeft = 0
	if got := ask(2, wire.OpPing, ping, s.End.LocalToken); len(got) != 0 {
		t.Errorf("without budget: answered by %v", got)
	}
}

// TestMoved: when a server says that it knows a client's session under another address, the client
// asks it. Its sessions there end when the server has said the same to three more questions and
// nothing else meanwhile, within 10 ms. One packet that took another way ends nothing.
func TestMoved(t *testing.T) {
	for _, c := range []struct {
		name    string
		seq     int64 // of the first answer, more than that of the last question
		answers int   // to different questions of the series
		again   int   // the last of those, so many times more
		hear    bool  // the server is heard from behind the last answer
		asks    bool
		ends    bool
	}{
		{"three answers", 0, quotesNeeded, 0, false, true, true},
		{"two answers", 0, quotesNeeded - 1, 0, false, true, false},
		{"one answer, again and again", 0, 1, 10, false, true, false},
		{"no more answers", 0, 0, 0, false, true, false},
		{"a living session", 0, quotesNeeded - 1, 10, true, true, false},
		{"an answer to an earlier question", -1, 0, 0, false, false, false},
		{"an answer to a later question", 1, 0, 0, false, false, false},
	} {
		st := newStub(t, setup{})
		s := st.dialTo(1)
		st.accepted(s, 1, 7)
		st.pass(time.Millisecond)
		s.live.Probe(s.End, 1, st.now, st.Out)
		s.live.Probe(s.End, 2, st.now, st.Out)
		st.pass(time.Millisecond)
		asked := st.end.sent[1].data
		st.end.sent = nil
		began := st.now
		st.moved(s, asked, c.seq)
		pings, said := 0, 0
		var last []byte
		for st.now < began.Add(2*seriesEvery) && s.Err() == nil {
			for _, p := range st.pinged(500 * time.Microsecond) {
				if pings++; said < c.answers {
					said, last = said+1, p
					st.moved(s, p, 0)
				}
			}
			if said == c.answers && last != nil {
				for range c.again {
					st.moved(s, last, 0)
				}
				if c.hear {
					st.answer(1, s, last)
				}
				c.again, c.hear, last = 0, false, nil
			}
		}
		if c.ends != (s.Err() != nil) || c.ends && !errors.Is(s.Err(), ErrPeerLost) {
			t.Errorf("%s: the session is %v", c.name, s.Err())
		}
		if took := st.now.Sub(began); c.ends && took > 10*time.Millisecond {
			t.Errorf("%s: the session ended after %v", c.name, took)
		}
		if most := seriesPings; pings > most || c.asks != (pings > 0) {
			t.Errorf("%s: %d pings", c.name, pings)
		}
	}
}

// moved lets peer 1 say, to a ping of s whose number differs by more, that it knows the session
// under another address.
func (st *stub) moved(s *Conn, ping []byte, more int64) {
	var asked wire.Alive
	asked.Parse(ping[wire.HeaderSize:])
	a := wire.Alive{
		Session: wire.NoSession, To: s.End.LocalToken, Seq: uint64(int64(asked.Seq) + more),
	}
	st.receive(1, wire.OpMoved, s.End.Local, s.End.LocalToken, wire.AliveSize, a.Put)
}
