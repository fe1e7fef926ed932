package vethtest

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// Switch is hosts on one Ethernet segment, each with a link of its own to a bridge. A host whose
// link is down is gone without a word: the bridge drops frames to it, and says nothing.
type Switch struct {
	Hosts []*Side
	hub   *Side
}

// NewSwitch returns n hosts whose links have that MTU in bytes, all up.
func NewSwitch(tb testing.TB, mtu, n int) *Switch {
	tb.Helper()
	s := &Switch{hub: &Side{tb: tb}}
	demand(tb, func() error { return s.open(tb, mtu, n) })
	return s
}

func (s *Switch) open(tb testing.TB, mtu, n int) error {
	if err := s.hub.open(); err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "bridge", mtu
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := s.hub.Handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	if err := s.hub.Handle.LinkSetUp(bridge); err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	for i := range n {
		h := &Side{Name: "eth0", tb: tb, IP4: netip.AddrFrom4([4]byte{10, 111, 0, byte(i + 1)}),
			IP6:    netip.MustParseAddr(fmt.Sprintf("fd00:111::%d", i+1)),
			Local6: netip.MustParseAddr(fmt.Sprintf("fe80::111:%d", i+1))}
		if err := h.open(); err != nil {
			return err
		}
		if err := s.plug(h, bridge, fmt.Sprintf("port%d", i), mtu); err != nil {
			return err
		}
		s.Hosts = append(s.Hosts, h)
	}
	return nil
}

// plug joins a host to the bridge.
func (s *Switch) plug(h *Side, bridge *netlink.Bridge, port string, mtu int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.MasterIndex = port, mtu, bridge.Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: h.Name, PeerNamespace: netlink.NsFd(h.ns),
		PeerMTU: uint32(mtu)}
	if err := s.hub.Handle.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	if err := s.hub.Handle.LinkSetUp(veth); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	return h.configure()
}
