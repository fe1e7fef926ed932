package auto

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// patience is how long a test waits for an event that ought to come at once.
const patience = 10 * time.Second

// send makes c take one packet.
func send(tb testing.TB, c transport.Transport, to transport.Addr, text string) {
	tb.Helper()
	items := []transport.TxItem{{Dst: to, Head: []byte(text)}}
	for end := time.Now().Add(patience); ; {
		n, err := c.TxBurst(items)
		if err != nil {
			tb.Fatalf("TxBurst: %v", err)
		}
		if n == 1 {
			return
		}
		if time.Now().After(end) {
			tb.Fatal("TxBurst takes nothing")
		}
	}
}

// receive waits for one packet.
func receive(tb testing.TB, c transport.Transport) transport.RxPacket {
	tb.Helper()
	pkts := make([]transport.RxPacket, 1)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		n, err := c.RxBurst(pkts)
		if err != nil {
			tb.Fatalf("RxBurst: %v", err)
		}
		if n == 1 {
			return pkts[0]
		}
		if err := c.Wait(time.Second); err != nil {
			tb.Fatalf("Wait: %v", err)
		}
	}
	tb.Fatal("no packet came")
	panic("unreachable")
}

// exchange sends a packet from a to the address of b as text, and back, and returns where
// a found b.
func exchange(tb testing.TB, a, b transport.Transport, text string) transport.Addr {
	tb.Helper()
	to, err := a.Resolve(text)
	if err != nil {
		tb.Fatalf("Resolve(%s): %v", text, err)
	}
	send(tb, a, to, "there")
	p := receive(tb, b)
	if string(p.Data) != "there" {
		tb.Fatalf("got %q", p.Data)
	}
	send(tb, b, p.From, "back")
	p = receive(tb, a)
	if string(p.Data) != "back" || p.From != to {
		tb.Fatalf("got %q from %v, want it from %v", p.Data, p.From, to)
	}
	return to
}

func textOf(ip string, c transport.Transport) string {
	return netip.AddrPortFrom(netip.MustParseAddr(ip), c.LocalAddr().AddrPort().Port()).String()
}

// TestChoice: what Resolve chooses for each pair of listening and asked address.
func TestChoice(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	for _, v := range []struct {
		listen, ask, from string
		shared            bool
	}{
		{"127.0.0.1:0", "127.0.0.1", "127.0.0.1:0", true},
		{"127.0.0.1:0", "127.0.0.1", ":0", true},
		{"0.0.0.0:0", "127.0.0.1", "127.0.0.1:0", true},
		{"0.0.0.0:0", "127.0.0.7", "0.0.0.0:0", true},
		{"0.0.0.0:0", "0.0.0.0", "0.0.0.0:0", true},
		{":0", "127.0.0.1", "127.0.0.1:0", true},
		{":0", "::1", "[::1]:0", true},
		{"[::1]:0", "::1", "[::]:0", true},
	} {
		t.Run(v.listen+" asked for "+v.ask+" from "+v.from, func(t *testing.T) {
			if strings.Contains(v.listen+v.ask+v.from, "::") {
				needIPv6(t)
			}
			b, a := listen(t, v.listen, cfg), listen(t, v.from, cfg)
			if to := exchange(t, a, b, textOf(v.ask, b)); shm.IsAddr(&to) != v.shared {
				t.Fatalf("reached at %v", to)
			}
		})
	}
}

func needIPv6(t *testing.T) {
	c, err := net.ListenPacket("udp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	c.Close()
}

// TestOtherAddress: a socket bound to one address does not get packets to another, so its
// shared memory must not be taken for that one's.
func TestOtherAddress(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	b, a := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg)
	for _, ip := range []string{"127.0.0.2", "192.0.2.1"} {
		if to, err := a.Resolve(textOf(ip, b)); err != nil || shm.IsAddr(&to) {
			t.Errorf("Resolve(%s) = %v, %v", ip, to, err)
		}
	}
	c := listen(t, "127.0.0.1:0", cfg)
	c.ns++ // as if in another namespace, with the same address
	if to, err := c.Resolve(b.LocalAddr().String()); err != nil || shm.IsAddr(&to) {
		t.Errorf("in another network namespace: %v, %v", to, err)
	}
}

// TestInterfaceAddress: an address of an interface is this machine's, too.
func TestInterfaceAddress(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, n := range addrs {
		p, err := netip.ParsePrefix(n.String())
		if err != nil || !p.Addr().Is4() {
			continue
		}
		tried++
		b, a := listen(t, "0.0.0.0:0", cfg), listen(t, "0.0.0.0:0", cfg)
		if to, err := a.Resolve(textOf(p.Addr().String(), b)); err != nil || !shm.IsAddr(&to) {
			t.Errorf("Resolve on %v = %v, %v", p.Addr(), to, err)
		}
	}
	if tried == 0 {
		t.Skip("no IPv4 address on any interface")
	}
}

// TestPlainPeer: a peer that is plain UDP is reached, in both directions.
func TestPlainPeer(t *testing.T) {
	a, b := listen(t, "127.0.0.1:0", meeting(t)), listenUDP(t, "127.0.0.1:0")
	for _, pair := range [][2]transport.Transport{{a, b}, {b, a}} {
		to := exchange(t, pair[0], pair[1], pair[1].LocalAddr().String())
		if to != pair[1].LocalAddr() {
			t.Errorf("reached at %v, want %v", to, pair[1].LocalAddr())
		}
	}
}

// TestPath: each destination has the path of its way, with nothing of the other one.
func TestPath(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	cfg.SHM.MTU, cfg.UDP.MTU = 20_000, 3000
	a, b, plain := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", cfg),
		listenUDP(t, "127.0.0.1:0")
	u, s := a.udp.Caps(), a.shm.Caps()
	if c := a.Caps(); c.MTU != 20_000 || c.RxRing != min(u.RxRing, s.RxRing) {
		t.Errorf("Caps %+v of %+v and %+v", c, u, s)
	}
	shared := transport.Path{
		MTU: 20_000, HostDelay: time.Millisecond, Shared: true, Alone: true, Checksummed: true,
		Private: true, Local: true,
	}
	network := transport.Path{MTU: 3000, HostDelay: 100 * time.Microsecond, Checksummed: true,
		Local: true}
	for to, want := range map[transport.Transport]transport.Path{b: shared, plain: network} {
		dst, err := a.Resolve(to.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Path(dst); got != want {
			t.Errorf("Path(%v) = %+v, want %+v", dst, got, want)
		}
	}
	// The address of a socket belongs to UDP, also if its owner can be reached over shared memory.
	if got := a.Path(b.LocalAddr()); got != network {
		t.Errorf("Path of b's socket = %+v, want %+v", got, network)
	}
	network.Local = false
	if got := a.Path(transport.Addr{}); got != network {
		t.Errorf("Path of no address = %+v, want %+v", got, network)
	}
}

// TestWithout: reasons to be without shared memory.
func TestWithout(t *testing.T) {
	needShared(t)
	good := meeting(t)
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		name   string
		change func(*Config)
		want   error
	}{
		{"off", func(c *Config) { c.NoSharedMemory = true }, ErrTurnedOff},
		{"portable", func(c *Config) { c.UDP.Portable = true }, ErrPortable},
		{"several sockets", func(c *Config) { c.UDP.ReusePort = true }, ErrShared},
		{"directory", func(c *Config) { c.SHM.Dir = file }, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			cfg := good
			v.change(&cfg)
			a, b := listen(t, "127.0.0.1:0", cfg), listen(t, "127.0.0.1:0", good)
			on, why := a.SharedMemory()
			if on || why == nil || v.want != nil && !errors.Is(why, v.want) {
				t.Fatalf("SharedMemory = %v, %v", on, why)
			}
			if caps := a.Caps(); caps.MTU > udp.MaxMTU4 || caps.Name != "auto" {
				t.Errorf("Caps %+v", caps)
			}
			for _, dst := range []transport.Addr{{}, b.LocalAddr(), b.shm.LocalAddr()} {
				if p := a.Path(dst); p.Shared || p.Private || p.MTU > a.Caps().MTU {
					t.Errorf("Path(%v) = %+v", dst, p)
				}
			}
			exchange(t, a, b, b.LocalAddr().String())
			exchange(t, b, a, a.LocalAddr().String())
			if _, err := a.Resolve(b.shm.LocalAddr().String()); !errors.Is(err, transport.ErrBadAddress) {
				t.Errorf("Resolve of shared memory: %v", err)
			}
		})
	}
	var bad *shm.ConfigError
	if _, err := Listen("127.0.0.1:0", Config{SHM: shm.Config{MTU: 1}}); !errors.As(err, &bad) {
		t.Errorf("Listen with a bad Config: %v", err)
	}
	if _, err := Listen("nonsense", good); !errors.Is(err, transport.ErrBadAddress) {
		t.Errorf("Listen on nonsense: %v", err)
	}
}

// TestNameInUse: an endpoint whose name somebody has works over UDP.
func TestNameInUse(t *testing.T) {
	needShared(t)
	cfg := meeting(t)
	a := listen(t, "127.0.0.1:0", cfg)
	text := a.LocalAddr().String()
	if err := a.udp.Close(); err != nil { // leaves the name behind
		t.Fatal(err)
	}
	b := listen(t, text, cfg)
	if on, why := b.SharedMemory(); on || !errors.Is(why, shm.ErrNameInUse) {
		t.Fatalf("SharedMemory = %v, %v", on, why)
	}
}

// TestNames: every address gives another valid name.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, ns := range []uint64{0, 4026531840, 1<<32 - 1} {
		for _, ip := range []string{"0.0.0.0", "::", "127.0.0.1", "255.255.255.255", "::1", "fe80::1",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
			for _, port := range []uint16{1, 65535} {
				for _, scope := range []uint32{0, 1, 1<<32 - 1} {
					addr := netip.MustParseAddr(ip)
					if addr.Is4() && scope != 0 {
						continue
					}
					name := nameOf(ns, netip.AddrPortFrom(addr, port), scope)
					what := fmt.Sprint(ns, ip, port, scope)
					if len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
						t.Errorf("%s: bad name %q", what, name)
					}
					if seen[name] != "" {
						t.Errorf("%s and %s have the name %q", what, seen[name], name)
					}
					seen[name] = what
				}
			}
		}
	}
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.0.0.1"), 5)
	if a, b := nameOf(1, mapped, 0), nameOf(1, netip.MustParseAddrPort("10.0.0.1:5"), 0); a != b {
		t.Errorf("%q differs from %q", a, b)
	}
}

// TestHostsFromManyGoroutines: the list of this machine's addresses is read anew now and then,
// while others look into it. The race detector sees what goes wrong.
func TestHostsFromManyGoroutines(t *testing.T) {
	var h hosts
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if h.local(netip.MustParseAddr("192.0.2.1"), 0) { // for documentation, RFC 5737
					t.Error("192.0.2.1 is taken for an address of this machine")
				}
			}
		})
	}
	all.Wait()
}
