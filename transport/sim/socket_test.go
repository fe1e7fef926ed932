package sim

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
)

// TestRxBuffer: a socket's buffer takes packets until as many bytes are in use as it has, as Linux
// counts them, and drops from its tail. What is received makes room.
func TestRxBuffer(t *testing.T) {
	for size, fits := range map[int]int{
		4:    212_992/768 + 1,
		64:   212_992/768 + 1,
		65:   212_992/1280 + 1,
		1472: 212_992/2304 + 1,
		1500: 212_992/2304 + 1,
		8972: 212_992/16640 + 1,
	} {
		n := newNet(t, Config{MTU: 9000, PropDelay: us})
		a := open(t, n, EndpointConfig{Node: 0})
		b := open(t, n, EndpointConfig{Node: 1, RxBuffer: DefaultRxBuffer})
		send(t, a, b.LocalAddr(), 0, 1000, size)
		n.RunUntil(n.Now().Add(time.Millisecond))
		packets, bytes := b.Queued()
		want(t, "in the queue", packets, fits)
		if bytes <= DefaultRxBuffer || bytes-bytes/packets > DefaultRxBuffer {
			t.Errorf("%d packets of %d take %d bytes", packets, size, bytes)
		}
		next := 0
		receive(t, b, func(p *transport.RxPacket) {
			want(t, "number", number(p.Data), next)
			next++
		})
		packets, bytes = b.Queued()
		want(t, "left", packets+bytes, 0)
		send(t, a, b.LocalAddr(), 0, 1, size)
		n.RunUntil(n.Now().Add(time.Millisecond))
		want(t, "after", receive(t, b, nil), 1)
	}
}

// busyRun has bursts of packets come to a socket whose loop shares a core with others, and checks
// at random times that none has vanished: what was sent was received, dropped at the socket, or
// waits there.
func busyRun(t *testing.T, seed uint64, others int) *Network {
	n := newNet(t, Config{Seed: seed, PropDelay: us, LinkBitsPerSec: 10e9})
	r := n.Rand()
	p := cores(t, n, ProcessorConfig{Cores: 1, Slice: 3 * time.Millisecond, Switch: us, Wake: us})
	for range others {
		var o *Thread
		var err error
		o, err = p.NewThread(Waiting{}, func() {
			n.Charge(700 * us)
			o.Wake()
		})
		must(t, err)
		o.Wake()
	}
	a := open(t, n, EndpointConfig{Node: 0})
	b := open(t, n, EndpointConfig{Node: 1, Processor: p, RxBuffer: DefaultRxBuffer, Stamps: true,
		RunCost: 4 * us, PacketCost: us})
	d := attach(t, b, nil)
	d.f = func(Time, *transport.RxPacket) { n.Charge(us) }
	sent := 0
	for range 200 {
		k := r.IntN(60)
		send(t, a, b.LocalAddr(), sent, k, 4+r.IntN(1400))
		sent += k
		n.RunUntil(n.Now().Add(150*us + time.Duration(r.Int64N(int64(time.Millisecond)))))
		packets, _ := b.Queued()
		s, onWay := b.Stats(), n.Stats()
		arrived := onWay.Delivered + onWay.Overflow
		if s.RxPackets+s.RxDropped+uint64(packets) != arrived || s.RxDropped != onWay.Overflow {
			t.Fatalf("%+v, %d in the queue, %+v", s, packets, onWay)
		}
	}
	n.RunUntil(n.Now().Add(100 * time.Millisecond))
	packets, bytes := b.Queued()
	s := b.Stats()
	if s.RxPackets+s.RxDropped != uint64(sent) || packets+bytes != 0 {
		t.Errorf("%d sent, %+v, %d packets and %d bytes left", sent, s, packets, bytes)
	}
	if (s.RxDropped > 0) != (others > 0) {
		t.Errorf("%d others: %d dropped", others, s.RxDropped)
	}
	return n
}

// TestBusySocket: packets are conserved, a loop alone is in time, and the seed decides all.
func TestBusySocket(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		for _, others := range []int{0, 3} {
			a, b := busyRun(t, seed, others), busyRun(t, seed, others)
			want(t, "trace", a.TraceHash(), b.TraceHash())
		}
	}
}

// TestStamps: Waited is the time since the first packet of the burst came, and 0 without stamps,
// and if no packet did.
func TestStamps(t *testing.T) {
	for _, on := range []bool{false, true} {
		n := newNet(t, Config{PropDelay: 5 * us})
		a := open(t, n, EndpointConfig{Node: 0})
		b := open(t, n, EndpointConfig{Node: 1, Stamps: on})
		n.After(0, func() { send(t, a, b.LocalAddr(), 0, 1, 8) })
		n.After(300*us, func() { send(t, a, b.LocalAddr(), 1, 1, 8) })
		n.After(340*us, func() { send(t, a, b.LocalAddr(), 2, 1, 8) })
		n.RunUntil(StartTime.Add(400 * us))
		expect := map[bool]time.Duration{true: 390 * us}
		want(t, "before", b.Waited(), 0)
		var pkts [2]transport.RxPacket
		for _, d := range []time.Duration{390 * us, 50 * us, 0} {
			if _, err := b.RxBurst(pkts[:]); err != nil {
				t.Fatal(err)
			}
			expect[true] = d
			want(t, "waited", b.Waited(), expect[on])
		}
	}
}

// TestSocketOff: a buffer that never fills, and stamps that nobody reads, change nothing.
func TestSocketOff(t *testing.T) {
	var hashes [2]uint64
	for i := range hashes {
		n := newNet(t, Config{Seed: 7, PropDelay: us, LinkBitsPerSec: 1e9,
			Faults: Faults{Loss: 0.1, Duplicate: 0.1}})
		c := EndpointConfig{Node: 1, RunCost: us, PacketCost: 100}
		if i == 1 {
			c.RxBuffer, c.Stamps = 1<<30, true
		}
		a, b := open(t, n, EndpointConfig{Node: 0}), open(t, n, c)
		attach(t, a, nil)
		attach(t, b, echo(t, b, us))
		for k := range 100 {
			n.After(time.Duration(n.Rand().Int64N(int64(time.Millisecond))), func() {
				send(t, a, b.LocalAddr(), 10*k, 10, 500)
			})
		}
		n.RunUntil(StartTime.Add(time.Second))
		hashes[i] = n.TraceHash()
	}
	want(t, "trace", hashes[1], hashes[0])
}
