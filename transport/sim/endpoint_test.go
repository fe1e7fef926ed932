package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

func TestAddresses(t *testing.T) {
	n := newNet(t, Config{})
	a := open(t, n, EndpointConfig{Node: 0})
	b := open(t, n, EndpointConfig{Node: 0})
	c := open(t, n, EndpointConfig{Node: 300, Port: 5})
	want(t, "first", a.LocalAddr().String(), "[fd00::]:31850")
	want(t, "second", b.LocalAddr().String(), "[fd00::]:31851")
	want(t, "third", c.LocalAddr().String(), "[fd00::12c]:5")
	for _, e := range []*Endpoint{a, b, c} {
		got, err := a.Resolve(e.LocalAddr().String())
		if got != e.LocalAddr() || err != nil {
			t.Errorf("Resolve(%v) = %v, %v", e.LocalAddr(), got, err)
		}
	}
	for _, s := range []string{"", "nobody", "127.0.0.1:5", "[fd01::1]:5", "[fd00::1%2]:5",
		"[fd00::1]:0", "[fd00::1:0:0:1]:5"} {
		if _, err := a.Resolve(s); !errors.Is(err, transport.ErrBadAddress) {
			t.Errorf("Resolve(%q): %v", s, err)
		}
	}
	if _, err := n.NewEndpoint(EndpointConfig{Node: 300, Port: 5}); err == nil {
		t.Error("bound a port twice")
	}
}

// A packet that cannot be sent counts as taken; one without a listener is lost.
func TestUnsendable(t *testing.T) {
	n := newNet(t, Config{MTU: 100})
	a, b := pairOf(t, n)
	to := b.LocalAddr()
	nobody := to
	nobody.Port = 9
	far := nodeAddr(77, 5)
	got, err := a.TxBurst([]transport.TxItem{
		{Dst: to, Head: make([]byte, 60), Data: make([]byte, 41)},
		{Dst: to, Head: make([]byte, 60), Data: make([]byte, 40)},
		{Dst: transport.Addr{}, Head: []byte{1}}, {Dst: far, Head: []byte{1}},
		{Dst: nobody, Head: []byte{1}}, {Dst: to},
	})
	if got != 6 || err != nil {
		t.Fatalf("TxBurst: %d, %v", got, err)
	}
	for n.Step() {
	}
	want(t, "TxDropped", a.Stats().TxDropped, 3)
	want(t, "TxPackets", a.Stats().TxPackets, 3)
	want(t, "TxBytes", a.Stats().TxBytes, 101)
	want(t, "NoEndpoint", n.Stats().NoEndpoint, 1)
	var sizes []int
	receive(t, b, func(p *transport.RxPacket) { sizes = append(sizes, len(p.Data)) })
	if len(sizes) != 2 || sizes[0] != 100 || sizes[1] != 0 {
		t.Errorf("sizes %v, want 100 and 0", sizes)
	}
}

// Without faults a flow arrives in order, through queues of any kind, and bytes
// and sender are right.
func TestFIFO(t *testing.T) {
	for _, c := range []Config{{}, {PropDelay: 77}, CX4(1),
		{LinkBitsPerSec: 1e9, CutThrough: true, Racks: 2}} {
		n := newNet(t, c)
		a, b := pairOf(t, n)
		twin := open(t, n, EndpointConfig{Node: 1}) // same node as b
		next := map[transport.Addr]int{}
		attach(t, b, func(_ Time, p *transport.RxPacket) {
			if number(p.Data) != next[p.From] {
				t.Fatalf("packet %d of %v, want %d", number(p.Data), p.From, next[p.From])
			}
			next[p.From]++
		})
		for i := range 100 {
			n.After(time.Duration(i*100), func() {
				send(t, a, b.LocalAddr(), i*5, 5, 10+i*7)
				send(t, twin, b.LocalAddr(), i*5, 5, 700-i*7)
			})
		}
		for n.Step() {
		}
		if next[a.LocalAddr()] != 500 || next[twin.LocalAddr()] != 500 {
			t.Errorf("received %v", next)
		}
	}
}

// The ring drops from its tail and counts.
func TestRingOverflow(t *testing.T) {
	n := newNet(t, Config{RxRing: 8})
	a, b := pairOf(t, n)
	send(t, a, b.LocalAddr(), 0, 11, 20)
	for n.Step() {
	}
	want(t, "dropped", b.Stats().RxDropped, 3)
	want(t, "overflow", n.Stats().Overflow, 3)
	next := 0
	receive(t, b, func(p *transport.RxPacket) { want(t, "packet", number(p.Data), next); next++ })
	want(t, "received", next, 8)
	send(t, a, b.LocalAddr(), 0, 8, 20)
	for n.Step() {
	}
	want(t, "received after room was made", receive(t, b, nil), 8)
}

// The packets of one RxBurst are intact until the next, whatever else arrives.
func TestReceivedStaysValid(t *testing.T) {
	n := newNet(t, Config{})
	a, b := pairOf(t, n)
	send(t, a, b.LocalAddr(), 0, 4, 20)
	for n.Step() {
	}
	var pkts [4]transport.RxPacket
	if got, err := b.RxBurst(pkts[:]); got != 4 || err != nil {
		t.Fatal(got, err)
	}
	send(t, a, b.LocalAddr(), 100, 50, 20)
	for n.Step() {
	}
	for i := range pkts {
		want(t, "packet", number(pkts[i].Data), i)
	}
	want(t, "after", receive(t, b, nil), 50)
}

// A full output queue stalls TxBurst, and the driver runs again when there is room.
func TestTxRing(t *testing.T) {
	n := newNet(t, Config{LinkBitsPerSec: 8e9}) // 1 ns a byte
	a := open(t, n, EndpointConfig{Node: 0, TxRing: 2})
	b := open(t, n, EndpointConfig{Node: 1})
	d := &blaster{a: a, to: b.LocalAddr(), left: 5}
	n.Attach(a, d)
	for n.Step() {
	}
	want(t, "received", receive(t, b, nil), 5)
	want(t, "stalls", a.Stats().TxStalls, 3)
	for i, at := range []Time{0, 100, 200, 300} {
		if i >= len(d.runs) || d.runs[i] != StartTime+at {
			t.Fatalf("runs at %v", d.runs)
		}
	}
}

// blaster offers all it has left at each run.
type blaster struct {
	a    *Endpoint
	to   transport.Addr
	left int
	runs []Time
}

func (d *blaster) RunOnce() {
	d.runs = append(d.runs, d.a.net.Now())
	items := make([]transport.TxItem, d.left)
	for i := range items {
		items[i] = transport.TxItem{Dst: d.to, Head: make([]byte, 100)}
	}
	n, _ := d.a.TxBurst(items)
	d.left -= n
}

func (d *blaster) NextWake() Time { return Never }

func TestClose(t *testing.T) {
	n := newNet(t, Config{PropDelay: 100})
	a, b := pairOf(t, n)
	send(t, a, b.LocalAddr(), 0, 3, 10)
	n.RunUntil(n.Now() + 500)
	send(t, a, b.LocalAddr(), 3, 3, 10)
	for range 2 {
		must(t, b.Close())
	}
	if _, err := b.RxBurst(nil); err != transport.ErrClosed {
		t.Error("RxBurst:", err)
	}
	if _, err := b.TxBurst(nil); err != transport.ErrClosed {
		t.Error("TxBurst:", err)
	}
	want(t, "Wait", b.Wait(time.Hour), transport.ErrClosed)
	// Packets on the way are received by the next owner of the address.
	b2 := open(t, n, EndpointConfig{Node: 1})
	want(t, "address", b2.LocalAddr(), b.LocalAddr())
	for n.Step() {
	}
	first := -1
	want(t, "received", receive(t, b2, func(p *transport.RxPacket) {
		if first < 0 {
			first = number(p.Data)
		}
	}), 3)
	want(t, "first", first, 3)
}

// After a crash nothing that was in the ring or on the way is ever received;
// what the endpoint sent before is.
func TestCrashAndRestart(t *testing.T) {
	n := newNet(t, Config{PropDelay: 100})
	a, b := pairOf(t, n)
	send(t, a, b.LocalAddr(), 0, 3, 10)
	n.RunUntil(n.Now() + 500) // in the ring
	send(t, a, b.LocalAddr(), 3, 3, 10)
	send(t, b, a.LocalAddr(), 0, 2, 10)
	b.Crash()
	b.Crash()
	if _, err := b.RxBurst(nil); err != transport.ErrClosed {
		t.Error("RxBurst:", err)
	}
	b2 := open(t, n, EndpointConfig{Node: 1})
	b.Crash() // of no effect on its successor
	send(t, a, b2.LocalAddr(), 6, 1, 10)
	for n.Step() {
	}
	var got []int
	receive(t, b2, func(p *transport.RxPacket) { got = append(got, number(p.Data)) })
	if len(got) != 1 || got[0] != 6 {
		t.Errorf("received %v, want only 6", got)
	}
	want(t, "sent before the crash", receive(t, a, nil), 2)
	want(t, "NoEndpoint", n.Stats().NoEndpoint, 3)
	want(t, "packets in use", n.inUse(), 0)
}

// inUse counts packets that are not free.
func (n *Network) inUse() int {
	k := len(n.pool.all)
	for _, f := range n.pool.free {
		k -= len(f)
	}
	return k
}

// Bursts and simulation allocate nothing once the pools have grown.
func TestNoAllocation(t *testing.T) {
	c := CX4(1)
	c.Faults = Faults{Loss: .01, Duplicate: .01, Corrupt: .01, Reorder: .1, ReorderDelay: 5000,
		Jitter: 100}
	n := newNet(t, c)
	a, b := pairOf(t, n)
	echo := attach(t, b, nil)
	echo.f = func(_ Time, p *transport.RxPacket) {
		items := [1]transport.TxItem{{Dst: p.From, Head: p.Data}}
		if _, err := b.TxBurst(items[:]); err != nil {
			t.Fatal(err)
		}
	}
	attach(t, a, nil)
	head, data := make([]byte, 24), make([]byte, 900)
	items := []transport.TxItem{{Dst: b.LocalAddr(), Head: head, Data: data},
		{Dst: b.LocalAddr(), Head: head}}
	round := func() {
		for range 20 {
			if _, err := a.TxBurst(items); err != nil {
				t.Fatal(err)
			}
		}
		for n.Step() {
		}
	}
	for range 300 {
		round()
	}
	if got := testing.AllocsPerRun(100, round); got != 0 {
		t.Errorf("%v allocations for 40 packets and their echoes", got)
	}
}

// Timers and packets, lost ones and copies too, go back to their pools.
func TestPoolsReturn(t *testing.T) {
	n := newNet(t, Config{Faults: Faults{Loss: .3, Duplicate: .3}})
	a, b := pairOf(t, n)
	attach(t, b, nil)
	for range 1000 {
		n.After(5, func() {})
		send(t, a, b.LocalAddr(), 0, 10, 500)
		for n.Step() {
		}
	}
	want(t, "timers", len(n.timers), 1)
	if len(n.pool.all) > 100 || n.inUse() > len(b.held) {
		t.Errorf("%d packets, %d in use, %d held", len(n.pool.all), n.inUse(), len(b.held))
	}
}
