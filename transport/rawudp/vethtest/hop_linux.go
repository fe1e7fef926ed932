package vethtest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Hop is two sides on links of their own, with a router between them.
type Hop struct {
	A, B   *Side
	router *Side
	routes [2]netlink.Route // of the router, to each side
}

// NewHop returns two sides whose links have that MTU in bytes, all up, with IPv4 addresses only.
func NewHop(tb testing.TB, mtu int) *Hop {
	tb.Helper()
	h := &Hop{router: &Side{tb: tb}}
	demand(tb, func() error { return h.open(tb, mtu) })
	return h
}

func (h *Hop) open(tb testing.TB, mtu int) error {
	if err := h.router.open(); err != nil {
		return err
	}
	for i, side := range []**Side{&h.A, &h.B} {
		s := &Side{Name: fmt.Sprintf("veth%c", 'a'+i), tb: tb,
			IP4: netip.AddrFrom4([4]byte{10, 111, byte(i + 1), 1})}
		*side = s
		if err := s.open(); err != nil {
			return err
		}
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = s.Name, mtu
		if err := h.router.Handle.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: s.Name,
			PeerNamespace: netlink.NsFd(s.ns), PeerMTU: uint32(mtu)}); err != nil {
			return fmt.Errorf("veth: %w", err)
		}
		gate := net.IPv4(10, 111, byte(i+1), 254)
		near, err := s.attach(s.Name, s.IP4.AsSlice())
		if err != nil {
			return err
		}
		far, err := h.router.attach(s.Name, gate)
		if err != nil {
			return err
		}
		if err := s.Handle.RouteAdd(&netlink.Route{LinkIndex: near, Gw: gate}); err != nil {
			return fmt.Errorf("route: %w", err)
		}
		h.routes[i] = netlink.Route{LinkIndex: far, Scope: unix.RT_SCOPE_LINK,
			Protocol: unix.RTPROT_KERNEL, Src: gate,
			Dst: &net.IPNet{IP: net.IPv4(10, 111, byte(i+1), 0), Mask: net.CIDRMask(24, 32)}}
	}
	var err error
	h.router.Do(func() { err = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	return err
}

// attach gives an interface an address, brings it up, and returns its index.
func (s *Side) attach(name string, ip net.IP) (index int, err error) {
	l, err := s.Handle.LinkByName(name)
	if err != nil {
		return 0, err
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: net.CIDRMask(24, 32)}}
	return l.Attrs().Index, errors.Join(s.Handle.AddrAdd(l, a), s.Handle.LinkSetUp(l))
}

// Narrow makes the router forward packets of up to mtu bytes only. Both links stay as they are. It
// looks at trains as a whole: one with a packet that is too long is lost with all in it.
func (h *Hop) Narrow(mtu int) error {
	for i := range h.routes {
		r := h.routes[i]
		r.MTU = mtu
		if err := h.router.Handle.RouteReplace(&r); err != nil {
			return fmt.Errorf("route: %w", err)
		}
	}
	return nil
}
