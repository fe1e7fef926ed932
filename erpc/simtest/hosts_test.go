package simtest

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/sim"
)

var hostsTable = flag.String("hosts", "",
	"group of rows of the table of busy hosts: receiver, slow, wide, sender, socket, shared; or all, "+
		"some minutes")

// Time of a processor that a loop with a socket takes: for a pass with its system calls, and for a
// packet of a train. A slice is that of a scheduler whose tasks all have work.
const (
	socketPass   = 4 * time.Microsecond
	socketPacket = 500 * time.Nanosecond
	hostSlice    = 3 * time.Millisecond
	hostSwitch   = 2 * time.Microsecond
	hostWake     = 5 * time.Microsecond
)

// hears is what a loop knows of when packets came.
type hears uint8

const (
	hearsStamps  hears = iota // the kernel's stamps, and its own clock: udp on Linux
	hearsClock                // its own clock: when it looked for packets last, unless it slept
	hearsNothing              // neither
)

var hearsNames = [...]string{"stamps", "clock", "nothing"}

// socketed is a transport that says what udp says of paths, whose loop knows so much.
type socketed struct {
	*sim.Endpoint
	hears  hears
	buffer int // bytes
	now    func() sim.Time
	looks  int      // for packets
	looked sim.Time // when it looked for packets last ...
	polled sim.Time // ... and the time before, if it went on from there without sleep
}

func (s *socketed) Path(a transport.Addr) transport.Path {
	p := s.Endpoint.Path(a)
	p.HostDelay, p.Checksummed = 100*time.Microsecond, true
	return p
}

// Caps says what udp says of a socket with such a buffer: how many of its largest packets fit.
func (s *socketed) Caps() transport.Caps {
	c := s.Endpoint.Caps()
	c.RxRing = s.buffer / 4 * 3 / (16_384 + 256)
	return c
}

func (s *socketed) RxBurst(pkts []transport.RxPacket) (int, error) {
	s.looks++
	s.polled = s.looked
	n, err := s.Endpoint.RxBurst(pkts)
	if s.looked = 0; n > 0 { // else it sleeps
		s.looked = s.now()
	}
	return n, err
}

func (s *socketed) Waited() (d time.Duration) {
	if s.hears == hearsNothing {
		return 0
	}
	if s.polled > 0 {
		d = s.now().Sub(s.polled)
	}
	if s.hears == hearsStamps {
		d = max(d, s.Endpoint.Waited())
	}
	return d
}

// busyHosts is one row: senders keep calls of size bytes to a receiver under way, whose link is the
// narrow one. Each host has a processor of some cores; others run there all the time.
type busyHosts struct {
	what     string
	bits     int64 // of the receiver's link, per second
	delay    time.Duration
	buffer   int // of the port to it, bytes
	senders  int
	size     int
	calls    int           // of a sender
	receives int           // others at the receiver
	sends    int           // others at each sender
	socket   int           // receive buffer in bytes; 0: the default
	shared   int           // if > 0: all run on so many cores, ...
	pass     time.Duration // ... and a pass costs so much; 0: nothing takes time
	alg      erpc.CCAlgorithm
	hears    hears
}

// busyGot has the figures of a row.
type busyGot struct {
	goodput  float64 // bits per second
	jain     float64
	p50, p99 time.Duration // of calls
	longest  time.Duration // without any call that ends
	queue    time.Duration // in the port, on average
	dropped  uint64        // at the receiver's socket
	tail     uint64        // at the switch
	again    uint64        // packets that senders sent again
	failed   int
}

func (g busyGot) String() string {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	return fmt.Sprintf("%7.0f Mbit/s  Jain %.2f  p50 %7.2f p99 %7.2f pause %6.1f queue %6.3f ms  "+
		"socket %5d tail %5d again %5d failed %d", g.goodput/1e6, g.jain, ms(g.p50), ms(g.p99),
		ms(g.longest), ms(g.queue), g.dropped, g.tail, g.again, g.failed)
}

// processor makes a host's, with so many others that always have work.
func (b *busyHosts) processor(c *cluster, cores, others int) *sim.Processor {
	cfg := sim.ProcessorConfig{Cores: cores, Slice: hostSlice, Switch: hostSwitch, Wake: hostWake}
	p, err := c.net.NewProcessor(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	for range others {
		var t *sim.Thread
		t, err = p.NewThread(sim.Waiting{}, func() {
			c.net.Charge(time.Millisecond)
			t.Wake()
		})
		if err != nil {
			c.t.Fatal(err)
		}
		t.Wake()
	}
	return p
}

// start makes hosts and streams.
func (b *busyHosts) start(t *testing.T) (*cluster, []*stream) {
	net := wideLink(b.delay)
	net.PortBuffer = b.buffer
	c := newCluster(t, net)
	c.wrapFor = func(n *node, tr transport.Transport) transport.Transport {
		return &socketed{Endpoint: tr.(*sim.Endpoint), hears: b.hears, buffer: b.socket,
			now: c.net.Now}
	}
	cfg := erpc.Config{Congestion: erpc.Congestion{Algorithm: b.alg}}
	var all *sim.Processor
	if b.shared > 0 {
		all = b.processor(c, b.shared, 0)
	}
	host := func(others int) *node {
		epc := sim.EndpointConfig{RxRing: 1 << 14, RxBuffer: b.socket,
			Stamps: b.hears == hearsStamps, RunCost: b.pass, PacketCost: socketPacket}
		if epc.Processor = all; all == nil {
			epc.Processor = b.processor(c, 1, others)
		}
		switch {
		case b.shared == 0:
			epc.RunCost = socketPass
		case b.pass == 0:
			epc.PacketCost = 0
		}
		return c.add(cfg, epc)
	}
	server := host(b.receives)
	if err := c.net.SetLinkBits(server.id, b.bits); err != nil {
		t.Fatal(err)
	}
	streams := make([]*stream, b.senders)
	for i := range streams {
		streams[i] = c.stream(host(b.sends), server.id, b.size, b.calls)
	}
	return c, streams
}

// run measures the row for d, after as long.
func (b *busyHosts) run(t *testing.T, d time.Duration) (got busyGot) {
	c, streams := b.start(t)
	c.run(d)
	was := make([]int, len(streams))
	for i, s := range streams {
		was[i] = s.done
	}
	begin, net, calls := c.net.Now(), c.net.Stats(), len(c.calls)
	var again uint64
	for _, s := range streams {
		again += s.from.rpc.Stats().Protocol.Retransmits
	}
	const samples = 1000
	for range samples {
		c.run(d / samples)
		port, err := c.net.HostPort(0)
		if err != nil {
			t.Fatal(err)
		}
		got.queue += time.Duration(float64(port.Depth) * 8 / float64(b.bits) * 1e9 / samples)
	}
	sum, squares := 0.0, 0.0
	for i, s := range streams {
		x := float64(s.done - was[i])
		sum, squares = sum+x, squares+x*x
		got.again += s.from.rpc.Stats().Protocol.Retransmits
	}
	got.again -= again
	got.goodput = sum * 8 / d.Seconds()
	got.jain = sum * sum / max(1, squares) / float64(len(streams))
	now := c.net.Stats()
	got.dropped, got.tail = now.Overflow-net.Overflow, now.TailDrops-net.TailDrops
	got.latencies(c, begin, calls)
	return got
}

// latencies fills in what calls took that ended since a time, or have not ended.
func (g *busyGot) latencies(c *cluster, begin sim.Time, calls int) {
	var took []time.Duration
	var ends []sim.Time
	for i, k := range c.calls {
		switch {
		case k.err != nil:
			g.failed++
		case k.ends == 0 && i >= calls || k.endedAt >= begin:
			end := k.endedAt
			if k.ends == 0 {
				end = c.net.Now()
			} else {
				ends = append(ends, end)
			}
			took = append(took, end.Sub(k.issuedAt))
		}
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		g.p50, g.p99 = took[n/2], took[n*99/100]
	}
	slices.Sort(ends)
	for last := begin; len(ends) > 0; ends = ends[1:] {
		g.longest, last = max(g.longest, ends[0].Sub(last)), ends[0]
	}
}

// busyRows are the rows of the table.
func busyRows() (rows []busyHosts) {
	for _, receives := range []int{0, 1, 3} {
		for _, senders := range []int{1, 8} {
			for _, size := range []int{64 << 10, 1 << 20} {
				rows = append(rows, busyHosts{what: "receiver", bits: 10e9, delay: 20 * time.Microsecond,
					buffer: 1 << 20, senders: senders, size: size, calls: 2, receives: receives,
					socket: 8 << 20})
			}
		}
	}
	for _, receives := range []int{0, 3} {
		for _, senders := range []int{1, 8} {
			rows = append(rows, busyHosts{what: "slow", bits: 100e6, delay: 100 * time.Microsecond,
				buffer: 250_000, senders: senders, size: 64 << 10, calls: 2, receives: receives,
				socket: 8 << 20})
		}
		rows = append(rows, busyHosts{what: "wide", bits: 10e9, delay: 20 * time.Microsecond,
			buffer: 1 << 20, senders: 50, size: 64 << 10, calls: 2, receives: receives,
			socket: 8 << 20})
	}
	for _, sends := range []int{1, 3} {
		for _, senders := range []int{1, 8} {
			rows = append(rows, busyHosts{what: "sender", bits: 10e9, delay: 20 * time.Microsecond,
				buffer: 1 << 20, senders: senders, size: 64 << 10, calls: 2, sends: sends,
				socket: 8 << 20})
		}
	}
	for _, receives := range []int{0, 1, 3} {
		for _, socket := range []int{2 * sim.DefaultRxBuffer, 8 << 20} {
			rows = append(rows, busyHosts{what: "socket", bits: 10e9, delay: 20 * time.Microsecond,
				buffer: 1 << 20, senders: 50, size: 64 << 10, calls: 2, receives: receives,
				socket: socket})
		}
	}
	for _, senders := range []int{1, 5, 20, 40} {
		for _, pass := range []time.Duration{0, socketPass, 15 * socketPass} {
			rows = append(rows, busyHosts{what: "shared", bits: 1e9, delay: 20 * time.Microsecond,
				buffer: 600_000, senders: senders, size: 100_000, calls: max(2, 8/senders), shared: 2,
				pass: pass, socket: 8 << 20})
		}
	}
	return rows
}

func (b *busyHosts) name() string {
	of := fmt.Sprintf("%d+%d others", b.receives, b.sends)
	if b.shared > 0 {
		of = fmt.Sprintf("%d cores, pass %v", b.shared, b.pass)
	}
	return fmt.Sprintf("%s %5.0f Mbit/s %2d x %d x %7d B, %s, socket %d, %s %s", b.what,
		float64(b.bits)/1e6, b.senders, b.calls, b.size, of, b.socket, b.alg.String(),
		hearsNames[b.hears])
}

// TestBusyHosts is the table of hosts whose processors are busy: with stamps of the kernel, without
// them, and without control. The flag -hosts shows it.
func TestBusyHosts(t *testing.T) {
	if *hostsTable == "" {
		t.Skip("-hosts=all shows the table")
	}
	for _, row := range busyRows() {
		if *hostsTable != "all" && *hostsTable != row.what {
			continue
		}
		for _, v := range []struct {
			alg   erpc.CCAlgorithm
			hears hears
		}{{erpc.CCTimely, hearsStamps}, {erpc.CCTimely, hearsClock}, {erpc.CCNone, hearsStamps},
			{erpc.CCSwift, hearsStamps}} {
			row.alg, row.hears = v.alg, v.hears
			d := 100 * time.Millisecond
			if row.bits < 1e9 {
				d = time.Second
			}
			t.Logf("%-78s %v", row.name(), row.run(t, d))
		}
	}
}

// TestLateReceiver: where the receiver gets to run once in 9 ms, longer than its answers can say
// and than the least timeout, nothing is sent again, and calls take as long as that: no timeout
// grows from answers to what was sent again.
func TestLateReceiver(t *testing.T) {
	for _, hears := range []hears{hearsStamps, hearsClock} {
		for _, senders := range []int{1, 8} {
			row := busyHosts{bits: 10e9, delay: 20 * time.Microsecond, buffer: 1 << 20, senders: senders,
				size: 64 << 10, calls: 2, receives: 3, socket: 8 << 20, hears: hears}
			got := row.run(t, 100*time.Millisecond)
			t.Log(got)
			if got.again > 0 || got.p99 > 11*time.Millisecond || got.goodput < float64(senders)*100e6 {
				t.Error("not as it must be")
			}
		}
	}
}

// TestFewWakes: over sockets a loop that awaits an answer from far away, to a call with a deadline,
// sleeps until there is something to do, and not for the next quarter of the least timeout. A call
// ends when its deadline has passed all the same.
func TestFewWakes(t *testing.T) {
	const oneWay = 50 * time.Millisecond
	c := newCluster(t, wideLink(oneWay))
	var client *socketed
	c.wrapFor = func(n *node, tr transport.Transport) transport.Transport {
		s := &socketed{Endpoint: tr.(*sim.Endpoint), buffer: 8 << 20, now: c.net.Now}
		if n.id == 1 {
			client = s
		}
		return s
	}
	server := c.add(erpc.Config{}, sim.EndpointConfig{})
	from := c.add(erpc.Config{}, sim.EndpointConfig{})
	begin := func(timeout time.Duration) *call {
		k := &call{from: from, to: server.id, typ: typeEcho, reqSize: 32, respSize: 32, respMax: 32,
			timeout: timeout}
		if err := c.issue(k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	calls := func(n int) {
		for range n {
			begin(time.Second)
			c.run(3 * oneWay)
		}
	}
	calls(20)
	const more = 10
	was := client.looks
	calls(more)
	if each := (client.looks - was) / more; each > 12 {
		t.Errorf("%d passes for a call", each)
	}
	three := []*call{begin(90 * time.Millisecond), begin(60 * time.Millisecond),
		begin(80 * time.Millisecond)}
	c.run(2 * oneWay)
	for _, k := range three {
		if late := k.endedAt.Sub(k.issuedAt) - k.timeout; k.ends != 1 || late < 0 ||
			late > 2*time.Millisecond {
			t.Errorf("a call that waits for %v at most ended %d times, %v late", k.timeout, k.ends, late)
		}
	}
}
