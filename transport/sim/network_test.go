package sim

import (
	"slices"
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
)

// storm is a scenario with everything in it: echoing nodes in racks, all faults,
// a cut, a pause, a crash and a restart. It returns the trace hash.
func storm(tb testing.TB, seed uint64, trace *strings.Builder) (uint64, Stats) {
	c := CX4(seed)
	c.Checksum = seed%2 == 0
	c.SwitchBuffer = 3000
	c.ECN = ECN{Kmin: 800, Kmax: 2000, Pmax: 0.5}
	c.Faults = Faults{Loss: .02, Duplicate: .02, Corrupt: .02, Reorder: .05, ReorderDelay: 20000,
		Delay: 100, Jitter: 300}
	if trace != nil {
		c.Trace = trace
	}
	n := newNet(tb, c)
	var eps []*Endpoint
	echo := func(e *Endpoint) {
		attach(tb, e, func(_ Time, p *transport.RxPacket) {
			if len(p.Data) > 100 {
				if _, err := e.TxBurst([]transport.TxItem{{Dst: p.From, Head: p.Data[:100],
					Data: nil}}); err != nil {
					tb.Fatal(err)
				}
			}
		})
	}
	for i := range 10 {
		eps = append(eps, open(tb, n, EndpointConfig{Node: i, PacketCost: 50, RunCost: 20}))
		echo(eps[i])
	}
	var tick func()
	rounds := 0
	tick = func() {
		for range 10 {
			from, to := eps[n.Rand().IntN(10)], eps[n.Rand().IntN(10)]
			if !from.closed.Load() {
				send(tb, from, to.LocalAddr(), rounds, 4, 8+n.Rand().IntN(900))
			}
		}
		if rounds++; rounds < 60 {
			n.After(2000, tick)
		}
	}
	n.After(0, tick)
	n.After(20000, func() { must(tb, n.Partition([]int{0, 1, 2}, []int{3, 4})) })
	n.After(40000, n.Heal)
	n.After(30000, eps[5].Pause)
	n.After(60000, eps[5].Resume)
	n.After(50000, eps[6].Crash)
	n.After(70000, func() {
		eps[6] = open(tb, n, EndpointConfig{Node: 6})
		echo(eps[6])
	})
	for n.Step() {
	}
	return n.TraceHash(), n.Stats()
}

func TestSameSeedSameRun(t *testing.T) {
	seen := make(map[uint64]uint64)
	var sum Stats
	for seed := range uint64(20) {
		h, s := storm(t, seed, nil)
		again, s2 := storm(t, seed, nil)
		if h != again || s != s2 {
			t.Fatalf("seed %d: %x %+v, then %x %+v", seed, h, s, again, s2)
		}
		if other, ok := seen[h]; ok {
			t.Fatalf("seeds %d and %d have the same hash", seed, other)
		}
		seen[h] = seed
		sum.Lost += s.Lost
		sum.Cut += s.Cut
		sum.TailDrops += s.TailDrops
		sum.Marked += s.Marked
		sum.Checksum += s.Checksum
		sum.NoEndpoint += s.NoEndpoint
		sum.Duplicated += s.Duplicated
	}
	for what, v := range map[string]uint64{"lost": sum.Lost, "cut": sum.Cut, "tail": sum.TailDrops,
		"marked":   sum.Marked,
		"checksum": sum.Checksum, "gone": sum.NoEndpoint, "duplicated": sum.Duplicated} {
		if v == 0 {
			t.Errorf("the scenario never has a packet %s", what)
		}
	}
}

// The text trace shows the run but does not change it.
func TestTextTrace(t *testing.T) {
	var a, b strings.Builder
	h, _ := storm(t, 7, &a)
	storm(t, 7, &b)
	quiet, _ := storm(t, 7, nil)
	want(t, "hash with a trace", h, quiet)
	if a.String() != b.String() {
		t.Error("traces differ")
	}
	for _, w := range []string{"send #", "deliver #", "crash", "lost", "tail drop", "pause",
		"mark #"} {
		if !strings.Contains(a.String(), w) {
			t.Errorf("no %q in the trace", w)
		}
	}
}

// One changed byte is another run.
func TestTraceHashCoversBytes(t *testing.T) {
	hash := func(v byte) uint64 {
		n := newNet(t, Config{})
		a, b := pairOf(t, n)
		if _, err := a.TxBurst([]transport.TxItem{{Dst: b.LocalAddr(),
			Head: []byte{1, 2, v}}}); err != nil {
			t.Fatal(err)
		}
		for n.Step() {
		}
		return n.TraceHash()
	}
	want(t, "same bytes", hash(3), hash(3))
	if hash(3) == hash(4) {
		t.Error("the hash does not cover the bytes")
	}
}

// Packet accounting: each packet ends in exactly one way.
func TestConservation(t *testing.T) {
	for seed := range uint64(20) {
		_, s := storm(t, seed, nil)
		in := s.Sent + s.Duplicated
		out := s.Delivered + s.Lost + s.Cut + s.TailDrops + s.Checksum + s.NoEndpoint + s.Overflow
		want(t, "packets that ended", out, in)
	}
}

func TestTimers(t *testing.T) {
	n := newNet(t, Config{})
	var got []int
	start := n.Now()
	if start == 0 {
		t.Error("time starts at zero")
	}
	n.After(20, func() { got = append(got, 3) })
	n.After(10, func() {
		got = append(got, 1)
		n.After(10, func() { got = append(got, 4) }) // made later than 3, for the same time
	})
	n.After(10, func() { got = append(got, 2) })
	n.After(100, func() { got = append(got, 5) })
	n.RunUntil(start + 99)
	want(t, "now", n.Now(), start+99)
	if !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("order %v", got)
	}
	if !n.RunWhile(func() bool { return len(got) < 5 }, Never) || n.Step() {
		t.Error("the last timer did not fire, or is not the last")
	}
	if n.RunWhile(func() bool { return true }, Never) {
		t.Error("RunWhile without events says that its condition ended")
	}
}

func TestEventHeapOrder(t *testing.T) {
	n := newNet(t, Config{Seed: 5})
	var h eventHeap
	var all []event
	for i := range 5000 {
		e := event{at: Time(n.Rand().IntN(300)), seq: uint64(i)}
		all = append(all, e)
		h.push(e)
		if i%3 == 2 { // pops in between
			least := slices.MinFunc(all, compare)
			if got := h.pop(); got != least {
				t.Fatalf("popped %+v, want %+v", got, least)
			}
			all = slices.DeleteFunc(all, func(e event) bool { return e == least })
		}
	}
	slices.SortFunc(all, compare)
	for _, w := range all {
		if got := h.pop(); got != w {
			t.Fatalf("popped %+v, want %+v", got, w)
		}
	}
}

func compare(a, b event) int {
	if a.before(&b) {
		return -1
	}
	return 1
}

func TestRunQueueOrder(t *testing.T) {
	n := newNet(t, Config{Seed: 6})
	var q runQueue
	eps := make([]*Endpoint, 50)
	for i := range eps {
		eps[i] = &Endpoint{runPos: -1}
	}
	for step := range 20000 {
		e := eps[n.Rand().IntN(len(eps))]
		if n.Rand().IntN(4) == 0 {
			q.remove(e)
		} else {
			q.set(e, Time(n.Rand().IntN(1000)), uint64(step))
		}
		for i, e := range q {
			if e.runPos != i || i > 0 && q.less(i, (i-1)/2) {
				t.Fatalf("step %d: heap broken at %d", step, i)
			}
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []Config{{MTU: -1}, {MTU: 70000}, {LinkBitsPerSec: -1}, {UplinkBitsPerSec: -1},
		{PropDelay: -1}, {LoopDelay: -1}, {SwitchLatency: -1}, {UplinkPropDelay: -1},
		{Alpha: -1}, {ECN: ECN{Kmin: 2, Kmax: 1}},
		{ECN: ECN{Pmax: 2}}, {Faults: Faults{Loss: 1.5}}, {Faults: Faults{Reorder: .5}}, {Racks: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("New(%+v) took it", c)
		}
	}
	n := newNet(t, Config{Racks: 2, RackOf: func(i int) int { return i }})
	if _, err := n.NewEndpoint(EndpointConfig{Node: 2}); err == nil {
		t.Error("took a node in a rack that is not there")
	}
	for _, c := range []EndpointConfig{{Node: -1}, {Node: maxNodes}, {Port: 65536}, {RunCost: -1}} {
		if _, err := n.NewEndpoint(c); err == nil {
			t.Errorf("NewEndpoint(%+v) took it", c)
		}
	}
	must(t, n.SetFaults(Faults{}))
	if n.SetFaults(Faults{Corrupt: -1}) == nil || n.SetLinkBits(0, -1) == nil ||
		n.SetPathFaults(0, -1, nil) == nil ||
		n.SetPathFaults(0, 1, &Faults{Jitter: -1}) == nil || n.Cut([]int{0}, []int{-3}) == nil {
		t.Error("took a bad fault")
	}
	if _, _, err := n.Uplink(0, 1); err == nil {
		t.Error("took a link that is not there")
	}
}
