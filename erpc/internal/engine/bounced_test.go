package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// connects makes a pass after d, and returns the Connects sent since the last time.
func (st *stub) connects(d time.Duration) (sent [][]byte) {
	st.tb.Helper()
	st.pass(d)
	for _, p := range st.end.sent {
		if wire.Op(p.data[1]) == wire.OpConnect {
			sent = append(sent, p.data)
		}
	}
	st.end.sent = nil
	return sent
}

// bounce sends each Connect back for a span, as the network does where nobody listens. Change turns
// what was sent into what comes back. It returns how long it took until the session ended.
func (st *stub) bounce(s *Conn, span time.Duration, change func([]byte) [][]byte) time.Duration {
	began := st.now
	for st.now.Sub(began) < span && s.Err() == nil {
		for _, p := range st.connects(time.Millisecond) {
			for _, q := range change(p) {
				st.say(1, unreachable, q)
			}
		}
	}
	return st.now.Sub(began)
}

func once(p []byte) [][]byte { return [][]byte{p} }

// TestClosedPort: a dial ends when three Connects came back, in milliseconds, in the clear and with
// keys. One that asks again ends with its first, since hosts say so seldom. One that persists is
// told once, and goes on.
func TestClosedPort(t *testing.T) {
	for name, set := range map[string]setup{
		"clear": {}, "sealed": {PSK: [][]byte{make([]byte, 32)}},
	} {
		st := newStub(t, set)
		s := st.dialTo(1)
		took := st.bounce(s, time.Second, once)
		if err := s.Err(); err != ErrPortClosed || !errors.Is(err, ErrConnect) ||
			!errors.Is(err, ErrNotRun) {
			t.Fatalf("%s: ended with %v", name, err)
		}
		if took > 20*time.Millisecond {
			t.Errorf("%s: after %v", name, took)
		}
		s = st.dialTo(1)
		if took := st.bounce(s, time.Second, once); took > 5*time.Millisecond {
			t.Errorf("%s: once more after %v", name, took)
		}
		s = st.dialTo(1)
		s.Persist()
		st.bounce(s, time.Second, once)
		if s.Err() != nil || st.unreachable != 1 {
			t.Errorf("%s: one that persists: %v, told %d times", name, s.Err(), st.unreachable)
		}
		st.bounce(s, 3*time.Second, once)
		if s.Err() != ErrConnect {
			t.Errorf("%s: one that persists ended with %v", name, s.Err())
		}
	}
}

// TestClosedPortInSilence: hosts say seldom that nobody listens. For two seconds after that a dial
// to the port ends when there was no answer in 20 ms; then nothing is known of it any more. So does
// one to the port of a peer that is gone. A dial that has an answer goes on.
func TestClosedPortInSilence(t *testing.T) {
	closed := func() *stub {
		st := newStub(t, setup{})
		st.bounce(st.dialTo(1), time.Second, once)
		return st
	}
	gone := func() *stub {
		st, s, _ := icmpStub(t)
		st.say(1, unreachable, []byte("some packet"))
		for began := st.now; s.Err() == nil; {
			for _, p := range st.pinged(time.Millisecond) {
				st.say(1, unreachable, p)
			}
			if st.now.Sub(began) > time.Second {
				t.Fatal("the peer lives")
			}
		}
		return st
	}
	nothing := func([]byte) [][]byte { return nil }
	for name, begin := range map[string]func() *stub{"closed": closed, "gone": gone} {
		st := begin()
		for range 3 {
			s := st.dialTo(1)
			took := st.bounce(s, time.Second, nothing)
			if s.Err() != ErrPortClosed || took < minShutWait || took > minShutWait+5*time.Millisecond {
				t.Errorf("%s: ended with %v after %v", name, s.Err(), took)
			}
		}
		s := st.dialTo(1)
		st.accepted(s, 1, 8)
		s = st.dialTo(1)
		if st.bounce(s, time.Second, nothing); s.Err() != nil {
			t.Errorf("%s: where somebody has answered: %v", name, s.Err())
		}
		st = begin()
		st.pass(shutFor)
		s = st.dialTo(1)
		if st.bounce(s, time.Second, nothing); s.Err() != nil {
			t.Errorf("%s: later: %v", name, s.Err())
		}
	}
}

// TestForgedBounce: what does not quote three Connects of dials ends none before its time.
func TestForgedBounce(t *testing.T) {
	for name, change := range map[string]func([]byte) [][]byte{
		"nothing":       func([]byte) [][]byte { return [][]byte{nil} },
		"other data":    func([]byte) [][]byte { return [][]byte{make([]byte, transport.QuotedMax)} },
		"too few bytes": func(p []byte) [][]byte { return [][]byte{p[:wire.HeaderSize+7]} },
		"another nonce": func(p []byte) [][]byte {
			return [][]byte{flip(p, wire.HeaderSize), flip(p, wire.HeaderSize+7)}
		},
	} {
		st := newStub(t, setup{})
		s := st.dialTo(1)
		st.bounce(s, 2*time.Second, change)
		if s.Err() != nil {
			t.Errorf("%s: ended with %v", name, s.Err())
		}
	}
	// One Connect that comes back thrice.
	st := newStub(t, setup{})
	s := st.dialTo(1)
	first := st.connects(time.Millisecond)[0]
	for range 3 {
		st.say(1, unreachable, first)
	}
	st.pass(2 * time.Millisecond)
	if s.Err() != nil {
		t.Errorf("one Connect that comes back thrice: ended with %v", s.Err())
	}
	// That of another address.
	s = st.dialTo(2)
	for _, p := range st.connects(time.Millisecond) {
		st.say(1, unreachable, p)
	}
	st.pass(2 * time.Millisecond)
	if st.handshakes.shutAt(&s.End.Peer) != nil {
		t.Error("a Connect came back from where it was not sent, and counts")
	}
}

// TestBouncedAndAnswered: two Connects came back, and then the server answers. What came back
// counts no more: it opens, and two of another dial end nothing.
func TestBouncedAndAnswered(t *testing.T) {
	st := newStub(t, setup{})
	s := st.dialTo(1)
	for range 2 {
		for _, p := range st.connects(4 * time.Millisecond) {
			st.say(1, unreachable, p)
		}
	}
	st.accepted(s, 1, 7)
	s = st.dialTo(1)
	for range 2 {
		for _, p := range st.connects(4 * time.Millisecond) {
			st.say(1, unreachable, p)
		}
	}
	st.pass(2 * time.Millisecond)
	if s.Err() != nil {
		t.Errorf("ended with %v", s.Err())
	}
}

// TestBouncesOfOthers: a port where nobody listens ends all dials to it, none to others, and no
// session that is open.
func TestBouncesOfOthers(t *testing.T) {
	st, open, other := icmpStub(t)
	s, second, elsewhere := st.dialTo(1), st.dialTo(1), st.dialTo(3)
	second.dialer.Rest(st.now.Add(time.Hour))
	st.bounce(s, time.Second, once)
	if s.Err() != ErrPortClosed || second.Err() != ErrPortClosed {
		t.Errorf("ended with %v, %v", s.Err(), second.Err())
	}
	for _, s := range []*Conn{open, other, elsewhere} {
		if s.Err() != nil {
			t.Errorf("another session ended with %v", s.Err())
		}
	}
}
