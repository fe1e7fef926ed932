package link

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel's states of a neighbour.
const (
	pending = iota // nothing, or it is looking
	failed         // it looked and got no answer
	found
)

// judge reads the state of an entry of the neighbour table (RFC 4861, section 7.3.2).
func judge(x *netlink.Neigh) (rawudp.MAC, int) {
	const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE |
		netlink.NUD_PERMANENT | netlink.NUD_NOARP
	switch {
	case x.State&usable != 0 && len(x.HardwareAddr) == len(rawudp.MAC{}):
		return rawudp.MAC(x.HardwareAddr), found
	case x.State&netlink.NUD_FAILED != 0:
		return rawudp.MAC{}, failed
	}
	return rawudp.MAC{}, pending
}

// NextHop returns the neighbour that packets to ip are sent to, see rawudp.Network.
func (n *Network) NextHop(ip netip.Addr) (netip.Addr, error) {
	ip = ip.WithZone("").Unmap()
	if _, ok := n.static[ip]; ok {
		return ip, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(ip); err != nil {
		return ip, err
	}
	opts := &netlink.RouteGetOptions{}
	if ip.IsLinkLocalUnicast() {
		opts.OifIndex = n.index
	} else {
		opts.SrcAddr = ipOf(n.local)
	}
	routes, err := n.handle.RouteGetWithOptions(ipOf(ip), opts)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) ||
		errors.Is(err, unix.EINVAL) ||
		err == nil && (len(routes) == 0 || routes[0].LinkIndex != n.index) {
		err = rawudp.ErrNoRoute
	}
	if err != nil {
		return ip, n.wrong(ip, err)
	}
	if via, ok := netip.AddrFromSlice(routes[0].Gw); ok && !via.IsUnspecified() {
		return via.Unmap(), nil
	}
	if v, ok := routes[0].Via.(*netlink.Via); ok { // an IPv6 router for IPv4 (RFC 5549)
		if via, ok := netip.AddrFromSlice(v.Addr); ok {
			return via.Unmap(), nil
		}
	}
	return ip, nil
}

// usable reports whether requests about ip can be made. The caller holds n.mu.
func (n *Network) usable(ip netip.Addr) error {
	select {
	case <-n.closed:
		return transport.ErrClosed
	default:
	}
	if n.index == 0 {
		return n.wrong(ip, rawudp.ErrLinkGone)
	}
	return nil
}

func (n *Network) wrong(ip netip.Addr, err error) error {
	return &rawudp.NeighbourError{Link: n.label, IP: ip, Err: err}
}

// Neighbour returns the MAC address of a neighbour, see rawudp.Network.
func (n *Network) Neighbour(hop netip.Addr) (rawudp.MAC, error) {
	mac, state, err := n.ask(hop)
	if err != nil || state == found {
		return mac, err
	}
	n.seek(hop)
	return mac, n.wrong(hop, rawudp.ErrPending)
}

// ask returns what the kernel knows of a neighbour.
func (n *Network) ask(hop netip.Addr) (mac rawudp.MAC, state int, err error) {
	hop = hop.WithZone("").Unmap()
	if mac, ok := n.static[hop]; ok {
		return mac, found, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(hop); err != nil {
		return mac, failed, err
	}
	answer, err := n.call(unix.RTM_GETNEIGH, 0, unix.RTM_NEWNEIGH, hop, 0)
	if errors.Is(err, unix.ENOENT) || err == nil && len(answer) == 0 {
		return mac, pending, nil
	}
	if err != nil {
		return mac, failed, n.wrong(hop, err)
	}
	x, err := netlink.NeighDeserialize(answer[0])
	if err != nil {
		return mac, failed, n.wrong(hop, err)
	}
	mac, state = judge(x)
	return mac, state, nil
}

// call makes one request about the neighbour table. The caller holds n.mu.
func (n *Network) call(kind, flags int, answer uint16, hop netip.Addr,
	use uint8) ([][]byte, error) {
	req := nl.NewNetlinkRequest(kind, flags)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_ROUTE: n.request}
	family := uint8(unix.AF_INET)
	if hop.Is6() {
		family = unix.AF_INET6
	}
	req.AddData(&netlink.Ndmsg{Family: family, Index: uint32(n.index), Flags: use})
	req.AddData(nl.NewRtAttr(netlink.NDA_DST, hop.AsSlice()))
	return req.Execute(unix.NETLINK_ROUTE, answer)
}

// seek makes the kernel look for a neighbour, as if it had a packet for it. Telling it so
// needs CAP_NET_ADMIN; without, it gets a packet for it: an empty one to the discard
// port (RFC 863).
func (n *Network) seek(hop netip.Addr) {
	if !errors.Is(n.use(hop), unix.EPERM) {
		return
	}
	const discard = 9
	to := netip.AddrPortFrom(hop, discard)
	if c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to)); err == nil {
		_, _ = c.Write(nil)
		c.Close()
	}
}

// Confirm tells the kernel that a neighbour is in use: it checks then that it is still there.
func (n *Network) Confirm(hop netip.Addr) { _ = n.use(hop) }

func (n *Network) use(hop netip.Addr) error {
	hop = hop.WithZone("").Unmap()
	if _, ok := n.static[hop]; ok {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.usable(hop); err != nil {
		return err
	}
	_, err := n.call(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_ACK, 0, hop, netlink.NTF_USE)
	return err
}

// Await waits until the kernel has found the neighbour on the way to ip, see rawudp.Network.
func (n *Network) Await(ip netip.Addr, timeout time.Duration) (rawudp.MAC, error) {
	const longest = 20 * time.Millisecond
	hop, err := n.NextHop(ip)
	if err != nil {
		return rawudp.MAC{}, err
	}
	ip = ip.WithZone("").Unmap()
	pause := 200 * time.Microsecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for end, sought := monotime.Now().Add(timeout), false; ; {
		mac, state, err := n.ask(hop)
		if err != nil || state == found {
			return mac, err
		}
		if sought && state == failed || monotime.Now() >= end {
			return mac, n.wrong(ip, rawudp.ErrNoNeighbour)
		}
		if !sought {
			n.seek(hop)
			sought = true
		}
		select {
		case <-timer.C:
		case <-n.closed:
			return mac, transport.ErrClosed
		}
		pause = min(2*pause, longest)
		timer.Reset(pause)
	}
}
