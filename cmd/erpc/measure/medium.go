package measure

import (
	"errors"
	"net"
	"strconv"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/auto"
	"github.com/userspace-rpc/erpc/transport/shm"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// medium is a kind of transport: how it is opened, and what its addresses look like.
type medium interface {
	// listen opens an endpoint on an address as text.
	listen(f *NetFlags, addr string) (transport.Transport, error)
	// check complains about flags that make no sense with it.
	check(f *NetFlags) error
	// checkAddr complains about the text of an address to reach or to serve on.
	checkAddr(flag, addr string) error
	// serves returns where a server listens if nobody says, and where one that says
	// where it is.
	serves() (known, any string)
	// thread returns where thread i of a server listens whose first is at addr.
	thread(addr string, i int) (string, error)
	// near returns where to listen for reaching addr.
	near(f *NetFlags, addr string) (string, error)
	// beside returns where to listen for one more endpoint beside that at addr.
	beside(addr string) string
	// peer returns how to reach other, as a server names it that is reached by addr.
	peer(addr, other string) string
}

var media = map[string]medium{"udp": udpMedium{}, "shm": shmMedium{}, "auto": autoMedium{}}

func (f *NetFlags) medium() medium { return media[f.Transport] }

// open opens the transport on addr.
func (f *NetFlags) open(addr string) (tr transport.Transport, err error) {
	err = f.inside(func() error {
		tr, err = f.medium().listen(f, addr)
		return err
	})
	return tr, err
}

// Near returns where to listen for reaching addr.
func (f *NetFlags) Near(addr string) (local string, err error) {
	err = f.inside(func() error {
		local, err = f.medium().near(f, addr)
		return err
	})
	return local, err
}

// Listen opens the transport on addr, captured if that is wanted.
func (f *NetFlags) Listen(addr string) (transport.Transport, error) {
	tr, err := f.open(addr)
	if err != nil || f.capture == nil {
		return tr, err
	}
	return f.capture.Wrap(tr), nil
}

// udpMedium is kernel UDP; addresses are HOST:PORT.
type udpMedium struct{}

func (udpMedium) listen(f *NetFlags, addr string) (transport.Transport, error) {
	conn, err := udp.Listen(addr, f.udpConfig())
	var bad *udp.ConfigError
	if errors.As(err, &bad) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// udpConfig describes a UDP socket.
func (f *NetFlags) udpConfig() udp.Config {
	return udp.Config{
		MTU: f.MTU, NoGSO: f.NoGSO, NoGRO: f.NoGSO, ECN: f.ecn(), Portable: f.Portable,
	}
}

func (udpMedium) check(f *NetFlags) error {
	if f.Iface != "" {
		return cli.Usagef("--iface is for transports below IP; with udp give --addr")
	}
	return nil
}

func (udpMedium) checkAddr(flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return cli.Usagef("%s %q: want HOST:PORT", flag, addr)
	}
	return nil
}

func (udpMedium) serves() (known, any string) { return ":31850", "127.0.0.1:0" }

func (udpMedium) thread(addr string, i int) (string, error) {
	host, port, _ := net.SplitHostPort(addr)
	first, err := strconv.Atoi(port)
	if err != nil {
		return "", cli.Usagef("--addr %s: want a port number", addr)
	}
	if first != 0 {
		first += i
	}
	return net.JoinHostPort(host, strconv.Itoa(first)), nil
}

// near chooses so that an IPv4 peer gets an IPv4 socket: the kernel's path is shorter there.
func (udpMedium) near(_ *NetFlags, addr string) (string, error) {
	host, _, _ := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	switch {
	case ip == nil:
		return ":0", nil
	case ip.IsLoopback():
		return net.JoinHostPort(host, "0"), nil
	case ip.To4() != nil:
		return "0.0.0.0:0", nil
	}
	return "[::]:0", nil
}

func (udpMedium) beside(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return net.JoinHostPort(host, "0")
}

// peer joins the host of one address with the port of the other: a server on all
// addresses does not know which one it is reached by.
func (udpMedium) peer(addr, other string) string {
	host, _, _ := net.SplitHostPort(addr)
	_, port, _ := net.SplitHostPort(other)
	return net.JoinHostPort(host, port)
}

// autoMedium is kernel UDP with shared memory beside it; addresses are those of udp.
type autoMedium struct{ udpMedium }

func (autoMedium) listen(f *NetFlags, addr string) (transport.Transport, error) {
	conn, err := auto.Listen(addr, auto.Config{
		UDP: udp.Config{MTU: f.MTU, NoGSO: f.NoGSO, NoGRO: f.NoGSO, ECN: f.ecn()},
		SHM: shm.Config{MTU: f.MTU},
	})
	var badUDP *udp.ConfigError
	var badSHM *shm.ConfigError
	if errors.As(err, &badUDP) || errors.As(err, &badSHM) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (autoMedium) check(f *NetFlags) error {
	if f.Iface != "" {
		return cli.Usagef("--iface is for transports below IP; with auto give --addr")
	}
	return nil
}

// wayTo names the medium by which peer is reached, if the transport chose it; else "".
func (f *NetFlags) wayTo(peer transport.Addr) string {
	switch {
	case f.Transport != "auto":
		return ""
	case shm.IsAddr(&peer):
		return "shm"
	}
	return "udp"
}

// shmMedium is shared memory; addresses are names.
type shmMedium struct{}

func (shmMedium) listen(f *NetFlags, addr string) (transport.Transport, error) {
	conn, err := shm.Listen(addr, shm.Config{MTU: f.MTU})
	var bad *shm.ConfigError
	if errors.As(err, &bad) || errors.Is(err, transport.ErrBadAddress) {
		return nil, cli.UsageError(cli.OneLine(err))
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func (shmMedium) check(f *NetFlags) error {
	switch {
	case f.Iface != "":
		return cli.Usagef("--iface is for transports below IP, not for shm")
	case f.ecn():
		return cli.Usagef("--cc dcqcn: shared memory has no ECN marks; " +
			"use timely, swift, cubic or none")
	}
	return nil
}

func (shmMedium) checkAddr(flag, addr string) error {
	if addr == "" {
		return cli.Usagef("%s: want the name of a server on this machine", flag)
	}
	return nil
}

func (shmMedium) serves() (known, any string) { return "erpc", "" }

func (shmMedium) thread(addr string, i int) (string, error) {
	if addr == "" || i == 0 {
		return addr, nil
	}
	return addr + "-" + strconv.Itoa(i), nil
}

func (shmMedium) near(*NetFlags, string) (string, error) { return "", nil }
func (shmMedium) beside(string) string                   { return "" }
func (shmMedium) peer(_, other string) string            { return other }
