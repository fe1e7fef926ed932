package erpc

import (
	"github.com/userspace-rpc/erpc/internal/invariants"
	"github.com/userspace-rpc/erpc/transport"
)

// sessionTable holds the sessions of an endpoint: by number, and the server's ends also by the
// attempt to connect that made them. A session is in it until everybody knows that it has ended.
type sessionTable struct {
	first    uint32     // the first number: it says the endpoint's loop
	byNumber []*Session // from first on; nil is free
	free     []uint32   // the number free for longest first
	live     int        // sessions in the table
	byKey    map[connKey]*Session
}

// connKey names an attempt to connect, by what its sender has proved: its association, or without
// one its address.
type connKey struct {
	from  transport.Addr
	via   uint32
	nonce uint64
}

// at returns the session with a number, or nil. Those of other loops are not in the table.
func (t *sessionTable) at(number uint32) *Session {
	i := number - t.first
	if i >= uint32(len(t.byNumber)) {
		return nil
	}
	return t.byNumber[i]
}

// next returns the number that the next session gets.
func (t *sessionTable) next() uint32 {
	if len(t.free) > 0 {
		return t.free[0]
	}
	return t.first + uint32(len(t.byNumber))
}

// add puts s under the number that next has returned, which is s.end.Local.
func (t *sessionTable) add(s *Session) {
	if len(t.free) > 0 {
		t.free = t.free[1:]
		t.byNumber[s.end.Local-t.first] = s
	} else {
		t.byNumber = append(t.byNumber, s)
	}
	t.live++
	if invariants.Enabled {
		t.check()
	}
}

// addKey makes s known by the attempt that opened it.
func (t *sessionTable) addKey(key connKey, s *Session) {
	if t.byKey == nil {
		t.byKey = make(map[connKey]*Session)
	}
	s.srv.key = key
	t.byKey[key] = s
}

// remove takes s out. Its number can be used again.
func (t *sessionTable) remove(s *Session) {
	t.byNumber[s.end.Local-t.first] = nil
	t.free = append(t.free, s.end.Local)
	t.live--
	if s.srv != nil && t.byKey[s.srv.key] == s {
		delete(t.byKey, s.srv.key)
	}
	if invariants.Enabled {
		t.check()
	}
}

// running returns how many requests wait for their handlers.
func (t *sessionTable) running() int {
	n := 0
	for _, s := range t.byNumber {
		if s != nil && s.sv != nil {
			n += s.sv.Running()
		}
	}
	return n
}

// check panics if a number is neither free nor that of the session under it, or both.
func (t *sessionTable) check() {
	if t.live+len(t.free) != len(t.byNumber) {
		panic("erpc: session numbers were lost")
	}
	for _, n := range t.free {
		if t.at(n) != nil {
			panic("erpc: the number of a session is free")
		}
	}
}
