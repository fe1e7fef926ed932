package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport"
)

// ServerCmd is the subcommand server.
type ServerCmd struct {
	NetFlags   `group:"net"`
	debugFlags `group:"debug"`
	Addr       string `help:"Address to serve on; thread i adds i to the port; default :31850. With shm a name; default erpc. With afpacket and afxdp an address of the interface, or :PORT and --iface." placeholder:"HOST:PORT"`
	Threads    int    `default:"1" help:"Event loops, each with a port of its own; default ${default}." placeholder:"N"`
	OnePort    bool   `help:"All event loops serve on one address and share its sessions. Linux, udp."`
	Raw        bool   `help:"Clients may ask for raw echo sockets, for bench --raw. Only on trusted networks."`
	Symmetric  bool   `help:"Clients may ask for requests, for bench rate --symmetric. Only on trusted networks."`
	Child      bool   `hidden:"" help:"End when standard input ends."`
}

// Help is shown by --help.
func (ServerCmd) Help() string {
	return `Examples:
  erpc server                              on all addresses, port 31850
  erpc server --addr 10.0.0.1:31850 --threads 4 --pin 0,1,2,3 --wait spin
  erpc server --threads 4 --one-port       four loops on port 31850
  sudo erpc server --transport afpacket --iface eth0       or afxdp
  erpc server --transport ud --iface mlx5_0
  erpc server --debug --record 65536       for erpc top and erpc trace; see docs/observe.md
  erpc server --pcap server.pcap           capture, for erpc decode and Wireshark
  erpc server --addr 127.0.0.1:0 --json    any free port; prints {"ready":true,"addr":"..."}`
}

// ReadyLine is printed by a server with --json.
type ReadyLine struct {
	Ready bool     `json:"ready"`
	Addr  string   `json:"addr"`
	Addrs []string `json:"addrs"`
}

// Run implements the subcommand.
func (c *ServerCmd) Run(e *Env) error {
	err := errors.Join(c.Check(), cli.Positive("--threads", c.Threads, 1), c.checkOnePort())
	if err != nil {
		return err
	}
	known, anywhere := c.medium().serves()
	switch {
	case c.Child && c.Addr == "":
		c.Addr = anywhere
	case c.Addr == "":
		c.Addr = known
	default:
		if err := c.medium().checkAddr("--addr", c.Addr); err != nil {
			return err
		}
	}
	if err := c.startCapture(e); err != nil {
		return err
	}
	c.notes, c.oneClient = e.Err, c.Child
	c.tune(c.Threads)
	stopProfile, err := cli.StartProfile(c.Profile)
	if err != nil {
		return err
	}
	defer stopProfile()
	if c.endpoints = c.Threads; c.Raw {
		c.endpoints *= 2
	}
	var stop atomic.Bool
	eps, err := c.open(&stop)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	context.AfterFunc(ctx, func() {
		stop.Store(true)
		for _, ep := range eps {
			ep.rpc.Wake()
		}
	})
	if c.Child {
		go func() {
			_, _ = io.Copy(io.Discard, e.In)
			cancel() // the parent has gone
		}()
	}
	if err := c.startDebug(e, eps); err != nil {
		for _, ep := range eps {
			err = errors.Join(err, ep.close())
		}
		return err
	}
	c.announce(e, eps)
	err = c.serve(eps, cancel)
	var served uint64
	for _, ep := range eps {
		served += ep.served
	}
	if !c.Child {
		slog.New(slog.NewTextHandler(e.Err, nil)).Info("server ended", "rpcs", served)
	}
	return err
}

// open opens the endpoints of all threads, or none.
func (c *ServerCmd) open(stop *atomic.Bool) (eps []*endpoint, err error) {
	cores, err := c.cores(c.Threads)
	if err != nil {
		return nil, err
	}
	if c.Pin == "auto" {
		cores, _ = (&NetFlags{Pin: "none"}).cores(c.Threads) // a lone server leaves it to the system
	}
	if c.OnePort {
		return c.openOnePort(cores, stop)
	}
	var addrs []string
	for i := range c.Threads {
		addr, err := c.medium().thread(c.Addr, i)
		var tr transport.Transport
		if err == nil {
			tr, err = c.Listen(addr)
		}
		var ep *endpoint
		if err == nil {
			ep, err = openEndpoint(&c.NetFlags, tr, cores[i], stop)
		}
		if err != nil {
			for _, ep := range eps {
				err = errors.Join(err, ep.close())
			}
			return nil, err
		}
		ep.allowRaw, ep.allowLoad = c.Raw, c.Symmetric
		eps = append(eps, ep)
		addrs = append(addrs, ep.rpc.LocalAddr().String())
	}
	for _, ep := range eps {
		ep.siblings = addrs
	}
	return eps, nil
}

func (c *ServerCmd) announce(e *Env, eps []*endpoint) {
	addrs := eps[0].siblings
	if c.JSON {
		_ = json.NewEncoder(e.Out).Encode(ReadyLine{true, addrs[0], addrs})
		return
	}
	for _, a := range addrs {
		fmt.Fprintf(e.Out, "serving on %s\n", a)
	}
	fmt.Fprintln(e.Err, "Ctrl-C ends")
}

// serve runs all loops until they end; the first failure ends the others.
func (c *ServerCmd) serve(eps []*endpoint, cancel func()) error {
	errs := make([]error, len(eps))
	var wg sync.WaitGroup
	for i, ep := range eps {
		wg.Go(func() {
			var err error
			if ep.core >= 0 || c.pair != nil { // else other goroutines can have the thread in between
				err = ep.lock()
			}
			if err == nil {
				err = ep.serve()
			}
			errs[i] = errors.Join(err, ep.close())
			if errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
