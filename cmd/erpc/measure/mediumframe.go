package measure

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/rawudp"
	"github.com/userspace-rpc/erpc/transport/rawudp/afpacket"
	"github.com/userspace-rpc/erpc/transport/rawudp/afxdp"
)

// frameMedium is a transport below IP, on one network interface; its packets are UDP, so that
// addresses are those of udp, and so may be the peer.
type frameMedium struct {
	udpMedium
	open    func(f *NetFlags, addr string) (transport.Transport, error)
	caps    string // that a process needs, as setcap(8) takes them
	largest int    // packet in bytes; 0: what the link carries
	alone   bool   // one process at a time has a link
	locks   bool   // memory
}

// frameMedia are the transports below IP.
var frameMedia = map[string]frameMedium{
	"afpacket": {open: openAfpacket, caps: rawCaps},
	"afxdp": {open: openAfxdp, caps: rawCaps + ",cap_ipc_lock", largest: afxdp.MaxPacket,
		alone: true, locks: true},
}

func init() {
	for name, m := range frameMedia {
		media[name] = m
	}
}

// framed reports whether the transport is one below IP: it never reaches the same host.
func (f *NetFlags) framed() bool {
	_, ok := frameMedia[f.Transport]
	return ok
}

// rawCaps are the capabilities that a process needs for any transport below IP.
const rawCaps = "cap_net_raw,cap_net_admin,cap_bpf"

// setcap is the command that gives capabilities to this program.
func setcap(caps string) string { return `sudo setcap ` + caps + `+ep "$(command -v erpc)"` }

// SetcapFor is the command that gives this program the capabilities for a transport below IP.
func SetcapFor(transport string) string { return setcap(frameMedia[transport].caps) }

func openAfpacket(f *NetFlags, addr string) (transport.Transport, error) {
	conn, err := afpacket.Listen(addr,
		afpacket.Config{Interface: f.Iface, MTU: f.MTU, NoTrains: f.NoGSO, ECN: f.ecn()})
	var bad *afpacket.ConfigError
	if errors.As(err, &bad) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, err
	}
	f.noteGuard(conn)
	return conn, nil
}

// noteGuard tells the user if the kernel looks at the transport's frames as well. Only Linux's
// transports can say that.
func (f *NetFlags) noteGuard(tr transport.Transport) {
	guarded, ok := tr.(interface{ Guarded() (bool, error) })
	if !ok {
		return
	}
	if on, why := guarded.Guarded(); !on && why != nil {
		f.note("no guard keeps the kernel from the frames, which makes it slower: %s; see erpc doctor",
			cli.OneLine(why))
	}
}

func openAfxdp(f *NetFlags, addr string) (transport.Transport, error) {
	conn, err := afxdp.Listen(addr, afxdp.Config{
		Interface: f.Iface, MTU: f.MTU, ECN: f.ecn(), Mode: xdpModes[f.XDPMode],
		Endpoints: max(1, f.endpoints),
	})
	var bad *afxdp.ConfigError
	if errors.As(err, &bad) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, err
	}
	f.noteMode(conn)
	return conn, nil
}

// xdpModes are where the XDP program of afxdp may run.
var xdpModes = map[string]afxdp.Mode{
	"": afxdp.ModeAuto, "auto": afxdp.ModeAuto, "native": afxdp.ModeNative,
	"generic": afxdp.ModeGeneric,
}

func (f *NetFlags) checkXDPMode() error {
	mode, ok := xdpModes[f.XDPMode]
	switch {
	case !ok:
		return cli.Usagef("--xdp-mode %s: want auto, native or generic", f.XDPMode)
	case mode != afxdp.ModeAuto && f.Transport != "afxdp":
		return cli.Usagef("--xdp-mode is for afxdp, not for %s", f.Transport)
	}
	return nil
}

// noteMode tells the user if a link is in generic mode that was not asked for. Only Linux's
// transports can say that.
func (f *NetFlags) noteMode(tr transport.Transport) {
	in, ok := tr.(interface{ Mode() afxdp.Mode })
	if ok && in.Mode() == afxdp.ModeGeneric && xdpModes[f.XDPMode] == afxdp.ModeAuto {
		f.note("the link's driver does not run XDP programs, or not at its MTU: in generic mode, which " +
			"makes it slower")
	}
}

// frames returns the transport below IP of the flags.
func (f *NetFlags) frames() frameMedium { return frameMedia[f.Transport] }

func (m frameMedium) listen(f *NetFlags, addr string) (transport.Transport, error) {
	host, _, _ := net.SplitHostPort(addr)
	if f.Iface == "" && host == "" {
		return nil, cli.Usagef("--transport %s: give --iface, or with --addr an address of the interface",
			f.Transport)
	}
	tr, err := m.open(f, addr)
	if errors.Is(err, transport.ErrBadAddress) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, m.explain(f, err)
	}
	return tr, nil
}

// explain adds to an error of open what to do.
func (m frameMedium) explain(f *NetFlags, err error) error {
	var rights *rawudp.PrivilegeError
	var link *rawudp.LinkError
	switch {
	case errors.As(err, &rights):
		return fmt.Errorf("%w; run as root, or once: %s", err, setcap(m.caps))
	case errors.Is(err, afxdp.ErrBusy):
		return fmt.Errorf("%w; one process at a time has a link: end the other one, or give another "+
			"interface", err)
	case errors.Is(err, syscall.ENOBUFS) && m.locks:
		return fmt.Errorf("%w; ulimit -l allows too little locked memory: raise it, or once: %s", err,
			setcap(m.caps))
	case errors.As(err, &link) && f.XDPMode == "native" && !errors.Is(err, rawudp.ErrLinkGone):
		return fmt.Errorf("%w; the driver has no XDP, or not for a link of this MTU: use a smaller "+
			"one, or --xdp-mode generic", err)
	}
	return err
}

func (m frameMedium) check(f *NetFlags) error {
	if m.largest != 0 && f.MTU > m.largest {
		return cli.Usagef("--mtu %d: packets of %s are at most %d bytes", f.MTU, f.Transport, m.largest)
	}
	return nil
}

// errSameHost means that a transport below IP cannot reach a peer, since it is here.
var errSameHost = errors.New(
	"this is an address of this machine, and frames to it never leave it; use --transport udp, " +
		"shm or auto")

// near asks the system for the address from which it sends to addr. Nothing is sent for that.
func (frameMedium) near(f *NetFlags, addr string) (string, error) {
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
