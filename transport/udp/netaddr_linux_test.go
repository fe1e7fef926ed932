package udp

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"golang.org/x/sys/unix"
)

// setAddr4 gives an interface one more IPv4 address under a label such as "lo:1". The address has
// no network: on the loopback interface all of the network would be local.
func setAddr4(t *testing.T, label string, ip netip.Addr) {
	t.Helper()
	must(t, ioctl4(label, unix.SIOCSIFADDR, func(r *unix.Ifreq) error {
		return r.SetInet4Addr(ip.AsSlice())
	}))
	must(t, ioctl4(label, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error {
		return r.SetInet4Addr([]byte{255, 255, 255, 255})
	}))
}

// removeAddr4 removes the address with the label.
func removeAddr4(t *testing.T, label string) {
	t.Helper()
	must(t, ioctl4(label, unix.SIOCSIFFLAGS, func(*unix.Ifreq) error { return nil }))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ioctl4 makes a request about an interface or a label. The calling thread's namespace counts.
func ioctl4(label string, request uint, fill func(*unix.Ifreq) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq(label)
	if err == nil {
		err = fill(req)
	}
	if err == nil {
		err = unix.IoctlIfreq(fd, request, req)
	}
	return err
}

// ioctl6 adds or removes an IPv6 address of an interface (struct in6_ifreq of netdevice(7)).
func ioctl6(t *testing.T, name string, request uint, ip netip.Addr) {
	t.Helper()
	ifi, err := net.InterfaceByName(name)
	must(t, err)
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	var req [24]byte
	copy(req[:], ip.AsSlice())
	binary.NativeEndian.PutUint32(req[16:], 64) // bits of the network
	binary.NativeEndian.PutUint32(req[20:], uint32(ifi.Index))
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request),
		uintptr(unsafe.Pointer(&req)))
	if e != 0 {
		t.Fatalf("address %v of %s: %v", ip, name, e)
	}
}

// setFirst and setSecond give the loopback interface an address of each family.
func setFirst(t *testing.T) {
	setAddr4(t, "lo:1", netip.MustParseAddr("10.9.0.1"))
	ioctl6(t, "lo", unix.SIOCSIFADDR, netip.MustParseAddr("fd00:9::1"))
	settleOn(t, "[fd00:9::1]")
}

func setSecond(t *testing.T) {
	setAddr4(t, "lo:2", netip.MustParseAddr("10.9.0.2"))
	ioctl6(t, "lo", unix.SIOCSIFADDR, netip.MustParseAddr("fd00:9::2"))
	settleOn(t, "[fd00:9::2]")
}

// settleOn waits until packets to host, an address of this machine, arrive: the kernel completes an
// IPv6 address in the background.
func settleOn(t *testing.T, host string) {
	t.Helper()
	c := listen(t, ":0", Config{})
	dst, err := c.Resolve(host + ":" + portText(c))
	must(t, err)
	arrives(t, asker{c, dst}, c)
}

// arrives repeats a packet of a, and sink answers, until one of the answers arrives.
func arrives(t *testing.T, a asker, sink *Conn) {
	t.Helper()
	pkts := make([]transport.RxPacket, 1)
	for start := time.Now(); time.Since(start) < patience; {
		transmit(t, a.client, packets(a.dst, 1, 9))
		must(t, sink.Wait(time.Millisecond))
		n, err := sink.RxBurst(pkts)
		must(t, err)
		if n > 0 {
			transmit(t, sink, packets(pkts[0].From, 1, 9))
		}
		if n, err = a.client.RxBurst(pkts); n > 0 || err != nil {
			must(t, err)
			return
		}
	}
	t.Fatalf("%v does not answer", a.dst)
}

// newLink returns two machines joined by a link, when the kernel has completed it.
func newLink(t *testing.T) *vethtest.Pair {
	p := vethtest.New(t, 1500)
	start := time.Now()
	for _, s := range []*vethtest.Side{p.A, p.B} {
		for s.Link().Attrs().OperState.String() != "up" {
			if time.Since(start) > patience {
				t.Fatalf("%s is %v", s.Name, s.Link().Attrs().OperState)
			}
		}
	}
	return p
}

// removeSecond takes back setSecond.
func removeSecond(t *testing.T) {
	removeAddr4(t, "lo:2")
	ioctl6(t, "lo", unix.SIOCDIFADDR, netip.MustParseAddr("fd00:9::2"))
}

// TestSourceTwoAddresses: an interface has two addresses of each family, and whichever is asked
// answers.
func TestSourceTwoAddresses(t *testing.T) {
	inNamespace(t, 65536, func(t *testing.T) {
		setFirst(t)
		setSecond(t)
		for _, v := range wildcards {
			server := listen(t, v.addr, v.cfg)
			askers := []asker{
				newAsker(t, server, "10.9.0.1", "10.9.0.2"), newAsker(t, server, "10.9.0.2", "10.9.0.1"),
				newAsker(t, server, "127.0.0.1", "10.9.0.2"),
			}
			if v.ip6 {
				askers = append(askers, newAsker(t, server, "[fd00:9::1]", "[fd00:9::2]"),
					newAsker(t, server, "[fd00:9::2]", "[fd00:9::1]"),
					newAsker(t, server, "[::1]", "[fd00:9::2]"))
			}
			exchangeAll(t, server, askers)
		}
	})
}

// TestSourceGone: the address that a peer asked is taken off the machine. Packets to the peer
// leave from another one, alone and in trains, and trains go on being tried.
func TestSourceGone(t *testing.T) {
	inNamespace(t, 65536, func(t *testing.T) {
		setFirst(t)
		setSecond(t)
		for _, v := range wildcards {
			for _, count := range []int{1, 40} {
				server := listen(t, v.addr, v.cfg)
				tx := &server.impl.(*kernelConn).tx
				segments := tx.segments
				askers := []asker{newAsker(t, server, "10.9.0.1", "10.9.0.2")}
				if v.ip6 {
					askers = append(askers, newAsker(t, server, "[fd00:9::1]", "[fd00:9::2]"))
				}
				exchange(t, server, askers, 3, 48)
				removeSecond(t)
				sendWithout(t, server, askers, count)
				for _, a := range askers {
					peer := a.client.LocalAddr()
					wantSource(t, tx.sources, &peer, nil)
				}
				if tx.segments != segments {
					t.Errorf("%s: trains of %d packets, were %d", v.name, tx.segments, segments)
				}
				if s := server.Stats(); s.TxDropped != 0 {
					t.Errorf("%s: %d packets dropped", v.name, s.TxDropped)
				}
				setSecond(t)
				exchange(t, server, askers, 3, 48)
			}
		}
	})
}

// sendWithout sends count packets to each asker, in one burst, twice: they must come from another
// address than was asked.
func sendWithout(t *testing.T, server *Conn, askers []asker, count int) {
	t.Helper()
	for range 2 {
		var items []transport.TxItem
		for _, a := range askers {
			items = append(items, packets(a.client.LocalAddr(), count, 48)...)
		}
		for i := range items { // several trains to each
			items[i].Head[loopAt] = byte(i / 4 % 2)
		}
		transmit(t, server, items)
		for _, a := range askers {
			for _, p := range receive(t, a.client, count, 16) {
				if p.From == a.dst {
					t.Fatalf("a packet comes from %v, which has gone", p.From)
				}
			}
		}
	}
}

// TestSourceLink: across a link the second IPv4 address, the link-local and the global IPv6
// address answer for themselves, whatever kind of address asks.
func TestSourceLink(t *testing.T) {
	p := newLink(t)
	second := netip.MustParseAddr("10.111.0.77")
	var server, sink *Conn
	p.A.Do(func() {
		setAddr4(t, p.A.Name+":1", second)
		server, sink = listen(t, ":0", Config{MTU: 1400}), listen(t, ":0", Config{MTU: 1400})
	})
	zone := "%" + p.B.Name
	var askers []asker
	p.B.Do(func() {
		global, local := "["+p.B.IP6.String()+"]", "["+p.B.Local6.String()+zone+"]"
		global2, local2 := "["+p.A.IP6.String()+"]", "["+p.A.Local6.String()+zone+"]"
		for _, v := range [][2]string{
			{p.B.IP4.String(), second.String()}, {p.B.IP4.String(), p.A.IP4.String()},
			{global, global2}, {global, local2}, {local, global2}, {local, local2},
		} {
			arrives(t, newAsker(t, sink, v[0], v[1]), sink)
			askers = append(askers, newAsker(t, server, v[0], v[1]))
		}
	})
	exchangeAll(t, server, askers)
}

// groupLink is a link, a server on one side, and clients of both families on the other.
type groupLink struct {
	server *Conn
	known  []asker // each asks an address of the server
	silent []asker // each sends to a group of hosts only
}

func newGroupLink(t *testing.T, addr string, ip6 bool) (g groupLink) {
	p := newLink(t)
	var sink *Conn
	p.A.Do(func() {
		g.server, sink = listen(t, addr, Config{MTU: 1400}), listen(t, addr, Config{MTU: 1400})
	})
	client := func(bind, ask, group string) {
		g.known = append(g.known, newAsker(t, g.server, bind, ask))
		g.silent = append(g.silent, newShouter(t, g.server, bind, group))
		allowBroadcast(t, g.known[len(g.known)-1].client)
		arrives(t, newShouter(t, sink, bind, group), sink)
	}
	p.B.Do(func() {
		client(p.B.IP4.String(), p.A.IP4.String(), "10.111.0.255")
		if ip6 {
			zone := "%" + p.B.Name + "]"
			client("["+p.B.Local6.String()+zone, "["+p.A.IP6.String()+"]", "[ff02::1"+zone)
		}
	})
	return g
}

// newShouter is newAsker for one that sends to a group of hosts.
func newShouter(t *testing.T, server *Conn, bind, group string) asker {
	a := newAsker(t, server, bind, group)
	allowBroadcast(t, a.client)
	return a
}

func allowBroadcast(t *testing.T, c *Conn) {
	fd := c.impl.(*kernelConn).fd
	must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1))
}

// TestSourceGroups: messages to a broadcast or multicast address do not say which address their
// sender asks, and do not change what is known.
func TestSourceGroups(t *testing.T) {
	for _, v := range wildcards[:2] {
		g := newGroupLink(t, v.addr, v.ip6)
		for i, a := range g.known {
			exchange(t, g.server, []asker{a}, 1, 48)
			for _, client := range []*Conn{a.client, g.silent[i].client} {
				transmit(t, client, packets(g.silent[i].dst, 1, 48))
				if from := receive(t, g.server, 1, 4)[0].From; from != client.LocalAddr() {
					t.Fatalf("from %v, want %v", from, client.LocalAddr())
				}
			}
			peer := g.silent[i].client.LocalAddr()
			wantSource(t, g.server.impl.(*kernelConn).tx.sources, &peer, nil)
			transmit(t, g.server, packets(a.client.LocalAddr(), 1, 48))
			wantFrom(t, a, 1, 48)
		}
	}
}
