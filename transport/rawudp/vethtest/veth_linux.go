package vethtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Side is one end of the pair, in its own namespace.
type Side struct {
	Name   string // of the interface
	IP4    netip.Addr
	IP6    netip.Addr
	Local6 netip.Addr // link-local
	VLAN   netip.Addr // after AddVLAN
	MAC    net.HardwareAddr
	Handle *netlink.Handle // of the namespace
	ns     netns.NsHandle
	tb     testing.TB
}

// Pair is two sides joined by a link.
type Pair struct {
	A, B *Side
	mtu  int
}

// New returns a new pair with that MTU in bytes, both sides up.
func New(tb testing.TB, mtu int) *Pair {
	tb.Helper()
	var p *Pair
	demand(tb, func() (err error) { p, err = open(tb, mtu); return err })
	return p
}

// demand makes a network, or ends the test.
func demand(tb testing.TB, open func() error) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("a network namespace needs root")
	}
	if err := open(); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatalf("no network namespace: %v", err)
		}
		tb.Skipf("no network namespace: %v", err)
	}
}

func open(tb testing.TB, mtu int) (*Pair, error) {
	p := &Pair{mtu: mtu}
	for i, side := range []**Side{&p.A, &p.B} {
		s := &Side{
			Name: fmt.Sprintf("veth%c", 'a'+i), tb: tb,
			IP4:    netip.AddrFrom4([4]byte{10, 111, 0, byte(i + 1)}),
			IP6:    netip.MustParseAddr(fmt.Sprintf("fd00:111::%d", i+1)),
			Local6: netip.MustParseAddr(fmt.Sprintf("fe80::111:%d", i+1)),
		}
		if err := s.open(); err != nil {
			return nil, err
		}
		*side = s
	}
	return p, p.Join()
}

// open makes a namespace.
func (s *Side) open() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := netns.Get()
	if err != nil {
		return err
	}
	defer home.Close()
	if s.ns, err = netns.New(); err != nil {
		return err
	}
	defer func() {
		if netns.Set(home) != nil {
			runtime.LockOSThread() // the thread must not run anything else
		}
	}()
	if s.Handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return err
	}
	s.tb.Cleanup(func() {
		s.Handle.Close()
		s.ns.Close()
	})
	lo, err := s.Handle.LinkByName("lo")
	if err != nil {
		return err
	}
	return s.Handle.LinkSetUp(lo)
}

// Join makes the link, also again after it was deleted.
func (p *Pair) Join() error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = p.A.Name, p.mtu
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: p.B.Name, PeerNamespace: netlink.NsFd(p.B.ns),
		PeerMTU: uint32(p.mtu)}
	if err := p.A.Handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	for _, s := range []*Side{p.A, p.B} {
		if err := s.configure(); err != nil {
			return err
		}
	}
	return errors.Join(p.A.knows(p.B), p.B.knows(p.A))
}

// knows tells the kernel the MAC address of the other side's IPv6 addresses: over a link that
// is new its first solicitation is lost, and the second comes a second later.
func (s *Side) knows(other *Side) (err error) {
	for _, ip := range []netip.Addr{other.IP6, other.Local6} {
		err = errors.Join(err, s.Handle.NeighSet(&netlink.Neigh{
			LinkIndex: s.Link().Attrs().Index, Family: unix.AF_INET6, State: netlink.NUD_PERMANENT,
			IP: ip.AsSlice(), HardwareAddr: other.MAC,
		}))
	}
	return err
}

// configure gives the interface its addresses and brings it up.
func (s *Side) configure() error {
	l, err := s.Handle.LinkByName(s.Name)
	if err != nil {
		return err
	}
	s.MAC = l.Attrs().HardwareAddr
	if err := s.Handle.LinkSetUp(l); err != nil {
		return err
	}
	for _, ip := range []netip.Addr{s.IP4, s.IP6, s.Local6} {
		bits := 24
		if ip.Is6() {
			bits = 64
		}
		a := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(bits, ip.BitLen())}}
		if ip.Is6() {
			a.Flags = unix.IFA_F_NODAD // at once, without asking whether somebody has it
		}
		if err := s.Handle.AddrAdd(l, a); err != nil {
			return fmt.Errorf("address %v: %w", ip, err)
		}
	}
	return nil
}

// Link returns the interface.
func (s *Side) Link() netlink.Link {
	s.tb.Helper()
	l, err := s.Handle.LinkByName(s.Name)
	if err != nil {
		s.tb.Fatal(err)
	}
	return l
}

// Up sets the interface up or down.
func (s *Side) Up(up bool) {
	s.tb.Helper()
	l, set := s.Link(), s.Handle.LinkSetDown
	if up {
		set = s.Handle.LinkSetUp
	}
	if err := set(l); err != nil {
		s.tb.Fatal(err)
	}
}

// Delete deletes the interface, and with it the other side's.
func (s *Side) Delete() {
	s.tb.Helper()
	if err := s.Handle.LinkDel(s.Link()); err != nil {
		s.tb.Fatal(err)
	}
}

// Forget makes the kernel forget the neighbour ip.
func (s *Side) Forget(ip netip.Addr) error {
	return s.Handle.NeighDel(&netlink.Neigh{LinkIndex: s.Link().Attrs().Index, IP: ip.AsSlice()})
}

// Bare removes all addresses of the interface.
func (s *Side) Bare() {
	s.tb.Helper()
	addrs, err := s.Handle.AddrList(s.Link(), netlink.FAMILY_ALL)
	for i := range addrs {
		err = errors.Join(err, s.Handle.AddrDel(s.Link(), &addrs[i]))
	}
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Renumber changes the interface's MAC address.
func (s *Side) Renumber(mac net.HardwareAddr) {
	s.tb.Helper()
	if err := s.Handle.LinkSetHardwareAddr(s.Link(), mac); err != nil {
		s.tb.Fatal(err)
	}
	s.MAC = mac
}

// Learn tells the kernel the MAC address of the other side's IPv4 address, as an announcement of it
// would.
func (s *Side) Learn(other *Side) {
	s.tb.Helper()
	err := s.Handle.NeighSet(&netlink.Neigh{
		LinkIndex: s.Link().Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_REACHABLE,
		IP: other.IP4.AsSlice(), HardwareAddr: other.MAC,
	})
	if err != nil {
		s.tb.Fatal(err)
	}
}

// AddVLAN makes an interface for an 802.1Q identifier on both sides, with the address Side.VLAN.
func (p *Pair) AddVLAN(id int) error {
	for i, s := range []*Side{p.A, p.B} {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = fmt.Sprintf("%s.%d", s.Name, id), s.Link().Attrs().Index
		if err := s.Handle.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: id}); err != nil {
			return err
		}
		l, err := s.Handle.LinkByName(attrs.Name)
		if err != nil {
			return err
		}
		s.VLAN = netip.AddrFrom4([4]byte{10, 111, byte(id), byte(i + 1)})
		a := &netlink.Addr{IPNet: &net.IPNet{IP: s.VLAN.AsSlice(), Mask: net.CIDRMask(24, 32)}}
		if err := errors.Join(s.Handle.LinkSetUp(l), s.Handle.AddrAdd(l, a)); err != nil {
			return err
		}
	}
	return nil
}

// Disturb makes and deletes another interface in the namespace.
func (s *Side) Disturb() {
	s.tb.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "other"
	other := &netlink.Veth{LinkAttrs: attrs, PeerName: "another"}
	if err := errors.Join(s.Handle.LinkAdd(other), s.Handle.LinkSetUp(other),
		s.Handle.LinkDel(other)); err != nil {
		s.tb.Fatal(err)
	}
}

// Do runs f in the side's namespace, on the calling goroutine. Sockets that f opens stay there.
func (s *Side) Do(f func()) {
	s.tb.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := netns.Set(s.ns); err != nil {
		s.tb.Fatal(err)
	}
	defer func() { // also if f ends the test
		if netns.Set(home) == nil {
			runtime.UnlockOSThread()
		}
		home.Close()
	}()
	f()
}
