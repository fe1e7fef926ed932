package main

import (
	"errors"
	"fmt"
	"net"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
)

// frameMedium is a transport below IP, on one network interface; its packets are UDP, so that
// addresses are those of udp, and so may be the peer.
type frameMedium struct {
	udpMedium
	open func(f *netFlags, addr string) (transport.Transport, error)
}

// frameMedia are the transports below IP. Those that are still in unbuilt are added here.
var frameMedia = map[string]frameMedium{
	"afpacket": {open: openAfpacket},
}

func init() {
	for name, m := range frameMedia {
		media[name] = m
	}
}

// framed reports whether the transport is one below IP: it never reaches the same host.
func (f *netFlags) framed() bool {
	_, ok := frameMedia[f.Transport]
	return ok
}

// rawCaps are the capabilities that a process needs for transports below IP.
const rawCaps = "cap_net_raw,cap_net_admin,cap_bpf+ep"

// setcap is the command that gives the capabilities to this program.
const setcap = `sudo setcap ` + rawCaps + ` "$(command -v erpc)"`

func openAfpacket(f *netFlags, addr string) (transport.Transport, error) {
	conn, err := afpacket.Listen(addr, afpacket.Config{Interface: f.Iface, MTU: f.MTU, NoTrains: f.NoGSO, ECN: f.ecn()})
	var bad *afpacket.ConfigError
	if errors.As(err, &bad) {
		return nil, usageError(oneLine(err))
	}
	if err != nil {
		return nil, err
	}
	f.noteGuard(conn)
	return conn, nil
}

// noteGuard tells the user if the kernel looks at the transport's frames as well. Only Linux's transports
// can say that.
func (f *netFlags) noteGuard(tr transport.Transport) {
	guarded, ok := tr.(interface{ Guarded() (bool, error) })
	if !ok {
		return
	}
	if on, why := guarded.Guarded(); !on && why != nil {
		f.note("no guard keeps the kernel from the frames, which makes it slower: %s; see erpc doctor", oneLine(why))
	}
}

func (m frameMedium) listen(f *netFlags, addr string) (transport.Transport, error) {
	host, _, _ := net.SplitHostPort(addr)
	if f.Iface == "" && host == "" {
		return nil, usagef("--transport %s: give --iface, or with --addr an address of the interface", f.Transport)
	}
	tr, err := m.open(f, addr)
	var rights *rawudp.PrivilegeError
	switch {
	case errors.As(err, &rights):
		return nil, fmt.Errorf("%w; run as root, or once: %s", err, setcap)
	case errors.Is(err, transport.ErrBadAddress):
		return nil, usageError(oneLine(err))
	}
	return tr, err
}

func (frameMedium) check(*netFlags) error { return nil }

// errSameHost means that a transport below IP cannot reach a peer, since it is here.
var errSameHost = errors.New("this is an address of this machine, and frames to it never leave it; use --transport udp, shm or auto")

// near asks the system for the address from which it sends to addr. Nothing is sent for that.
func (frameMedium) near(f *netFlags, addr string) (string, error) {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	local, remote := c.LocalAddr().(*net.UDPAddr), c.RemoteAddr().(*net.UDPAddr)
	if remote.IP.IsLoopback() || local.IP.Equal(remote.IP) {
		return "", fmt.Errorf("%s: %w", addr, errSameHost)
	}
	if f.Iface != "" && !hasAddress(f.Iface, local.IP) && local.IP.To4() != nil {
		return ":0", nil // the interface knows better
	}
	local.Port = 0
	return local.String(), nil
}

// hasAddress reports whether the interface of that name has the address ip.
func hasAddress(name string, ip net.IP) bool {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	addrs, err := ifi.Addrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
