package measure

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/ud"
)

// udMedium is Unreliable Datagram over an RDMA device; addresses are those of the meeting
// sockets, HOST:PORT.
type udMedium struct{ udpMedium }

func init() { media["ud"] = udMedium{} }

// rawMedium is a medium whose yardstick is not its own transport.
type rawMedium interface {
	listenRaw(f *NetFlags, addr string) (transport.Transport, error)
}

// udConfig is the transport's configuration. --iface is DEVICE or DEVICE/PORT.
func udConfig(f *NetFlags) (ud.Config, error) {
	cfg := ud.Config{MTU: f.MTU, GID: f.GID, ECN: f.ecn()}
	device, port, found := strings.Cut(f.Iface, "/")
	if found {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 255 {
			return cfg, cli.Usagef("--iface %s: want DEVICE or DEVICE/PORT, as mlx5_0/1", f.Iface)
		}
		cfg.Port = n
	}
	cfg.Device = device
	return cfg, nil
}

// udErr makes what the user can mend a cli.UsageError.
func udErr(err error) error {
	var bad *ud.ConfigError
	switch {
	case errors.As(err, &bad) || errors.Is(err, transport.ErrBadAddress):
		return cli.UsageError(cli.OneLine(err))
	case errors.Is(err, transport.ErrUnsupported):
		return cli.UsageError(cli.OneLine(err) + "; see erpc doctor")
	}
	return err
}

func (udMedium) listen(f *NetFlags, addr string) (transport.Transport, error) {
	cfg, err := udConfig(f)
	if err != nil {
		return nil, err
	}
	conn, err := ud.Listen(addr, cfg)
	if err != nil {
		return nil, udErr(err)
	}
	return conn, nil
}

func (udMedium) listenRaw(f *NetFlags, addr string) (transport.Transport, error) {
	cfg, err := udConfig(f)
	if err != nil {
		return nil, err
	}
	conn, err := ud.ListenRaw(addr, cfg)
	if err != nil {
		return nil, udErr(err)
	}
	return conn, nil
}

func (udMedium) check(f *NetFlags) error {
	if _, err := udConfig(f); err != nil {
		return err
	}
	names, err := verbs.Devices()
	switch {
	case err != nil:
		return cli.Usagef("transport ud needs an RDMA device and libibverbs: %s; see erpc doctor",
			cli.OneLine(err))
	case len(names) == 0:
		return cli.Usagef("transport ud needs an RDMA device, and this machine has none; see erpc doctor")
	}
	return nil
}

func (udMedium) serves() (known, any string) { return ":31850", ":0" }

// near takes the device that has the address from which the system would send to addr; where none
// has it, as on InfiniBand, the first one.
func (udMedium) near(f *NetFlags, addr string) (string, error) {
	if f.Iface != "" || f.GID != "" {
		return ":0", nil
	}
	c, err := net.Dial("udp", addr) // sends nothing
	if err != nil {
		return "", err
	}
	defer c.Close()
	local := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	if hasGID(local.Unmap()) {
		return netip.AddrPortFrom(local, 0).String(), nil
	}
	return ":0", nil
}

// hasGID reports whether ip is a GID of one of the devices.
func hasGID(ip netip.Addr) bool {
	names, _ := verbs.Devices() // listen says what is wrong
	for _, name := range names {
		d, err := verbs.Open(name)
		if err != nil {
			continue
		}
		defer d.Close()
		a, _ := d.Attr()
		for port := 1; port <= int(a.Ports); port++ {
			gids, _ := d.GIDs(port)
			for _, g := range gids {
				if g.GID.Addr() == ip {
					return true
				}
			}
		}
	}
	return false
}
