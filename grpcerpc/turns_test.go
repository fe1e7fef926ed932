package grpcerpc

import "testing"

// TestTurns: the loop is told once, streams keep their order, and one that others wait behind says
// a turn at most.
func TestTurns(t *testing.T) {
	var line turns[*clientStream]
	a, b, c := new(clientStream), new(clientStream), new(clientStream)
	add := func(s *clientStream, want bool) {
		t.Helper()
		if line.add(s) != want {
			t.Errorf("add: the loop is told: %v", !want)
		}
	}
	next := func(want *clientStream, most int) {
		t.Helper()
		if s, room, ok := line.next(maxBatch); s != want || room != most || ok != (want != nil) {
			t.Errorf("next: %p with %d bytes, want %p with %d", s, room, want, most)
		}
	}
	add(a, true)
	add(b, false) // the loop is told already
	add(a, false) // ... and a in the line
	next(a, turn)
	add(a, false) // another turn
	next(b, turn) // a waits behind it
	next(a, maxBatch)
	next(nil, 0)
	add(c, false)
	line.expect(false)
	add(b, true)
	add(a, false)
	line.expect(true)
	line.again(a)
	line.again(c)
	next(c, turn)
	line.again(c)
	line.again(c) // it is in the line
	if list := line.drop(); len(list) != 3 || list[0] != b || list[1] != a || list[2] != c {
		t.Errorf("dropped %v", list)
	}
	next(nil, 0)
	line.expect(false)
	line.expect(true)
	d, e := new(clientStream), new(clientStream)
	add(d, false) // the loop looks anyway
	add(e, false)
	if s, room, ok := line.next(turn - 1); s != d || room != turn-1 || !ok {
		t.Errorf("next: %p with %d bytes of the %d that are left", s, room, turn-1)
	}
}
