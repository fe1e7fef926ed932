package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Network is an interface and what is around it. It implements rawudp.Network.
type Network struct {
	link   rawudp.Link // only for the using goroutine
	index  int         // of the link that requests are about; under mu
	label  string      // the link's name, which never changes
	local  netip.Addr
	static map[netip.Addr]rawudp.MAC

	news int    // the descriptor that changes are read from
	buf  []byte // for one read from it

	mu      sync.Mutex // the sockets below, and index
	handle  *netlink.Handle
	request *nl.SocketHandle
	closed  chan struct{}
}

var _ rawudp.Network = (*Network)(nil)

// Open opens the interface of that name; "" means the one that has the address ip. It returns
// the IP address to use: ip, or if that is the zero Addr the interface's first one, IPv4 before
// IPv6. The calling thread's network namespace is the one meant. Errors are a *rawudp.LinkError or
// the system's.
func Open(name string, ip netip.Addr, cfg Config) (*Network, netip.Addr, error) {
	n := &Network{news: -1, static: cfg.Neighbours, buf: make([]byte, 1<<16),
		closed: make(chan struct{})}
	if err := n.open(name, ip.WithZone("").Unmap()); err != nil {
		n.Close()
		return nil, netip.Addr{}, err
	}
	return n, n.local, nil
}

func (n *Network) open(name string, ip netip.Addr) (err error) {
	if n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return fmt.Errorf("rawudp: netlink: %w", err)
	}
	s, err := nl.GetNetlinkSocketAt(-1, -1, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("rawudp: netlink: %w", err)
	}
	n.request = &nl.SocketHandle{Socket: s}
	// First the news, then the state: no change is missed.
	if err := n.subscribe(); err != nil {
		return fmt.Errorf("rawudp: %w", err)
	}
	if name == "" {
		if name, err = n.named(ip); err != nil {
			return err
		}
	}
	n.label = name
	if err := n.read(name); err != nil {
		return err
	}
	if n.link.Index == 0 {
		return &rawudp.LinkError{Link: name, Err: rawudp.ErrNoLink}
	}
	return n.address(ip)
}

// subscribe opens the descriptor for changes of links, neighbours and routes.
func (n *Network) subscribe() error {
	const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_NEIGH-1) |
		1<<(unix.RTNLGRP_IPV4_ROUTE-1) | 1<<(unix.RTNLGRP_IPV6_ROUTE-1)
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	n.news = fd
	return os.NewSyscallError("bind",
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}))
}

// named returns the name of the interface that has the address ip.
func (n *Network) named(ip netip.Addr) (string, error) {
	if !ip.IsValid() {
		return "", &rawudp.LinkError{Link: "(no name)", Err: rawudp.ErrNoLink}
	}
	addrs, err := n.handle.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return "", fmt.Errorf("rawudp: netlink: %w", err)
	}
	for i := range addrs {
		if at, ok := netip.AddrFromSlice(addrs[i].IP); ok && at.Unmap() == ip {
			l, err := n.handle.LinkByIndex(addrs[i].LinkIndex)
			if err != nil {
				return "", fmt.Errorf("rawudp: netlink: %w", err)
			}
			return l.Attrs().Name, nil
		}
	}
	return "", &rawudp.LinkError{Link: ip.String(), Err: rawudp.ErrNoLink}
}

// read sets n.link to the state of the interface now. Index is 0 if there is none.
func (n *Network) read(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, err := n.handle.LinkByName(name)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		n.link = rawudp.Link{Name: name, MAC: n.link.MAC, MTU: n.link.MTU}
		n.index = 0
		return nil
	}
	if err != nil {
		return &rawudp.LinkError{Link: name, Err: err}
	}
	a := l.Attrs()
	if a.EncapType != "ether" || len(a.HardwareAddr) != len(rawudp.MAC{}) {
		return &rawudp.LinkError{Link: name, Err: rawudp.ErrNotEthernet}
	}
	const up = unix.IFF_UP | unix.IFF_LOWER_UP
	n.link = rawudp.Link{Name: name, Index: a.Index, MAC: rawudp.MAC(a.HardwareAddr), MTU: a.MTU,
		Up: a.RawFlags&up == up}
	n.index = a.Index
	return nil
}

// address sets n.local to ip, or to the first address if ip is the zero Addr.
func (n *Network) address(ip netip.Addr) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		addrs, err := n.handle.AddrList(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: n.link.Index}},
			family)
		if err != nil {
			return fmt.Errorf("rawudp: netlink: %w", err)
		}
		for i := range addrs {
			at, ok := netip.AddrFromSlice(addrs[i].IP)
			if at = at.Unmap(); ok && (at == ip || !ip.IsValid()) {
				n.local = at
				return nil
			}
		}
	}
	return &rawudp.LinkError{Link: n.link.Name, Err: rawudp.ErrNoAddress}
}

// Link returns the state of the link as of the last Poll.
func (n *Network) Link() rawudp.Link { return n.link }

// FD returns the descriptor that is readable when Poll has something to tell.
func (n *Network) FD() int { return n.news }

// Poll reads changes, see rawudp.Network.
func (n *Network) Poll(neighbour func(hop netip.Addr, mac rawudp.MAC, found bool)) (routes,
	link bool) {
	for {
		size, err := unix.Read(n.news, n.buf)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOBUFS { // news were lost: nothing known is sure
			routes, link = true, true
			continue
		}
		if err != nil || size <= 0 {
			break
		}
		r, l := n.scan(n.buf[:size], neighbour)
		routes, link = routes || r, link || l
	}
	if link {
		old := n.link
		if n.read(n.link.Name) != nil {
			n.link = old
			n.link.Up = false
		}
		link = n.link != old
	}
	return routes, link
}

// scan reads one batch of messages. It skips what it does not understand.
func (n *Network) scan(b []byte, neighbour func(netip.Addr, rawudp.MAC, bool)) (routes, link bool) {
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(nl.NativeEndian().Uint32(b))
		kind := nl.NativeEndian().Uint16(b[4:])
		if size < unix.SizeofNlMsghdr || size > len(b) {
			break
		}
		body := b[unix.SizeofNlMsghdr:size]
		switch kind {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			link = link || n.concerns(body)
		case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
			n.tell(body, kind == unix.RTM_NEWNEIGH, neighbour)
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			routes = true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return routes, link
}

// concerns reports whether a message is about the link, or one that may take its place.
func (n *Network) concerns(body []byte) bool {
	if len(body) < unix.SizeofIfInfomsg {
		return true
	}
	l, err := netlink.LinkDeserialize(nil, body)
	if err != nil {
		return true
	}
	return l.Attrs().Index == n.link.Index || l.Attrs().Name == n.link.Name
}

func (n *Network) tell(body []byte, exists bool, neighbour func(netip.Addr, rawudp.MAC, bool)) {
	if len(body) < unix.SizeofNdMsg {
		return
	}
	x, err := netlink.NeighDeserialize(body)
	if err != nil || x.LinkIndex != n.link.Index {
		return
	}
	ip, ok := netip.AddrFromSlice(x.IP)
	if !ok {
		return
	}
	if _, fixed := n.static[ip.Unmap()]; fixed {
		return
	}
	mac, state := judge(x)
	if !exists && state == found {
		return // forgotten by the kernel, not contradicted
	}
	if state != pending {
		neighbour(ip.Unmap(), mac, state == found)
	}
}

// Close frees everything.
func (n *Network) Close() error {
	select {
	case <-n.closed:
		return nil
	default:
	}
	close(n.closed)
	n.mu.Lock() // waits for requests under way
	defer n.mu.Unlock()
	if n.handle != nil {
		n.handle.Close()
	}
	if n.request != nil {
		n.request.Close()
	}
	if n.news >= 0 {
		unix.Close(n.news)
		n.news = -1
	}
	return nil
}

// ipOf returns a as package netlink wants it.
func ipOf(a netip.Addr) net.IP { return net.IP(a.Unmap().AsSlice()) }
