package engine

import (
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

func TestHalfOpenCount(t *testing.T) {
	const quarter, known = maxPending / quotaDivisor, maxKnown / quotaDivisor
	for _, c := range []struct {
		name     string
		all, own halfOpen
		room     bool
	}{
		{"nobody", halfOpen{}, halfOpen{}, true},
		{"the last under way", halfOpen{maxPending - 1, 0, 0}, halfOpen{}, true},
		{"too many under way", halfOpen{maxPending, 0, 0}, halfOpen{}, false},
		{"the last remembered", halfOpen{0, maxKnown - 1, 0}, halfOpen{}, true},
		{"too many remembered", halfOpen{0, maxKnown, 0}, halfOpen{}, false},
		{"the last of a quota", halfOpen{quarter, known, 0}, halfOpen{quarter - 1, known - 1, 0}, true},
		{"too many of a quota under way", halfOpen{quarter, known, 0}, halfOpen{quarter, 0, 0}, false},
		{"too many of a quota remembered", halfOpen{quarter, known, 0}, halfOpen{0, known, 0}, false},
	} {
		if got := c.all.room(c.own); got != c.room {
			t.Errorf("%s: room %t", c.name, got)
		}
	}
}

// A quota that has had all that it may have leaves room for others, and has room again when its
// handshakes are forgotten.
func TestHalfOpenOfQuotas(t *testing.T) {
	sec := &endpointSecurity{halfOpen: make(map[transport.Addr]halfOpen)}
	one, other := transport.Addr{Port: 1}, transport.Addr{Port: 2}
	for range maxPending / quotaDivisor {
		sec.count(one, halfOpen{active: 1, known: 1})
	}
	if sec.all.room(sec.halfOpen[one]) || !sec.all.room(sec.halfOpen[other]) {
		t.Error("the quota has room, or others have none")
	}
	for range maxPending / quotaDivisor {
		sec.count(one, halfOpen{active: -1}) // its handshakes end
	}
	known := halfOpen{known: maxPending / quotaDivisor}
	if sec.halfOpen[one] != known || sec.all != known {
		t.Errorf("after the end: %+v, %+v in all", sec.halfOpen[one], sec.all)
	}
	for range maxPending / quotaDivisor {
		sec.count(one, halfOpen{known: -1})
	}
	if len(sec.halfOpen) != 0 || sec.all != (halfOpen{}) {
		t.Errorf("%d quotas are counted, %+v in all", len(sec.halfOpen), sec.all)
	}
}

// A step that waits for a worker has the loop give way to goroutines. One that has no room, or runs
// in the loop itself, does not.
func TestStepGivesWay(t *testing.T) {
	queue := func(waiting int) *Engine {
		e := &Engine{security: &endpointSecurity{keys: &Keys{}}} // no worker ever runs
		e.security.keys.queue.waiting = make([]func(), waiting)
		return e
	}
	for _, c := range []struct {
		name    string
		waiting int
		inline  bool
		ok      bool
		handed  int
	}{
		{"room", maxHandshakes - 1, false, true, 1},
		{"no room", maxHandshakes, false, false, 0},
		{"in the loop", 0, true, true, 0},
	} {
		e, ran := queue(c.waiting), 0
		e.security.inline = c.inline
		ok := e.step(transport.Addr{}, nil, func() { ran++ }, func() { ran++ })
		if ok != c.ok || e.Handed != c.handed || ran == 2 != c.inline {
			t.Errorf("%s: %t, %d handed over, ran %d", c.name, ok, e.Handed, ran)
		}
	}
}

// TestStepsOfQuotas: one quota fills a quarter of the queue of steps, whatever number of loops its
// handshakes are with. Others have room, and it has again when its steps have begun.
func TestStepsOfQuotas(t *testing.T) {
	g := &Keys{}
	fill := func(network byte) (n int) {
		quotaKey := transport.Addr{Port: uint32(network)}
		for ; n < 2*maxHandshakes; n++ {
			e := &Engine{security: &endpointSecurity{keys: g}} // each is of another loop
			if !e.step(quotaKey, nil, func() {}, func() {}) {
				return n
			}
		}
		return n
	}
	for i := range byte(quotaDivisor) {
		if n := fill(i); n != maxHandshakes/quotaDivisor {
			t.Errorf("quota %d has %d steps", i, n)
		}
	}
	if n := fill(quotaDivisor); n != 0 {
		t.Errorf("%d steps beyond all", n)
	}
	for _, fn := range g.queue.waiting[:10] {
		func() {
			defer func() { _ = recover() }() // there is no loop
			fn()
		}()
	}
	g.queue.waiting = g.queue.waiting[10:]
	if n, m := fill(1), fill(0); n != 0 || m != 10 {
		t.Errorf("%d and %d further steps", n, m)
	}
}

// TestEarlyOfQuotas: sealed datagrams that came before their keys have a bound, and those of a
// quota a quarter of it.
func TestEarlyOfQuotas(t *testing.T) {
	const quarter = maxAllEarly / quotaDivisor
	for _, c := range []struct {
		all, own, size int
		room           bool
	}{
		{0, 0, maxEarly, true}, {0, 0, maxEarly + 1, false},
		{maxAllEarly - 100, 0, 100, true}, {maxAllEarly - 100, 0, 101, false},
		{quarter, quarter - 100, 100, true}, {quarter, quarter - 100, 101, false},
	} {
		if room := (halfOpen{early: c.all}).roomEarly(halfOpen{early: c.own}, c.size); room != c.room {
			t.Errorf("%+v: room %v", c, room)
		}
	}
}
