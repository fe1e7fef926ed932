package link

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/vethtest"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const patience = 10 * time.Second

func open(t *testing.T, s *vethtest.Side, cfg Config) *Network {
	t.Helper()
	var n *Network
	var err error
	s.Do(func() { n, _, err = Open(s.Name, netip.Addr{}, cfg) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// await polls n until done.
func await(t *testing.T, n *Network, neighbour func(netip.Addr, rawudp.MAC, bool),
	done func(routes, link bool) bool) {
	t.Helper()
	poll := []unix.PollFd{{Fd: int32(n.FD()), Events: unix.POLLIN}}
	for {
		if done(n.Poll(neighbour)) {
			return
		}
		k, err := unix.Poll(poll, int(patience/time.Millisecond))
		if err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		if k == 0 {
			t.Fatal("the news never come")
		}
	}
}

func ignore(netip.Addr, rawudp.MAC, bool) {}

func TestOpen(t *testing.T) {
	p := vethtest.New(t, 1400)
	p.A.Do(func() {
		for _, x := range []struct {
			name string
			ip   netip.Addr
			want netip.Addr
		}{
			{p.A.Name, netip.Addr{}, p.A.IP4}, {p.A.Name, p.A.IP6, p.A.IP6}, {"", p.A.IP6, p.A.IP6},
			{"", p.A.IP4, p.A.IP4},
		} {
			n, ip, err := Open(x.name, x.ip, Config{})
			if err != nil || ip != x.want {
				t.Errorf("Open(%q, %v): %v, %v", x.name, x.ip, ip, err)
				continue
			}
			want := rawudp.Link{Name: p.A.Name, Index: p.A.Link().Attrs().Index, MAC: rawudp.MAC(p.A.MAC),
				MTU: 1400, Up: true}
			if n.Link() != want {
				t.Errorf("link %+v, want %+v", n.Link(), want)
			}
			n.Close()
		}
		for name, want := range map[string]error{"nosuch": rawudp.ErrNoLink, "lo": rawudp.ErrNotEthernet,
			"": rawudp.ErrNoLink} {
			if _, _, err := Open(name, netip.Addr{}, Config{}); !errors.Is(err, want) {
				t.Errorf("Open(%q): %v, want %v", name, err, want)
			}
		}
	})
}

// TestNextHop: neighbours on the link, a gateway, static ones, and nothing.
func TestNextHop(t *testing.T) {
	p := vethtest.New(t, 1500)
	fixed := netip.MustParseAddr("203.0.113.5")
	mac := rawudp.MAC{2, 1, 1, 1, 1, 1}
	n := open(t, p.A, Config{Neighbours: map[netip.Addr]rawudp.MAC{fixed: mac}})
	away := netip.MustParseAddr("198.51.100.9")
	if _, err := n.NextHop(away); !errors.Is(err, rawudp.ErrNoRoute) {
		t.Errorf("without a route: %v", err)
	}
	_, dst, _ := net.ParseCIDR("198.51.100.0/24")
	route := &netlink.Route{LinkIndex: n.Link().Index, Dst: dst, Gw: p.B.IP4.AsSlice()}
	if err := p.A.Handle.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	await(t, n, ignore, func(routes, _ bool) bool { return routes })
	for ip, want := range map[netip.Addr]netip.Addr{away: p.B.IP4, p.B.IP4: p.B.IP4, p.B.IP6: p.B.IP6,
		fixed: fixed} {
		if got, err := n.NextHop(ip); got != want || err != nil {
			t.Errorf("NextHop(%v) = %v, %v, want %v", ip, got, err, want)
		}
	}
	if got, err := n.Neighbour(fixed); got != mac || err != nil {
		t.Errorf("static neighbour: %v, %v", got, err)
	}
	if _, err := n.NextHop(p.A.IP4); !errors.Is(err, rawudp.ErrNoRoute) { // over lo
		t.Errorf("to itself: %v", err)
	}
	if got, err := n.Await(away, patience); got != rawudp.MAC(p.B.MAC) || err != nil {
		t.Errorf("over the gateway: %v, %v", got, err)
	}
}

// TestNeighbour: an unknown neighbour is pending, the kernel looks for it, and Poll tells.
func TestNeighbour(t *testing.T) {
	p := vethtest.New(t, 1500)
	n := open(t, p.A, Config{})
	if _, err := n.Neighbour(p.B.IP4); !errors.Is(err, rawudp.ErrPending) {
		t.Fatalf("unknown neighbour: %v", err)
	}
	var got rawudp.MAC
	learn := func(ip netip.Addr, mac rawudp.MAC, found bool) {
		if ip == p.B.IP4 && found {
			got = mac
		}
	}
	await(t, n, learn, func(bool, bool) bool { return got != rawudp.MAC{} })
	if mac, err := n.Neighbour(p.B.IP4); err != nil || mac != got || mac != rawudp.MAC(p.B.MAC) {
		t.Errorf("neighbour %v, %v; told %v", mac, err, got)
	}
	lost := false
	if _, err := n.Neighbour(netip.MustParseAddr("10.111.0.99")); !errors.Is(err, rawudp.ErrPending) {
		t.Fatal(err)
	}
	await(t, n, func(ip netip.Addr, _ rawudp.MAC, found bool) { lost = !found && ip.As4()[3] == 99 },
		func(bool, bool) bool { return lost })
}

// TestLinkNews: down, up, and away are told; others' links are not.
func TestLinkNews(t *testing.T) {
	p := vethtest.New(t, 1500)
	n := open(t, p.A, Config{})
	p.A.Disturb()
	p.A.Up(false)
	changes := 0
	until := func(what string, ok func(rawudp.Link) bool) {
		t.Helper()
		await(t, n, ignore, func(_, link bool) bool {
			if link {
				changes++
			}
			return ok(n.Link())
		})
		if n.Link().Name != p.A.Name {
			t.Errorf("%s: %+v", what, n.Link())
		}
	}
	until("down", func(l rawudp.Link) bool { return !l.Up && l.Index != 0 })
	p.A.Up(true)
	until("up", func(l rawudp.Link) bool { return l.Up })
	p.B.Up(false) // no carrier
	until("no carrier", func(l rawudp.Link) bool { return !l.Up })
	p.B.Up(true)
	until("carrier", func(l rawudp.Link) bool { return l.Up })
	p.A.Delete()
	until("deleted", func(l rawudp.Link) bool { return l.Index == 0 && !l.Up })
	if _, err := n.NextHop(p.B.IP4); !errors.Is(err, rawudp.ErrLinkGone) {
		t.Errorf("over a deleted link: %v", err)
	}
	if err := p.Join(); err != nil {
		t.Fatal(err)
	}
	until("back", func(l rawudp.Link) bool { return l.Up && l.MAC == rawudp.MAC(p.A.MAC) })
	if changes > 12 {
		t.Errorf("%d changes told", changes)
	}
}

// TestClose ends an Await under way, and what comes after.
func TestClose(t *testing.T) {
	p := vethtest.New(t, 1500)
	n := open(t, p.A, Config{})
	ended := make(chan error, 1)
	go func() {
		_, err := n.Await(netip.MustParseAddr("10.111.0.99"), time.Hour)
		ended <- err
	}()
	n.Close()
	// It may also have found before that nobody answers.
	if err := <-ended; !errors.Is(err, transport.ErrClosed) && !errors.Is(err, rawudp.ErrNoNeighbour) {
		t.Errorf("Await: %v", err)
	}
	if _, err := n.Neighbour(p.B.IP4); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("Neighbour after Close: %v", err)
	}
}
