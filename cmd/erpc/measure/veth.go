package measure

import (
	"errors"
	"fmt"
	"net"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// rightsError says which capabilities this process lacks, and for what.
type rightsError struct {
	need, what string
	err        error // the system's
}

func (e *rightsError) Error() string {
	return fmt.Sprintf("%s needs %s: %v", e.what, e.need, e.err)
}
func (e *rightsError) Unwrap() error { return e.err }

// vethFlags put the client and the server of a measurement on a link of their own.
type vethFlags struct {
	Veth bool `help:"Without --addr: client and server in two network namespaces of their own, joined by a veth pair, instead of on loopback. Needs root; transports below IP always do so." name:"veth"`
}

// Addresses of the two sides. Nobody else sees them: they are in namespaces of their own.
const (
	vethClient = "10.0.0.1"
	vethServer = "10.0.0.2"
	vethName   = "veth0" // of both interfaces
	vethBits   = 24
)

// vethMTU is that of Ethernet, unless packets are to be larger; headers of IPv6 and UDP come on
// top. Packets of afxdp are never so large that a veth pair has no native XDP.
func (f *NetFlags) vethMTU() int { return max(1500, f.MTU+48) }

// checkVeth complains if a link between namespaces does not fit the other flags. addr is the
// server's, "" if this process is to start it.
func (f *NetFlags) checkVeth(veth bool, addr string) error {
	switch {
	case veth && addr != "":
		return cli.Usagef("--veth and --addr do not go together: the server is at that address already")
	case veth && f.Transport != "udp" && !f.framed():
		return cli.Usagef("--veth: not with %s; want udp, afpacket or afxdp", f.Transport)
	case f.framed() && addr == "" && f.Iface != "":
		return cli.Usagef("--iface %s: only with --addr; without, client and server get interfaces of "+
			"their own", f.Iface)
	}
	return nil
}

// layLink joins the client's and the server's namespace, which it makes, if veth is set or the
// transport needs that. e removes all of it with the subcommand; and if this process is killed the
// kernel does, since the namespaces have no name.
func (f *NetFlags) layLink(e *Env, veth bool, addr string) error {
	if addr != "" || !veth && !f.framed() {
		return nil
	}
	p, err := openPair(f.vethMTU())
	var rights *rightsError
	if errors.As(err, &rights) {
		return fmt.Errorf("%w; run as root, or measure against another machine with --addr", err)
	}
	if err != nil {
		return err
	}
	e.atEnd = append(e.atEnd, p.close)
	f.pair = p
	if f.framed() {
		f.Iface = vethName
	}
	return nil
}

// inside runs work where the client's network is.
func (f *NetFlags) inside(work func() error) error {
	if f.pair == nil {
		return work()
	}
	return f.pair.client.do(work)
}

// serverSide runs start, which starts a process, where the server's network is.
func (f *NetFlags) serverSide(start func() error) error {
	if f.pair == nil {
		return start()
	}
	return f.pair.server.do(start)
}

// serverArgs tells a server process its part of the link.
func (f *NetFlags) serverArgs() (args []string) {
	if f.pair == nil {
		if f.Transport == "ud" {
			return []string{"--iface=" + f.Iface, "--gid=" + f.GID}
		}
		return nil
	}
	if args = []string{"--addr=" + net.JoinHostPort(vethServer, "0")}; f.framed() {
		args = append(args, "--iface="+vethName)
	}
	return args
}

// link names the link that this process made, or "".
func (f *NetFlags) link() string {
	if f.pair == nil {
		return ""
	}
	return "veth"
}
