package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/kit/loadgen"
	"github.com/userspace-rpc/erpc/kv/client"
	"github.com/userspace-rpc/erpc/transport"
	"github.com/userspace-rpc/erpc/transport/ud"
)

// netFlags choose the network path.
type netFlags struct {
	Transport string `default:"udp" help:"${transport_help}" placeholder:"NAME"`
	Iface     string `help:"${iface_help}" placeholder:"DEVICE"`
	JSON      bool   `name:"json" help:"Print one JSON object."`
	secure.Flags
}

// listen opens an endpoint; addr "" is any. The files of keys are loaded first.
func (f *netFlags) listen(addr string) (transport.Transport, error) {
	if err := f.Load(); err != nil {
		return nil, err
	}
	tr, err := loadgen.Listen(f.Transport, addr, loadgen.Kind{Name: "ud",
		Listen: func(addr string) (transport.Transport, error) {
			return ud.Listen(addr, ud.Config{Device: f.Iface})
		}})
	var unknown *loadgen.UnknownError
	if errors.As(err, &unknown) {
		return nil, cli.Usagef("%v", err)
	}
	return tr, err
}

// listenAll opens an endpoint for each of n partitions: on one port after the other, or any ports
// if that of addr is 0. Names of shared memory get the number of the partition.
func (f *netFlags) listenAll(addr string, n int) (trs []transport.Transport, err error) {
	for i := range n {
		at := addr
		if host, text, e := net.SplitHostPort(addr); f.Transport == "shm" {
			at = fmt.Sprintf("%s-%d", addr, i)
		} else if port, e2 := strconv.Atoi(text); e == nil && e2 == nil && port != 0 {
			at = net.JoinHostPort(host, strconv.Itoa(port+i))
		}
		tr, e := f.listen(at)
		if e != nil {
			err = e
			break
		}
		trs = append(trs, tr)
	}
	if err != nil {
		for _, tr := range trs {
			err = errors.Join(err, tr.Close())
		}
		return nil, err
	}
	return trs, nil
}

// clientFlags are those of all that talk to running servers.
type clientFlags struct {
	netFlags
	Servers []string      `default:"127.0.0.1:31870" help:"${servers_help}" placeholder:"ADDR"`
	Timeout time.Duration `default:"5s" help:"${timeout_help}" placeholder:"TIME"`
}

// dial opens a client for goroutines. The returned function ends it.
func (f *clientFlags) dial(e *cli.Env) (*client.Client, func() error, error) {
	if f.Timeout <= 0 {
		return nil, nil, cli.Usagef("--timeout %v: must be positive", f.Timeout)
	}
	tr, err := f.listen("")
	if err != nil {
		return nil, nil, err
	}
	loop, err := erpc.NewLoop(tr, f.config())
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(e.Ctx, loop, client.Config{Servers: f.Servers})
	if err != nil {
		return nil, nil, errors.Join(err, loop.Close())
	}
	return c, func() error { return errors.Join(c.Close(), loop.Close()) }, nil
}

// config is that of a client, once the files of keys are loaded.
func (f *clientFlags) config() erpc.Config {
	cfg := erpc.Config{NoHugepages: true, Timing: erpc.Timing{ConnectTimeout: f.Timeout}}
	f.Apply(&cfg)
	return cfg
}
