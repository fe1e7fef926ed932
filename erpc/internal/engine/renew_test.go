package engine

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestRenewPort: Connects that nobody answers leave by another port after half a second, and by
// another one two seconds later.
func TestRenewPort(t *testing.T) {
	st := newStub(t, setup{})
	s := st.dialTo(1)
	began := st.now
	var at []time.Duration
	for s.Err() == nil {
		st.connects(time.Millisecond)
		for _, to := range st.renewed {
			if at = append(at, st.now.Sub(began)); to != stubAddr(1) {
				t.Errorf("of %v", to)
			}
		}
		st.renewed = nil
	}
	if len(at) != 2 || at[0].Round(10*time.Millisecond) != firstRenewal ||
		at[1].Round(10*time.Millisecond) != firstRenewal+nextRenewal {
		t.Errorf("ports were renewed after %v", at)
	}
}

// The times of package session, as promised.
const firstRenewal, nextRenewal = 500 * time.Millisecond, 2 * time.Second

// TestRenewNoPort: no port is renewed while the server answers, or while a session with it is open.
// A port where nobody listens is no answer.
func TestRenewNoPort(t *testing.T) {
	for name, c := range map[string]struct {
		do      func(st *stub) *Conn
		renewed int
	}{
		"it answers": {func(st *stub) *Conn {
			s := st.dialTo(1)
			ch := wire.Challenge{Nonce: s.dialer.Connect.Nonce, Cookie: [wire.CookieSize]byte{1}}
			st.receive(1, wire.OpChallenge, s.End.Local, s.End.LocalToken, wire.ChallengeSize, ch.Put)
			return s
		}, 0},
		"a session is open": {func(st *stub) *Conn {
			st.accepted(st.dialTo(1), 1, 7)
			return st.dialTo(1)
		}, 0},
		"one with another is open": {func(st *stub) *Conn {
			st.accepted(st.dialTo(2), 2, 7)
			return st.dialTo(1)
		}, 1},
		"nobody listens": {func(st *stub) *Conn {
			s := st.dialTo(1)
			s.Persist()
			st.bounce(s, 100*time.Millisecond, once)
			return s
		}, 1},
	} {
		st := newStub(t, setup{})
		s := c.do(st)
		for range 1000 {
			st.pass(time.Millisecond)
		}
		if len(st.renewed) != c.renewed || s.Err() != nil {
			t.Errorf("%s: %v were renewed, %v", name, st.renewed, s.Err())
		}
	}
}

// TestRenewBudget: however many servers are dead, ports are not renewed without end.
func TestRenewBudget(t *testing.T) {
	st := newStub(t, setup{})
	for i := range 1000 {
		st.SetNow(st.now)
		to := transport.Addr{IP: [16]byte{15: 1}, Port: uint32(100 + i)}
		if _, err := st.Dial(to, "", time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		st.connects(time.Millisecond)
	}
	if n := len(st.renewed); n < renewalsAtOnce || n > renewalsAtOnce+renewalsPerSecond {
		t.Errorf("%d ports were renewed", n)
	}
}
