package erpc

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/userspace-rpc/erpc/transport"
)

// DialError says between which addresses Dial could not open a session, and what the likely cause
// is. It matches what its Err matches.
type DialError struct {
	Server string         // as Dial was given it
	Local  transport.Addr // of the transport
	Remote transport.Addr // the address of Server; zero if that is not known
	Hint   string         // the likely cause, "" if there is none to name
	Err    error
}

func (e *DialError) Error() string {
	text := "dial " + e.Server
	if isIP(e.Server) {
		if to := e.Remote.String(); e.Remote.IsValid() && to != e.Server {
			text += " (" + to + ")"
		}
		text += " from " + e.Local.String()
	}
	text += ": " + e.Err.Error()
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// Unwrap returns Err.
func (e *DialError) Unwrap() error { return e.Err }

// dialError makes an error of Dial one that names both addresses.
func dialError(server string, tr transport.Transport, remote transport.Addr, err error) error {
	e := &DialError{Server: server, Local: tr.LocalAddr(), Remote: remote, Err: err}
	if isIP(server) {
		e.Hint = hintFor(server, e.Local.AddrPort().Addr(), remote.AddrPort(), remote.IsValid(), err)
	}
	return e
}

// isIP reports whether the address of a server is one of an IP transport.
func isIP(server string) bool { return !strings.HasPrefix(server, "shm:") }

// hintFor names the likely cause of an error of Dial; known says that the server's name has an
// address.
func hintFor(
	server string, local netip.Addr, remote netip.AddrPort, known bool, err error,
) string {
	if !known {
		if to, perr := netip.ParseAddrPort(server); perr == nil && local.Is4() != to.Addr().Is4() {
			return "the local address is " + family(local) + " and the server's " + family(to.Addr()) +
				`: listen on an address of the same kind, or on all (":0")`
		}
		return ""
	}
	if !errors.Is(err, ErrConnect) && !errors.Is(err, ErrDeadline) {
		return ""
	}
	switch to := remote.Addr(); {
	case to.IsUnspecified():
		return "that address stands for all of a host's own: name one of them"
	case remote.Port() == 0:
		return "port 0 is nobody's: name the server's port"
	case to.Is6() && to.IsLinkLocalUnicast() && to.Zone() == "":
		return "a link-local address needs its interface, as in [fe80::1%eth0]:31850"
	case local.IsLoopback() && !to.IsLoopback():
		return "the local address is a loopback one, which other machines cannot answer: listen on " +
			`an address of the network, or on all (":0")`
	case to.IsLoopback():
		return "no server listens there"
	}
	return "no server listens there, or a firewall drops UDP on the way"
}

// family names the version of an IP address.
func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
