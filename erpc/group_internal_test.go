package erpc

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/wire"
)

// stubLoops makes endpoints of one address on stub transports, all with one clock.
func stubLoops(t *testing.T, n int) []*stub {
	t.Helper()
	first := newStub(t, Config{Burst: 16})
	var trs []transport.Transport
	var list []*stub
	for range n {
		end := &stubEnd{way: first.end.way}
		trs = append(trs, end)
		list = append(list, &stub{end: end, now: 1e9, tb: t})
	}
	rpcs, err := first.nexus.NewRpcs(trs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rpcs {
		list[i].Rpc = r
	}
	return list
}

// junk returns a request for a session field from an address.
func junk(field uint32, from transport.Addr, number uint64) transport.RxPacket {
	pkt := make([]byte, wire.HeaderSize+8)
	h := wire.Header{Type: wire.TypeReq, MsgSize: 8, Session: field, ReqNum: number}
	h.Put(pkt, 77)
	binary.LittleEndian.PutUint64(pkt[wire.HeaderSize:], number)
	return transport.RxPacket{Data: pkt, From: from}
}

// hostAddr returns an IPv4 address.
func hostAddr(last byte) (a transport.Addr) {
	a.IP[10], a.IP[11], a.IP[12], a.IP[15], a.Port = 0xFF, 0xFF, 10, last, 9
	return a
}

// TestInboxRows: a flood of one address fills its row and no other, and rows take turns.
// Losses are counted, and so is a packet for a loop that does not run.
func TestInboxRows(t *testing.T) {
	loops := stubLoops(t, 2)
	a, b := loops[0], loops[1]
	bad, good := hostAddr(1), hostAddr(2)
	for i := byte(2); i < 99 && rowOf(&good) == rowOf(&bad); i++ {
		good = hostAddr(i)
	}
	second := wire.FirstOf(2)
	const flood = 10 * rowSlots
	for i := range uint64(flood) {
		a.end.in = append(a.end.in, junk(second, bad, i))
	}
	a.end.in = append(a.end.in, junk(second, good, 1), junk(wire.FirstOf(3), bad, 1),
		junk(wire.FirstOf(0), bad, 1), junk(wire.FirstOf(1), bad, 1))
	for len(a.end.in) > 0 {
		a.pass(1000)
	}
	st := a.snapshot()
	if st.HandedOver != rowSlots+1 || st.DropHandover != flood-rowSlots || st.DropNoLoop != 2 ||
		st.DropNoSession != 1 {
		t.Errorf("over %d, full %d, no loop %d, no session %d", st.HandedOver, st.DropHandover,
			st.DropNoLoop, st.DropNoSession)
	}
	if b.NextWake() != b.now {
		t.Errorf("the other loop sleeps until %d, it is %d", b.NextWake(), b.now)
	}
	got := make([]transport.RxPacket, 3)
	n := b.inbox.take(got)
	mine := 0
	for _, p := range got[:n] {
		if p.From == good {
			mine++
		}
	}
	if n != 3 || mine != 1 {
		t.Errorf("%d packets, %d of the honest peer", n, mine)
	}
	b.pass(1000)
	burst := uint64(b.cfg.Burst)
	if st := b.snapshot(); st.HandedIn != burst || st.DropNoSession != burst {
		t.Errorf("a pass took %d packets, %d were looked at; want %d", st.HandedIn,
			st.DropNoSession, burst)
	}
	for b.hasHanded() {
		b.pass(1000)
	}
	if st := b.snapshot(); st.HandedIn != rowSlots+1-3 || st.RxPackets != st.HandedIn {
		t.Errorf("%d handed in, %d received", st.HandedIn, st.RxPackets)
	}
}

// TestInboxKeepsBytes: packets are copies, in their order, and stay as they are until more are
// taken. Sizes differ, so buffers are used again for smaller ones.
func TestInboxKeepsBytes(t *testing.T) {
	b := &inbox{taken: make([]handed, 4)}
	from := hostAddr(1)
	next := byte(0)
	for round := range 50 {
		var want [][]byte
		for i := range 1 + round%4 {
			data := make([]byte, 1+(round*7+i*3)%40)
			for j := range data {
				data[j] = next
			}
			next++
			want = append(want, append([]byte(nil), data...))
			if !b.put(&transport.RxPacket{Data: data, From: from, CE: i == 1}) {
				t.Fatal("no room")
			}
			clear(data) // the transport uses its memory again
		}
		got := make([]transport.RxPacket, 4)
		if n := b.take(got); n != len(want) {
			t.Fatalf("%d packets, want %d", n, len(want))
		}
		for range rowSlots { // all slots are used again
			if !b.put(&transport.RxPacket{Data: make([]byte, 50), From: from}) {
				t.Fatal("no room")
			}
		}
		for i, w := range want {
			if p := got[i]; string(p.Data) != string(w) || p.From != from || p.CE != (i == 1) {
				t.Fatalf("round %d, packet %d: %+v, want % x", round, i, p, w)
			}
		}
		rest := 0
		for n := 1; n > 0; rest += n {
			n = b.take(got)
		}
		if rest != rowSlots || b.waiting.Load() != 0 {
			t.Fatal("packets were miscounted")
		}
	}
}

// TestPlace: all loops find the same place, places are spread, and the end of a loop moves only
// its own sessions.
func TestPlace(t *testing.T) {
	loops := stubLoops(t, 5)
	g := loops[0].group
	count := map[uint8]int{}
	before := map[uint64]uint8{}
	for i := range uint64(5000) {
		number := i * 0x9E3779B97F4A7C15 // as different as the numbers of attempts are
		before[number] = g.Place(number, 0)
		count[before[number]]++
	}
	for loop := uint8(1); loop <= 5; loop++ {
		if count[loop] < 850 || count[loop] > 1150 {
			t.Errorf("loop %d gets %d of 5000", loop, count[loop])
		}
	}
	if err := loops[2].Close(); err != nil {
		t.Fatal(err)
	}
	for number, loop := range before {
		switch now := g.Place(number, 0); {
		case loop == 3 && now == 3:
			t.Fatal("a place in a loop that has ended")
		case loop != 3 && now != loop:
			t.Fatalf("the place moved from loop %d to %d", loop, now)
		}
	}
	if g.Place(1, 2) != 2 || g.Place(1, 3) == 3 || g.Place(1, 6) > 5 || g.Place(1, wire.MaxLoop) > 5 {
		t.Error("the loop that was asked for is not chosen")
	}
}

// TestNewRpcsRefuses: transports that cannot share an address are refused, and none stays open.
func TestNewRpcsRefuses(t *testing.T) {
	n, err := NewNexus(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ ends, other, small int }{
		"none": {0, -1, -1}, "too many": {MaxLoops + 1, -1, -1},
		"two addresses": {3, 1, -1}, "packets too small": {3, -1, 2},
	} {
		var trs []transport.Transport
		var ends []*closingEnd
		for i := range c.ends {
			e := &closingEnd{stubEnd: stubEnd{way: transport.Path{MTU: stubMTU}}}
			if i == c.small {
				e.way.MTU = MinMTU - 1
			}
			if i == c.other {
				e.local = stubAddr(7)
			}
			ends, trs = append(ends, e), append(trs, e)
		}
		rpcs, err := n.NewRpcs(trs)
		var bad *ConfigError
		if !errors.As(err, &bad) || rpcs != nil {
			t.Errorf("%s: %v, %v", name, rpcs, err)
		}
		for i, e := range ends {
			if e.closed != 1 {
				t.Errorf("%s: transport %d was closed %d times", name, i, e.closed)
			}
		}
	}
	end := &stubEnd{way: transport.Path{MTU: stubMTU}}
	rpcs, err := n.NewRpcs([]transport.Transport{end})
	if err != nil || len(rpcs) != 1 || rpcs[0].engine.Loop() != 0 || rpcs[0].inbox != nil {
		t.Errorf("one alone: %v, %v", rpcs, err)
	}
}

// closingEnd counts how often it is closed.
type closingEnd struct {
	stubEnd
	local  transport.Addr
	closed int
}

func (e *closingEnd) LocalAddr() transport.Addr { return e.local }
func (e *closingEnd) Close() error {
	e.closed++
	return nil
}
