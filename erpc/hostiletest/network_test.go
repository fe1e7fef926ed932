package hostiletest

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// network stands between clients and one server. Clients send to its address; towards the server
// it has a socket for each client, so that the server too sees one address for each.
type network struct {
	l      *lab
	server netip.AddrPort
	down   *net.UDPConn // where clients send
	rules  rules

	weather atomic.Pointer[weather] // nil: packets pass as they are
	dark    atomic.Bool             // no packet passes
	crossed atomic.Bool             // what one client sends comes from the address of the next

	mu       sync.Mutex
	flows    []*flow
	byAddr   map[netip.AddrPort]*flow
	archives [2]archive // of packets to clients and to the server
	readers  sync.WaitGroup
	held     atomic.Int64 // packets that are held

	passed, touched atomic.Int64 // packets
}

// flow is the way of one client, in both directions.
type flow struct {
	n      *network
	number int // of this flow
	client netip.AddrPort
	up     *net.UDPConn
	sides  [2]side
}

// The two directions of a flow.
const (
	toClient = 0
	toServer = 1
)

// maxHeld bounds the packets that are held; more pass at once.
const maxHeld = 4096

// newNetwork starts a network before the server at addr.
func newNetwork(l *lab, addr string, r rules) *network {
	l.Helper()
	n := &network{
		l: l, server: netip.MustParseAddrPort(addr), down: socket(l), rules: r,
		byAddr: map[netip.AddrPort]*flow{},
	}
	for i := range n.archives {
		n.archives[i].r = l.rng("archive", i)
	}
	n.readers.Go(func() {
		receive(n.down, func(pkt []byte, from netip.AddrPort) {
			if f := n.flowOf(from); f != nil {
				f.sides[toServer].take(pkt)
			}
		})
	})
	return n
}

// socket opens a socket with room for bursts.
func socket(l *lab) *net.UDPConn {
	l.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err == nil {
		err = errors.Join(c.SetReadBuffer(4<<20), c.SetWriteBuffer(4<<20))
	}
	if err != nil {
		l.Fatal(err)
	}
	return c
}

// receive gives each packet to take until the socket is closed.
func receive(c *net.UDPConn, take func(pkt []byte, from netip.AddrPort)) {
	b := make([]byte, 1<<16)
	for {
		size, from, err := c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			take(b[:size], from)
		}
	}
}

// addr is where clients send.
func (n *network) addr() string { return n.down.LocalAddr().String() }

// maxFlows is how many clients one network serves.
const maxFlows = 1000

// flowOf returns the flow of a client's address, a new one the first time.
func (n *network) flowOf(client netip.AddrPort) *flow {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f := n.byAddr[client]; f != nil || len(n.flows) == maxFlows {
		return f
	}
	f := &flow{n: n, number: len(n.flows), client: client, up: socket(n.l)}
	for d := range f.sides {
		f.sides[d] = side{flow: f, dir: d, r: n.l.rng("flow", 2*f.number+d)}
	}
	n.byAddr[client], n.flows = f, append(n.flows, f)
	n.readers.Go(func() {
		receive(f.up, func(pkt []byte, from netip.AddrPort) {
			if from == n.server {
				f.sides[toClient].take(pkt)
			}
		})
	})
	return f
}

// another returns some flow.
func (n *network) another(r *rand.Rand) *flow {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.flows[r.IntN(len(n.flows))]
}

// pass sends a packet on its way.
func (f *flow) pass(dir int, pkt []byte) {
	if f.n.dark.Load() {
		return
	}
	f.n.passed.Add(1)
	// Packets that the kernel does not take are lost, as in any network.
	if dir == toServer {
		_, _ = f.socket().WriteToUDPAddrPort(pkt, f.n.server)
	} else {
		_, _ = f.n.down.WriteToUDPAddrPort(pkt, f.client)
	}
}

// socket returns the one that packets to the server leave by.
func (f *flow) socket() *net.UDPConn {
	if !f.n.crossed.Load() {
		return f.up
	}
	f.n.mu.Lock()
	defer f.n.mu.Unlock()
	return f.n.flows[(f.number+1)%len(f.n.flows)].up
}

// passLate passes a copy of a packet after a time.
func (f *flow) passLate(dir int, pkt []byte, after time.Duration) {
	if f.n.held.Add(1) > maxHeld {
		f.n.held.Add(-1)
		f.pass(dir, pkt)
		return
	}
	kept := append([]byte(nil), pkt...)
	time.AfterFunc(after, func() {
		f.pass(dir, kept)
		f.n.held.Add(-1)
	})
}

// calm makes it an honest network again, and waits until it holds no packet.
func (n *network) calm() {
	n.weather.Store(nil)
	n.dark.Store(false)
	n.crossed.Store(false)
	n.l.until("no packet is held", func() bool { return n.held.Load() == 0 })
}

// drain waits until what clients have sent so far has passed: a packet behind it has.
func (n *network) drain() {
	c := socket(n.l)
	defer c.Close()
	here := netip.MustParseAddrPort(c.LocalAddr().String())
	if _, err := c.WriteTo([]byte{0}, n.down.LocalAddr()); err != nil {
		n.l.Fatal(err)
	}
	n.l.until("the packets have passed", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.byAddr[here] != nil
	})
}

// close ends the network; its clients are gone.
func (n *network) close() {
	n.calm()
	n.mu.Lock()
	_ = n.down.Close()
	for _, f := range n.flows {
		_ = f.up.Close()
	}
	n.mu.Unlock()
	n.readers.Wait()
	n.l.Logf("%d clients, %d packets passed, %d met with something",
		len(n.flows), n.passed.Load(), n.touched.Load())
}

// archive keeps some of all packets of one direction: the last ones, and for as long as the
// network exists a sample of those before, of all sessions and incarnations.
type archive struct {
	r    *rand.Rand
	last [256]kept
	old  [1024]kept
	n    int
}

// kept is a packet and the flow in which it was.
type kept struct {
	pkt  []byte
	flow *flow
}

func (a *archive) learn(f *flow, pkt []byte) {
	keep := func(place *kept) { place.pkt, place.flow = append(place.pkt[:0], pkt...), f }
	keep(&a.last[a.n%len(a.last)])
	a.n++
	if a.n <= len(a.old) {
		keep(&a.old[a.n-1])
	} else if i := a.r.IntN(a.n); i < len(a.old) {
		keep(&a.old[i])
	}
}

// learn keeps a packet of a flow; recall copies one that was kept into b.
func (n *network) learn(dir int, f *flow, pkt []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.archives[dir].learn(f, pkt)
}

func (n *network) recall(dir int, r *rand.Rand, b []byte) ([]byte, *flow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	a := &n.archives[dir]
	k := &a.old[r.IntN(min(a.n, len(a.old)))]
	if r.IntN(2) == 0 {
		k = &a.last[r.IntN(min(a.n, len(a.last)))]
	}
	return append(b[:0], k.pkt...), k.flow
}
