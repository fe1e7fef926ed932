package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/wire"
)

// TestSessionTable compares the table with a map and a queue of free numbers: each session is
// found by its number and its key, and the number that is free for longest is used first.
func TestSessionTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table connTable
		byNumber := map[uint32]*Conn{}
		byKey := map[connKey]*Conn{}
		var live []*Conn
		var free []uint32
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(live) == 0 || rapid.IntRange(0, 4).Draw(t, "add") > 1 {
				want := uint32(len(byNumber) + len(free))
				if len(free) > 0 {
					want, free = free[0], free[1:]
				}
				if got := table.next(); got != want {
					t.Fatalf("the next number is %d, want %d", got, want)
				}
				s := newStubConn(false)
				s.End.Local = want
				table.add(s)
				byNumber[want], live = s, append(live, s)
				if k := rapid.Uint64Range(0, 9).Draw(t, "nonce"); k > 0 { // 0: none, a client's end
					key := connKey{from: stubAddr(int(k % 3)), nonce: k}
					table.addKey(key, s)
					byKey[key] = s
				}
			} else {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "remove")
				s := live[i]
				live = slices.Delete(live, i, i+1)
				table.remove(s)
				delete(byNumber, s.End.Local)
				free = append(free, s.End.Local)
				if byKey[s.srv.key] == s {
					delete(byKey, s.srv.key)
				}
			}
			table.check()
			if table.live != len(byNumber) || len(table.byKey) != len(byKey) {
				t.Fatalf("%d sessions and %d keys, want %d and %d", table.live, len(table.byKey),
					len(byNumber), len(byKey))
			}
			for n := range uint32(len(byNumber) + len(free) + 2) {
				if table.at(n) != byNumber[n] {
					t.Fatalf("another session has number %d", n)
				}
			}
			for k, s := range byKey {
				if table.byKey[k] != s {
					t.Fatalf("another session has key %v", k)
				}
			}
		}
		if table.at(wire.NoSession) != nil || table.at(1<<31) != nil {
			t.Fatal("a session has a number that was never given")
		}
	})
}

// TestSessionTableCheck: what check is to notice.
func TestSessionTableCheck(t *testing.T) {
	for name, spoil := range map[string]func(*connTable){
		"lost":     func(t *connTable) { t.live-- },
		"free":     func(t *connTable) { t.free[0] = 1 },
		"vanished": func(t *connTable) { t.free = nil },
	} {
		var table connTable
		for i := range uint32(3) {
			s := newStubConn(false)
			s.End.Local = i
			table.add(s)
		}
		table.remove(table.at(2))
		table.check()
		spoil(&table)
		if !panics(table.check) {
			t.Errorf("%s: check does not notice", name)
		}
	}
}

func panics(fn func()) (did bool) {
	defer func() { did = recover() != nil }()
	fn()
	return false
}

// TestMaxSessions: sessions of both kinds count together, those too that are connecting or
// closing. The next one is refused until one is forgotten.
func TestMaxSessions(t *testing.T) {
	st := newStub(t, setup{MaxSessions: 3})
	a, b := st.dialTo(1), st.dialTo(2)
	c := st.connectFrom(3, 7, 1)
	if c == nil || st.Live() != 3 {
		t.Fatalf("%d sessions", st.Live())
	}
	st.accepted(a, 1, 9)
	nonce := uint64(100)
	full := func(what string) {
		t.Helper()
		if _, err := st.Dial(stubAddr(4), "", time.Second); !errors.Is(err, ErrExhausted) {
			t.Errorf("%s: one session too many: %v", what, err)
		}
		refused := st.stats.SessionsRefused
		st.take()
		nonce++
		if s := st.connectFrom(4, 7, nonce); s != nil || st.stats.SessionsRefused != refused+1 {
			t.Errorf("%s: a server's session too many", what)
		}
		if ops := st.take(); len(ops) == 0 || ops[len(ops)-1] != wire.OpRefuse {
			t.Errorf("%s: answered with %v", what, ops)
		}
	}
	full("three sessions")
	st.closeConn(a)
	full("one is closing")
	x := alive(a)
	st.receive(1, wire.OpDisconnectAck, a.End.Local, a.End.LocalToken, wire.AliveSize, x.Put)
	st.pass(1000)
	if s := st.connectFrom(4, 7, 2); s == nil || s.End.Local != a.End.Local {
		t.Errorf("no session though one was forgotten: %+v", s)
	}
	full("three again")
	st.closeConn(b) // it was connecting: nobody needs to be told
	if d := st.dialTo(4); d.End.Local != b.End.Local {
		t.Errorf("the session has number %d, free is %d", d.End.Local, b.End.Local)
	}
	st.close()
}
