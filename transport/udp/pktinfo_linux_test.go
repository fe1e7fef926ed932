package udp

import (
	"fmt"
	"os"
	"testing"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/conformance"
	"golang.org/x/sys/unix"
)

// wildcards are the ways to listen on all addresses.
var wildcards = []struct {
	name string
	addr string
	ip6  bool // it speaks IPv6 too
	cfg  Config
}{
	{"v4", "0.0.0.0:0", false, Config{}},
	{"any", ":0", true, Config{}},
	{"mapped4", "[::ffff:0.0.0.0]:0", false, Config{}},
	{"dual", "[::]:0", true, Config{}},
	{"ECN4", "0.0.0.0:0", false, Config{ECN: true}},
	{"ECN", ":0", true, Config{ECN: true}},
	{"NoGSO", ":0", true, Config{NoGSO: true}},
	{"NoGRO", ":0", true, Config{NoGRO: true}},
}

// asker is a client and an address of the server.
type asker struct {
	client *Conn
	dst    transport.Addr
}

// newAsker opens a client on an address that sends to another address of server.
func newAsker(t *testing.T, server *Conn, bind, ask string) asker {
	t.Helper()
	c := listen(t, bind+":0", Config{})
	dst, err := c.Resolve(ask + ":" + portText(server))
	if err != nil {
		t.Fatal(err)
	}
	return asker{c, dst}
}

// packets returns count packets of size bytes to dst, each of two parts.
func packets(dst transport.Addr, count, size int) []transport.TxItem {
	items := make([]transport.TxItem, count)
	for i := range items {
		p := fillPattern(make([]byte, size), i)
		items[i] = transport.TxItem{Dst: dst, Head: p[:size/3], Data: p[size/3:]}
	}
	return items
}

// exchange has all askers send count packets of size bytes each, answers all of them with one
// burst, and checks that each answer comes from the address that was asked.
func exchange(t *testing.T, server *Conn, askers []asker, count, size int) {
	t.Helper()
	var answers []transport.TxItem
	for _, a := range askers {
		transmit(t, a.client, packets(a.dst, count, size))
		for _, p := range receive(t, server, count, 16) {
			if p.From != a.client.LocalAddr() {
				t.Fatalf("from %v, want %v", p.From, a.client.LocalAddr())
			}
			answers = append(answers, transport.TxItem{Dst: p.From, Head: p.Data})
		}
	}
	transmit(t, server, answers)
	for _, a := range askers {
		wantFrom(t, a, count, size)
	}
}

// wantFrom checks count answers of size bytes to a.
func wantFrom(t *testing.T, a asker, count, size int) {
	t.Helper()
	for i, p := range receive(t, a.client, count, 16) {
		if p.From != a.dst {
			t.Fatalf("answer %d of %d comes from %v, want %v", i, count, p.From, a.dst)
		}
		if string(p.Data) != string(fillPattern(make([]byte, size), i)) {
			t.Fatalf("answer %d of %d has other bytes", i, count)
		}
	}
}

// exchangeAll has askers exchange packets alone, in trains, and in trains to each of them at once.
func exchangeAll(t *testing.T, server *Conn, askers []asker) {
	t.Helper()
	for _, size := range []int{48, 1000} { // staged, and out of the caller's memory
		for _, a := range askers {
			exchange(t, server, []asker{a}, 1, size)
			exchange(t, server, []asker{a}, 40, size)
		}
		exchange(t, server, askers, 1, size)
		exchange(t, server, askers, 5, size)
	}
}

// TestSourceLoopback: a socket on all addresses answers from the address that was asked.
func TestSourceLoopback(t *testing.T) {
	for _, v := range wildcards {
		t.Run(v.name, func(t *testing.T) {
			server := listen(t, v.addr, v.cfg)
			askers := []asker{
				newAsker(t, server, "127.0.0.1", "127.0.0.2"),
				newAsker(t, server, "127.0.0.1", "127.0.0.1"),
				newAsker(t, server, "127.0.0.3", "127.200.3.9"),
			}
			if v.ip6 {
				askers = append(askers, newAsker(t, server, "[::1]", "[::1]"))
			}
			exchangeAll(t, server, askers)
			if s := server.Stats(); s.TxDropped != 0 {
				t.Errorf("%d packets dropped", s.TxDropped)
			}
		})
	}
}

// TestSourceTrains: the source costs a train nothing of its length.
func TestSourceTrains(t *testing.T) {
	if f := Probe(); !f.GSO || !f.GRO {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the kernel has no trains: %+v", f)
		}
		t.Skipf("the kernel has no trains: %+v", f)
	}
	for _, v := range wildcards[:4] {
		server := listen(t, v.addr, v.cfg)
		a := newAsker(t, server, "127.0.0.1", "127.0.0.2")
		exchange(t, server, []asker{a}, 1, 48)
		before := server.Stats().TxCalls
		transmit(t, server, packets(a.client.LocalAddr(), 64, 48))
		wantFrom(t, a, 64, 48)
		if calls := server.Stats().TxCalls - before; calls != 1 {
			t.Errorf("%s: a train took %d calls", v.name, calls)
		}
	}
}

// TestSourceChanges: a client that asks one address after the other with one socket gets each
// answer from the address that it asked last.
func TestSourceChanges(t *testing.T) {
	for _, v := range wildcards {
		server := listen(t, v.addr, v.cfg)
		a := newAsker(t, server, "127.0.0.1", "127.0.0.2")
		b := asker{a.client, newAsker(t, server, "127.0.0.1", "127.0.0.3").dst}
		for _, x := range []asker{a, b, a, a, b} {
			exchange(t, server, []asker{x}, 1, 48)
			exchange(t, server, []asker{x}, 7, 48)
		}
	}
}

// TestSourceLost: when others have displaced a peer its next answer leaves from the address that
// the kernel chooses, and its next packet sets that right.
func TestSourceLost(t *testing.T) {
	for _, v := range wildcards[:2] {
		server := listen(t, v.addr, v.cfg)
		a := newAsker(t, server, "127.0.0.1", "127.0.0.2")
		exchange(t, server, []asker{a}, 3, 48)
		s, peer := server.impl.(*kernelConn).tx.sources, a.client.LocalAddr()
		for _, p := range neighbours(s, &peer, 100) {
			s.learn(p, source1)
		}
		for _, count := range []int{1, 5} {
			transmit(t, server, packets(peer, count, 48))
			for _, p := range receive(t, a.client, count, 8) {
				if p.From == a.dst {
					t.Errorf("%s: the peer is still known", v.name)
				}
			}
		}
		exchange(t, server, []asker{a}, 1, 48)
	}
}

// TestSourceLone: when packets have come alone for long, a new peer is answered from the address
// that it asked as well.
func TestSourceLone(t *testing.T) {
	for _, v := range wildcards[:2] {
		server := listen(t, v.addr, v.cfg)
		a := newAsker(t, server, "127.0.0.1", "127.0.0.2")
		pkts := make([]transport.RxPacket, 4)
		for range 2 * loneAfter {
			exchange(t, server, []asker{a}, 1, 48)
			for range settle {
				if n, err := server.RxBurst(pkts); n != 0 || err != nil {
					t.Fatal(n, err)
				}
			}
		}
		exchange(t, server, []asker{newAsker(t, server, "127.0.0.1", "127.0.0.3")}, 1, 48)
	}
}

// TestSourceDialed: Path tells a session that opens. After a silence it begins with the kernel's
// choice of a source.
func TestSourceDialed(t *testing.T) {
	for _, v := range wildcards[:2] {
		server := listen(t, v.addr, v.cfg)
		a := newAsker(t, server, "127.0.0.1", "127.0.0.2")
		peer, s := a.client.LocalAddr(), server.impl.(*kernelConn).tx.sources
		server.Path(peer)
		exchange(t, server, []asker{a}, 1, 48)
		server.Path(peer)
		exchange(t, server, []asker{a}, 1, 48)
		for range 2 {
			s.epochAt = s.epochAt.Add(-2 * epochLen)
			server.Path(peer)
		}
		wantSource(t, s, &peer, nil)
		transmit(t, server, packets(peer, 1, 48))
		if from := receive(t, a.client, 1, 1)[0].From; from == a.dst {
			t.Errorf("%s: the peer is still known", v.name)
		}
		exchange(t, server, []asker{a}, 1, 48)
	}
}

// TestSourceOptions: only a socket on all addresses has the kernel report destinations.
func TestSourceOptions(t *testing.T) {
	check := func(addr string, want4, want6 int) {
		c := listen(t, addr, Config{}).impl.(*kernelConn)
		got4, err := unix.GetsockoptInt(c.fd, unix.SOL_IP, unix.IP_PKTINFO)
		if err != nil || got4 != want4 {
			t.Errorf("%s: IP_PKTINFO is %d, %v, want %d", addr, got4, err, want4)
		}
		if !c.ip4 {
			got6, err := unix.GetsockoptInt(c.fd, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO)
			if err != nil || got6 != want6 {
				t.Errorf("%s: IPV6_RECVPKTINFO is %d, %v, want %d", addr, got6, err, want6)
			}
		}
		known := want4+want6 != 0
		if (c.tx.sources != nil) != known || c.tx.sources != c.rx.sources {
			t.Errorf("%s: sources %p and %p", addr, c.tx.sources, c.rx.sources)
		}
	}
	check("127.0.0.1:0", 0, 0)
	check("[::1]:0", 0, 0)
	check("0.0.0.0:0", 1, 0)
	check("[::]:0", 1, 1)
	check(":0", 1, 1)
}

// at is a socket on all addresses that gives one of them as its own.
type at struct {
	*Conn
	local transport.Addr
}

func (a at) LocalAddr() transport.Addr { return a.local }

// TestConformanceWildcard runs the suite over sockets on all addresses.
func TestConformanceWildcard(t *testing.T) {
	for _, v := range wildcards[:2] {
		t.Run(v.name, func(t *testing.T) {
			open := func(tb testing.TB) transport.Transport {
				c := listen(tb, v.addr, v.cfg)
				local, err := c.Resolve(fmt.Sprint("127.0.0.1:", c.LocalAddr().Port))
				if err != nil {
					tb.Fatal(err)
				}
				return at{c, local}
			}
			conformance.Run(t, func(tb testing.TB) (a, b transport.Transport) { return open(tb), open(tb) })
		})
	}
}
