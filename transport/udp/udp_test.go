package udp

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
)

// variants are the ways to open a socket that most tests go through.
var variants = []struct {
	name string
	addr string
	cfg  Config
}{
	{"v4", "127.0.0.1:0", Config{}},
	{"v6", "[::1]:0", Config{}},
	{"NoGSO", "127.0.0.1:0", Config{NoGSO: true}},
	{"NoGRO", "[::1]:0", Config{NoGRO: true}},
	{"plain", "127.0.0.1:0", Config{NoGSO: true, NoGRO: true}},
	{"portable4", "127.0.0.1:0", Config{Portable: true}},
	{"portable6", "[::1]:0", Config{Portable: true}},
}

// listen opens a socket that is closed with the test.
func listen(tb testing.TB, addr string, cfg Config) *Conn {
	tb.Helper()
	c, err := Listen(addr, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// patience is how long a packet that must come may take before a test fails
// instead of hanging.
const patience = 20 * time.Second

// receive returns the next want packets that c gets, each copied.
func receive(tb testing.TB, c *Conn, want, burst int) []transport.RxPacket {
	tb.Helper()
	var all []transport.RxPacket
	pkts := make([]transport.RxPacket, burst)
	start, quiet := time.Now(), 0
	for len(all) < want {
		n, err := c.RxBurst(pkts)
		if err != nil {
			tb.Fatal(err)
		}
		for _, p := range pkts[:n] {
			p.Data = append([]byte(nil), p.Data...)
			all = append(all, p)
		}
		if n == 0 {
			if err := c.Wait(patience); err != nil {
				tb.Fatal(err)
			}
			if quiet++; quiet > 1000 || time.Since(start) > patience {
				tb.Fatalf("%d of %d packets came", len(all), want)
			}
		}
	}
	return all
}

// transmit sends all of items.
func transmit(tb testing.TB, c *Conn, items []transport.TxItem) {
	tb.Helper()
	for len(items) > 0 {
		n, err := c.TxBurst(items)
		if err != nil {
			tb.Fatal(err)
		}
		items = items[n:]
	}
}

// portText returns the port of c as text.
func portText(c *Conn) string { return strconv.Itoa(int(c.LocalAddr().Port)) }

func TestConfigErrors(t *testing.T) {
	for _, v := range []struct {
		addr  string
		cfg   Config
		field string
	}{
		{"127.0.0.1:0", Config{MTU: MinMTU - 1}, "MTU"},
		{"127.0.0.1:0", Config{MTU: -1}, "MTU"},
		{"127.0.0.1:0", Config{MTU: MaxMTU4 + 1}, "MTU"},
		{"[::1]:0", Config{MTU: MaxMTU6 + 1}, "MTU"},
		{"[::1]:0", Config{RecvBuffer: -1}, "RecvBuffer"},
		{"[::1]:0", Config{SendBuffer: maxBuffer + 1}, "SendBuffer"},
		{"[::1]:0", Config{Portable: true, ECN: true}, "ECN"},
		{"[::1]:0", Config{Portable: true, ReusePort: true}, "ReusePort"},
	} {
		var ce *ConfigError
		if _, err := Listen(v.addr, v.cfg); !errors.As(err, &ce) || ce.Field != v.field {
			t.Errorf("Listen(%s, %+v): %v, want a ConfigError about %s", v.addr, v.cfg, err, v.field)
		}
	}
}

func TestBadAddresses(t *testing.T) {
	for _, text := range []string{"", "x", "1.2.3.4", "127.0.0.1:65536", "127.0.0.1:-1", "[::1",
		"::1:5:", "[fe80::1%nosuch]:5"} {
		if c, err := Listen(text, Config{}); !errors.Is(err, transport.ErrBadAddress) {
			t.Errorf("Listen(%q) = %v, %v, want ErrBadAddress", text, c, err)
		}
	}
	for _, portable := range []bool{false, true} {
		c4, c6 := listen(t, "127.0.0.1:0", Config{Portable: portable}),
			listen(t, "[::1]:0", Config{Portable: portable})
		for _, text := range []string{":5", "127.0.0.1:0", "[::1]:5", "127.0.0.1:70000"} {
			if a, err := c4.Resolve(text); !errors.Is(err, transport.ErrBadAddress) {
				t.Errorf("IPv4 socket: Resolve(%q) = %v, %v, want ErrBadAddress", text, a, err)
			}
		}
		if a, err := c6.Resolve("127.0.0.1:5"); !errors.Is(err, transport.ErrBadAddress) {
			t.Errorf("IPv6 socket: Resolve = %v, %v, want ErrBadAddress", a, err)
		}
		// An address of the wrong family that came from elsewhere is dropped.
		transmit(t, c4, []transport.TxItem{{Dst: c6.LocalAddr(), Head: []byte("x")}})
		if s := c4.Stats(); s.TxDropped != 1 {
			t.Errorf("stats %+v, want 1 dropped", s)
		}
	}
}

// TestDualStack has a socket on all addresses talk to IPv4 and IPv6 peers.
func TestDualStack(t *testing.T) {
	for _, portable := range []bool{false, true} {
		for _, addr := range []string{":0", "[::]:0"} {
			all := listen(t, addr, Config{Portable: portable})
			for _, host := range []string{"127.0.0.1", "[::1]"} {
				peer := listen(t, host+":0", Config{Portable: portable})
				dst, err := peer.Resolve(host + ":" + portText(all))
				if err != nil {
					t.Fatal(err)
				}
				transmit(t, peer, []transport.TxItem{{Dst: dst, Head: []byte("ping")}})
				p := receive(t, all, 1, 4)[0]
				if p.From != peer.LocalAddr() {
					t.Fatalf("from %v, want %v", p.From, peer.LocalAddr())
				}
				transmit(t, all, []transport.TxItem{{Dst: p.From, Head: p.Data}, {Dst: p.From, Head: p.Data}})
				for _, p := range receive(t, peer, 2, 4) {
					if string(p.Data) != "ping" || p.From != dst {
						t.Fatalf("got %q from %v, want it from %v", p.Data, p.From, dst)
					}
				}
			}
		}
	}
}

// TestPeerGone sends to a closed port, which the network answers with ICMP
// errors, and then to a living peer.
func TestPeerGone(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			a, b, gone := listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg)
			dead := gone.LocalAddr()
			gone.Close()
			pkts := make([]transport.RxPacket, 4)
			for range 50 {
				it := transport.TxItem{Dst: dead, Head: make([]byte, 48)}
				transmit(t, a, []transport.TxItem{it})
				transmit(t, a, []transport.TxItem{it, it, it})
				if n, err := a.RxBurst(pkts); n != 0 || err != nil {
					t.Fatal(n, err)
				}
				transmit(t, a, []transport.TxItem{{Dst: b.LocalAddr(), Head: make([]byte, 48)}})
				receive(t, b, 1, 4)
			}
		})
	}
}

// TestTooLongForReceiver has a peer with a larger MTU send: the packet is
// dropped whole and counted, the next one arrives.
func TestTooLongForReceiver(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			const mtu = 1452
			big, small := v.cfg, v.cfg
			big.MTU, small.MTU = 4000, mtu
			a, b := listen(t, v.addr, big), listen(t, v.addr, small)
			transmit(t, a, []transport.TxItem{
				{Dst: b.LocalAddr(), Head: make([]byte, mtu+1)},
				{Dst: b.LocalAddr(), Head: make([]byte, 4000)},
				{Dst: b.LocalAddr(), Head: make([]byte, mtu)}})
			if p := receive(t, b, 1, 4); len(p[0].Data) != mtu {
				t.Errorf("%d bytes", len(p[0].Data))
			}
			if s := b.Stats(); s.RxDropped != 2 || s.RxPackets != 1 {
				t.Errorf("stats %+v, want 2 dropped and 1 received", s)
			}
		})
	}
}

// TestRxRing sends as many packets as Caps promises to hold and receives none
// meanwhile; then far more, and the loss must be counted.
func TestRxRing(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			a, b := listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg)
			ring := b.Caps().RxRing
			item := transport.TxItem{Dst: b.LocalAddr(), Head: make([]byte, b.Caps().MTU)}
			for range ring {
				transmit(t, a, []transport.TxItem{item})
			}
			receive(t, b, ring, 64)
			if s := b.Stats(); s.RxDropped != 0 {
				t.Errorf("%d of %d packets dropped", s.RxDropped, ring)
			}
			if v.cfg.Portable {
				return // it does not know
			}
			for range 4 * ring {
				transmit(t, a, []transport.TxItem{item})
			}
			if s := b.Stats(); s.RxDropped == 0 {
				t.Error("a full buffer dropped nothing")
			}
		})
	}
}

// TestPath: what is known of a destination, of none, and after Close.
func TestPath(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			a, b := listen(t, v.addr, v.cfg), listen(t, v.addr, v.cfg)
			want := transport.Path{
				MTU: a.Caps().MTU, HostDelay: 100 * time.Microsecond, Checksummed: true,
			}
			for range 2 {
				for _, dst := range []transport.Addr{b.LocalAddr(), {}} {
					want.Local = dst != transport.Addr{}
					if got := a.Path(dst); got != want {
						t.Errorf("Path(%v) = %+v, want %+v", dst, got, want)
					}
				}
				a.Close()
			}
		})
	}
}

// TestPathCache: the last answer of the kernel holds for a while, for one host, within the limits
// of a Path.
func TestPathCache(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", Config{}), listen(t, "127.0.0.1:0", Config{})
	other, scoped := b.LocalAddr(), b.LocalAddr()
	other.IP[15]++
	scoped.Scope++
	for _, v := range []struct {
		dst       transport.Addr
		mtu, want int
	}{
		{b.LocalAddr(), 777, 777},
		{b.LocalAddr(), DefaultMTU + 1, DefaultMTU},
		{b.LocalAddr(), -8, 1},    // a route whose MTU is less than the headers
		{a.LocalAddr(), 777, 777}, // another port
		{other, 777, DefaultMTU},
		{scoped, 777, DefaultMTU},
	} {
		a.path = pathMTU{v.dst, v.mtu, true, monotime.Now()}
		if p := a.Path(b.LocalAddr()); p.MTU != v.want {
			t.Errorf("Path.MTU = %d with %d for %v cached, want %d", p.MTU, v.mtu, v.dst, v.want)
		}
	}
	a.path = pathMTU{b.LocalAddr(), 777, false, monotime.Now().Add(-2 * pathFor)}
	if p := a.Path(b.LocalAddr()); p.MTU != DefaultMTU || a.path.mtu == 777 {
		t.Errorf("Path.MTU = %d of an old answer, cached %+v", p.MTU, a.path)
	}
}

// TestLocalPaths: paths to all addresses of this machine are local, and others are not.
func TestLocalPaths(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.8.9.10")}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() {
			own = append(own, p.Addr())
		}
	}
	for _, ip := range own {
		at := "0.0.0.0:0"
		if ip.Is6() {
			at = "[::]:0"
		}
		dst := transport.AddrFrom(netip.AddrPortFrom(ip, 9), 0)
		if p := listen(t, at, Config{}).Path(dst); !p.Local {
			t.Errorf("%v: path %+v is not local", ip, p)
		}
	}
	for _, ip := range []string{"192.0.2.1", "2001:db8::1"} { // documentation's, RFC 5737 and 3849
		dst := transport.AddrFrom(netip.AddrPortFrom(netip.MustParseAddr(ip), 9), 0)
		if p := listen(t, "[::]:0", Config{}).Path(dst); p.Local {
			t.Errorf("%v: path %+v is local", ip, p)
		}
	}
}

func TestMTUs(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		dst := listen(t, addr, Config{}).LocalAddr()
		for name, f := range map[string]func(transport.Addr) (int,
			error){"PathMTU": PathMTU, "InterfaceMTU": InterfaceMTU} {
			if n, err := f(dst); err != nil || n < DefaultMTU || n > MaxMTU4 {
				t.Errorf("%s(%v) = %d, %v", name, dst, n, err)
			}
			if n, err := f(transport.Addr{}); !errors.Is(err, transport.ErrBadAddress) {
				t.Errorf("%s of no address = %d, %v, want ErrBadAddress", name, n, err)
			}
		}
	}
}
