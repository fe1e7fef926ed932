package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/ud"
)

// udMedium is Unreliable Datagram over an RDMA device; addresses are those of the meeting
// sockets, HOST:PORT.
type udMedium struct{ udpMedium }

func init() { media["ud"] = udMedium{} }

// rawMedium is a medium whose yardstick is not its own transport.
type rawMedium interface {
	listenRaw(f *netFlags, addr string) (transport.Transport, error)
}

// udConfig is the transport's configuration. --iface is DEVICE or DEVICE/PORT.
func udConfig(f *netFlags) (ud.Config, error) {
	cfg := ud.Config{MTU: f.MTU, GID: f.GID, ECN: f.ecn()}
	device, port, found := strings.Cut(f.Iface, "/")
	if found {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 255 {
			return cfg, usagef("--iface %s: want DEVICE or DEVICE/PORT, as mlx5_0/1", f.Iface)
		}
		cfg.Port = n
	}
	cfg.Device = device
	return cfg, nil
}

// udErr makes what the user can mend a usageError.
func udErr(err error) error {
	var bad *ud.ConfigError
	switch {
	case errors.As(err, &bad) || errors.Is(err, transport.ErrBadAddress):
		return usageError(oneLine(err))
	case errors.Is(err, transport.ErrUnsupported):
		return usageError(oneLine(err) + "; see erpc doctor")
	}
	return err
}

func (udMedium) listen(f *netFlags, addr string) (transport.Transport, error) {
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

func (udMedium) listenRaw(f *netFlags, addr string) (transport.Transport, error) {
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

func (udMedium) check(f *netFlags) error {
	_, err := udConfig(f)
	return err
}

func (udMedium) serves() (known, any string) { return ":31850", ":0" }

// near takes the address of the device itself.
func (udMedium) near(*netFlags, string) (string, error) { return ":0", nil }
