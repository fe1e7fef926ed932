package engine

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/userspace-rpc/erpc/msgbuf"
	"github.com/userspace-rpc/erpc/security"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// TestHonestBesideParts: whoever begins handshakes and does not go on, from one address or from
// thousands, keeps nobody else out. A client that answers at once has its session, though the
// others begin hundreds between any two of its packets.
func TestHonestBesideParts(t *testing.T) {
	for _, networks := range []int{1, 5, 1000} {
		t.Run(fmt.Sprint(networks), func(t *testing.T) {
			p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
			o := &p.server.security.halfOpen
			o.max = heapCost() * 256 << 10
			port := 1
			flood := func(n int) {
				for range n {
					if port++; !begin(p.server, port%networks, port) {
						t.Fatal("a handshake was refused: there is always room for one more")
					}
					if o.cost > o.max {
						t.Fatalf("half-open handshakes cost %d bytes", o.cost)
					}
				}
			}
			flood(1000)
			if p.server.stats.HandshakesEvicted == 0 {
				t.Fatal("there was room for all of them")
			}
			for i := range 3 {
				p.dial(t, setup{PSK: testPSK})
				for range 5 {
					p.turn(i, time.Microsecond)
					flood(150)
				}
				if n := p.clients[i].stats.SessionsOpened; n != 1 {
					t.Errorf("client %d has %d sessions", i, n)
				}
			}
		})
	}
}

// TestHalfOpenCharged: half-open handshakes count as memory of messages, and have a part of it at
// most. All is given back when they expire.
func TestHalfOpenCharged(t *testing.T) {
	st := newStub(t, setup{PSK: testPSK, MemoryLimit: 64 << 20})
	budget := st.Engine.cfg.Book.Budget()
	before := budget.Used()
	for i := range 2000 {
		begin(st, i%3, 1+i)
	}
	o := &st.security.halfOpen
	if used := budget.Used() - before; used < int64(o.cost) || o.cost < 2000*heapCost()*pendingSize {
		t.Errorf("handshakes cost %d bytes, and %d are charged", o.cost, used)
	}
	if o.max != 16<<20 {
		t.Errorf("handshakes may cost %d bytes of a limit of 64 MiB", o.max)
	}
	for range 20 {
		st.pass(st.cfg.Timing.ConnectTimeout / 10)
	}
	if n := budget.Used() - before; n != 0 || o.cost != 0 || len(o.shares) != 0 {
		t.Errorf("after they have expired: %d bytes are charged, %d counted", n, o.cost)
	}
}

// TestHeapCost: a byte on the heap counts for all that the collector allows beside it.
func TestHeapCost(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for percent, want := range map[int]int{50: 2, 100: 2, 101: 3, 400: 5, 5000: maxHeapCost,
		-1: maxHeapCost} {
		debug.SetGCPercent(percent)
		if n := newHalfOpen(msgbuf.NewBudget(1 << 20)).perByte; n != want {
			t.Errorf("with GOGC at %d a byte costs %d, want %d", percent, n, want)
		}
	}
}

// TestHalfOpenModel: the share that costs most loses the handshake that has got on longest ago, and
// all counts agree, whatever comes.
func TestHalfOpenModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newHalfOpen(msgbuf.NewBudget(1 << 20))
		lines := map[byte][]*pendingHandshake{} // by share, in the order of getting on
		var ended []*pendingHandshake
		next := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := rapid.ByteRange(0, 3).Draw(t, "share")
			line := lines[key]
			switch op := rapid.IntRange(0, 4).Draw(t, "op"); {
			case op == 0 || len(line) == 0:
				next++
				p := &pendingHandshake{key: connKey{nonce: next}, gone: make(chan struct{})}
				o.add(p, transport.Addr{Port: uint32(key)})
				lines[key] = append(line, p)
			case op == 1:
				p := line[rapid.IntRange(0, len(line)-1).Draw(t, "which")]
				p.in = make([]byte, rapid.IntRange(0, 9000).Draw(t, "bytes"))
				o.weigh(p)
			case op == 2:
				i := rapid.IntRange(0, len(line)-1).Draw(t, "which")
				o.gotOn(line[i])
				lines[key] = append(slices.Delete(slices.Clone(line), i, i+1), line[i])
			case op == 3:
				i := rapid.IntRange(0, len(line)-1).Draw(t, "which")
				o.conclude(line[i])
				ended = append(ended, line[i])
				lines[key] = slices.Delete(slices.Clone(line), i, i+1)
			case len(ended) > 0:
				o.remove(ended[0])
				ended = ended[1:]
			}
			all, most := 0, 0
			oldest := uint64(1 << 63)
			for _, line := range lines {
				most = max(most, len(line))
			}
			for _, line := range append(slices.Collect(maps.Values(lines)), ended) {
				for _, p := range line {
					all += p.cost
				}
			}
			for _, line := range lines {
				if len(line) == most && most > 0 {
					oldest = min(oldest, line[0].step)
				}
			}
			if o.cost != all || o.over() != (all > o.max) {
				t.Fatalf("cost %d, want %d; over: %v", o.cost, all, o.over())
			}
			switch v := o.victim(); {
			case len(ended) > 0 && v != ended[0]:
				t.Fatal("one that has ended is kept")
			case len(ended) == 0 && most > 0 && v.step != oldest:
				t.Fatal("another one is given up")
			case len(ended) == 0 && most == 0 && v != nil:
				t.Fatal("there is none")
			}
		}
	})
}

// TestStreamHoldsLittle: of what a peer says no more is held than a message may have, whatever
// comes in which order; and all of it is there in the end.
func TestStreamHoldsLittle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var said, heard []byte
		for range rapid.IntRange(1, 3).Draw(t, "messages") {
			n := rapid.SampledFrom([]int{1, 2, 700, 9000, security.MaxFrame - 4}).Draw(t, "bytes")
			said = append(said, 0, 0, byte(n), byte(n>>8))
			for i := range n {
				said = append(said, byte(i*7))
			}
		}
		var s stream
		for range 10_000 {
			if s.got == len(said) && len(s.in) == 0 {
				break
			}
			from := rapid.IntRange(max(0, s.got-2000), min(len(said), s.got+100)).Draw(t, "from")
			part := said[from:min(len(said), from+1400)]
			if !s.take(uint32(from), part) {
				t.Fatal("too much")
			}
			if len(s.in) > security.MaxFrame {
				t.Fatalf("%d bytes are held", len(s.in))
			}
			whole, err := s.next(false)
			if err != nil {
				t.Fatal(err)
			}
			heard = append(heard, whole...)
		}
		if string(heard) != string(said) {
			t.Fatalf("%d bytes of %d were heard", len(heard), len(said))
		}
	})
}

// TestStepsTakeTurns: a share that has many steps waits for its own: another one's step is the next
// but one.
func TestStepsTakeTurns(t *testing.T) {
	var s steps // no worker runs
	var ran []int
	submit := func(share uint32, n int) (taken int) {
		for ; taken < n; taken++ {
			if !s.submit(transport.Addr{Port: share}, func() { ran = append(ran, int(share)) }) {
				break
			}
		}
		return taken
	}
	if n := submit(1, maxSteps); n != maxSteps/quotaDivisor {
		t.Fatalf("one share has %d steps", n)
	}
	submit(2, 1)
	submit(3, 2)
	for range 6 {
		s.next()()
	}
	if want := []int{1, 2, 3, 1, 3, 1}; !slices.Equal(ran, want) {
		t.Errorf("steps ran in the order %v, want %v", ran, want)
	}
	for s.waiting > 0 {
		s.next()()
	}
	if len(s.lines)+len(s.turns) != 0 {
		t.Errorf("%d lines are left", len(s.lines))
	}
}

// TestStepGivesWay: a step that waits for a worker has the loop give way to goroutines. One that
// has no room, or runs in the loop itself, does not.
func TestStepGivesWay(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting int
		inline  bool
		ok      bool
		handed  int
	}{
		{"room", maxSteps - 1, false, true, 1},
		{"no room", maxSteps, false, false, 0},
		{"in the loop", 0, true, true, 0},
	} {
		e, ran := &Engine{security: &endpointSecurity{keys: &Keys{}}}, 0
		e.security.keys.steps.waiting = c.waiting
		e.security.inline = c.inline
		ok := e.step(transport.Addr{}, nil, nil,
			func(context.Context) stepResult { ran++; return stepResult{} },
			func(stepResult) { ran++ })
		if ok != c.ok || e.Handed != c.handed || ran == 2 != c.inline {
			t.Errorf("%s: %t, %d handed over, ran %d", c.name, ok, e.Handed, ran)
		}
	}
}

// TestHooksLeaveWorkers: while questions to the application are open, other steps go on. Beyond a
// bound there are no more of them, and one share has a quarter.
func TestHooksLeaveWorkers(t *testing.T) {
	var s steps
	s.max = 1
	one, other := transport.Addr{Port: 1}, transport.Addr{Port: 2}
	ask := func(share transport.Addr) bool {
		if !s.mayPause(share) {
			return false
		}
		s.running++ // a worker came
		if s.pause(share); s.running != 0 {
			t.Fatal("the step keeps its worker")
		}
		return true
	}
	for i := range maxHooks / quotaDivisor {
		if !ask(one) {
			t.Fatalf("question %d is refused", i)
		}
	}
	if ask(one) || !ask(other) {
		t.Fatal("a share has more than it may have, or another one less")
	}
	for i := 2; ask(transport.Addr{Port: uint32(2 + i%(2*quotaDivisor))}); i++ {
	}
	if s.hooks != maxHooks {
		t.Errorf("%d questions are open, want %d", s.hooks, maxHooks)
	}
	if s.hookEnds(one); !ask(one) || ask(one) {
		t.Error("a share has not what it may have")
	}
}

// TestWorkersRest: where sessions are in use a worker rests behind a step of a client's handshake.
// It does not if nobody else wants the processor, if what comes belongs to sessions that open, for
// a step of this side's own, or where it did nothing.
func TestWorkersRest(t *testing.T) {
	for _, c := range []struct {
		name      string
		datagrams int64 // in 10 ms
		sessions  uint64
		own, gone bool
		rests     bool
	}{
		{"nobody else", 0, 0, false, false, false},
		{"a call now and then", 49, 0, false, false, false},
		{"calls", 50, 0, false, false, true},
		{"sessions that open", 249, 50, false, false, false},
		{"those, and calls", 250, 50, false, false, true},
		{"own", 1000, 0, true, false, false},
		{"gone", 1000, 0, false, true, false},
	} {
		st := newStub(t, setup{PSK: testPSK})
		st.security.inline = false
		k, slept := st.security.keys, 0
		k.steps.max = 0 // no worker comes
		k.sleep = func(time.Duration) { slept++ }
		gone := make(chan struct{})
		if c.gone {
			close(gone)
		}
		if c.own {
			gone = nil
		}
		for range 2 { // at the first look, and at one after it
			st.in.Now = st.in.Now.Add(10 * time.Millisecond)
			st.recordLayer.usage.look(st.in.Now, st.stats.SessionsOpened)
			st.in.Now = st.in.Now.Add(10 * time.Millisecond)
			st.recordLayer.usage.opened += c.datagrams
			st.stats.SessionsOpened += c.sessions
			work := func(context.Context) stepResult { return stepResult{} }
			if !st.step(transport.Addr{}, gone, nil, work, func(stepResult) {}) {
				t.Fatal("there is no room")
			}
			k.steps.next()()
		}
		if want := map[bool]int{true: 2}[c.rests]; slept != want {
			t.Errorf("%s: a worker rests %d times behind 2 steps, want %d", c.name, slept, want)
		}
	}
}

// TestRest: a rest is as long as its step allows, and no longer than its bound.
func TestRest(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: 0, 100 * time.Microsecond: 500 * time.Microsecond, time.Second: maxRest,
	} {
		if d := rest(took); d != want {
			t.Errorf("behind %v a worker rests for %v, want %v", took, d, want)
		}
	}
}

// TestUsageCounts: datagrams that were opened by keys count as use, and forged ones do not.
func TestUsageCounts(t *testing.T) {
	p := newPendingRig(t, 1)
	var last []byte
	p.said = func(pkt []byte) {
		if wire.IsSealed(pkt) {
			last = bytes.Clone(pkt)
		}
	}
	if !p.opens(0) || last == nil {
		t.Fatal("no session")
	}
	u := &p.server.recordLayer.usage
	if u.opened == 0 || u.opened > perOpening {
		t.Errorf("a session opens with %d sealed datagrams, want 1 to %d", u.opened, perOpening)
	}
	before := u.opened
	last[len(last)-1]++
	p.server.end.in = append(p.server.end.in, transport.RxPacket{Data: last, From: stubAddr(2)})
	p.server.pass(time.Microsecond)
	if p.server.stats.DropSealed == 0 || u.opened != before {
		t.Error("a forged datagram counts as use, or was none")
	}
}

// TestPartsMakeNoGarbage: parts of messages that nobody ends reuse the memory of earlier ones, and
// keep their bytes.
func TestPartsMakeNoGarbage(t *testing.T) {
	o := newHalfOpen(msgbuf.NewBudget(64 << 20))
	const rounds = 100
	said := make([]byte, 15<<10)
	round := func(i int) {
		n := &pendingHandshake{key: connKey{nonce: uint64(i)}, gone: make(chan struct{})}
		o.add(n, transport.Addr{})
		for j := range said {
			said[j] = byte(i + j)
		}
		for at := 0; at < len(said); at += 1024 {
			o.room(n, 1024)
			n.take(uint32(at), said[at:at+1024])
		}
		if !bytes.Equal(n.in, said) {
			t.Fatal("parts are not what was said")
		}
		o.conclude(n)
		o.remove(n)
	}
	round(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range rounds {
		round(1 + i)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) / rounds; n > 8<<10 {
		t.Errorf("%d bytes of parts take %d bytes anew", len(said), n)
	}
	for i := range 2 * maxSpare {
		n := &pendingHandshake{key: connKey{nonce: uint64(i)}, gone: make(chan struct{})}
		n.in = make([]byte, leastSpare)
		o.add(n, transport.Addr{})
		o.conclude(n)
		o.remove(n)
	}
	if len(o.spare) > maxSpare {
		t.Errorf("%d pieces are kept", len(o.spare))
	}
}

// TestNoRoomForItself: a handshake that alone costs more than all may is given up, and nothing else
// happens to the endpoint.
func TestNoRoomForItself(t *testing.T) {
	p := &pendingRig{server: newStub(t, setup{PSK: testPSK})}
	p.server.security.halfOpen.max = 1
	p.dial(t, setup{PSK: testPSK})
	for range 10 {
		p.turn(0, 10*time.Millisecond)
	}
	if n := p.server.stats.HandshakesEvicted; n == 0 || p.clients[0].stats.SessionsOpened != 0 {
		t.Errorf("%d handshakes were given up", n)
	}
}

// TestOwnDialsAreHandshakes: a dial of this side whose keys are being made counts as a handshake
// under way, and no longer than it may take.
func TestOwnDialsAreHandshakes(t *testing.T) {
	client := newStub(t, setup{PSK: testPSK})
	s := client.dialTo(1)
	client.pass(time.Microsecond)
	if client.Handshaking(client.now) {
		t.Error("a dial without a handshake counts")
	}
	who := [whoSize]byte{0: 7, 9: wire.SealedVersion}
	client.onChallenge(s, &wire.Challenge{Nonce: s.dialer.Connect.Nonce}, who[:])
	if !client.Handshaking(client.now) {
		t.Error("a dial whose keys are being made does not count")
	}
	if client.Handshaking(client.now.Add(-2 * client.cfg.Timing.ConnectTimeout)) {
		t.Error("it counts for one who has waited for as long as a dial may take")
	}
}
