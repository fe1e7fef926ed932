package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/herd/rdma"
	"github.com/userspace-rpc/erpc/kv/memcached"
	"github.com/userspace-rpc/erpc/kv/mica"
	kvserver "github.com/userspace-rpc/erpc/kv/server"
)

type serveCmd struct {
	netFlags
	designFlags
	memcachedFlags
	Window     int     `default:"16" help:"${window_help}" placeholder:"N"`
	Slot       int     `default:"1024" help:"${slot_help}" placeholder:"SIZE"`
	Addr       string  `default:"127.0.0.1:31870" help:"${addr_help}" placeholder:"ADDR"`
	Partitions int     `default:"1" help:"Partitions, an event loop each; default ${default}."`
	Memory     int     `default:"256" help:"${memory_help}" placeholder:"MIB"`
	Store      bool    `help:"Refuse new items when full, in place of forgetting old ones."`
	ItemSize   int     `default:"48" help:"${item_help}"`
	MoveToHead float64 `default:"0" help:"${move_help}" placeholder:"PART"`
	OneByOne   bool    `help:"Run each request by itself, in place of batches."`
	Pin        []int   `help:"Cores of the event loops, with commas." placeholder:"CORE"`
	NoHuge     bool    `name:"no-hugepages" help:"Use ordinary pages."`
	Child      bool    `hidden:"" help:"End with standard input."`
}

// ready is printed with --json when the server listens.
type ready struct {
	Ready bool     `json:"ready"`
	Addrs []string `json:"addrs"`
	Mode  string   `json:"mode"`

	Memcached string `json:"memcached,omitempty"`
}

func (c *serveCmd) check() error {
	if err := errors.Join(c.designFlags.check(), c.memcachedFlags.check()); err != nil {
		return err
	}
	switch {
	case c.Design != "erpc" && c.Wanted():
		return errPlain(c.Design)
	case c.Memcached != "" && c.PSKFile != "":
		return cli.Usagef("--memcached: its clients know no shared key; use --tls-cert, --tls-key")
	case c.Memcached != "" && c.WithTLS() && c.TLSCert == "":
		return cli.Usagef("--memcached with --tls-ca needs --tls-cert and --tls-key")
	case c.Partitions < 1 || c.Partitions > 256:
		return cli.Usagef("--partitions %d: want 1 to 256", c.Partitions)
	case c.Memory < 1 || c.Memory > 1<<24:
		return cli.Usagef("--memory %d: want 1 to 2^24", c.Memory)
	case len(c.Pin) != 0 && len(c.Pin) != c.Partitions:
		return cli.Usagef("--pin: %d cores for %d partitions: name one for each",
			len(c.Pin), c.Partitions)
	case !(c.MoveToHead >= 0 && c.MoveToHead <= 1) || c.Store && c.MoveToHead > 0:
		return cli.Usagef("--move-to-head %v: want 0 to 1, and 0 with --store", c.MoveToHead)
	case c.ItemSize < 1 || c.ItemSize > mica.MaxKey+mica.MaxValue:
		return cli.Usagef("--item-size %d: want 1 to %d", c.ItemSize, mica.MaxKey+mica.MaxValue)
	}
	return c.Load()
}

// config returns the server's configuration.
func (c *serveCmd) config(e *cli.Env) kvserver.Config {
	cfg := kvserver.Config{Partitions: c.Partitions, OneByOne: c.OneByOne,
		Rpc:    erpc.Config{NoHugepages: true},
		Logger: slog.New(slog.NewTextHandler(e.Err, nil)),
		Store: mica.Config{Memory: c.Memory << 20 / c.Partitions, ItemSize: c.ItemSize,
			MoveToHead: c.MoveToHead, NoHugepages: c.NoHuge,
		}, Shared: c.Memcached != ""} // its connections are goroutines
	c.Apply(&cfg.Rpc)
	if c.Store {
		cfg.Store.Mode = mica.Store
	}
	if c.Pin != nil {
		cfg.Start = func(partition int) {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := cli.PinThread(c.Pin[partition]); err != nil {
				fmt.Fprintf(e.Err, "core %d: %v\n", c.Pin[partition], err)
			}
		}
	}
	return cfg
}

// serveHerd serves clients of all designs but erpc.
func (c *serveCmd) serveHerd(e *cli.Env) error {
	if c.Memcached != "" {
		return cli.Usagef("--memcached: needs --design erpc, not %s", c.Design)
	}
	cfg := c.config(e)
	srv, err := rdma.Listen(c.Addr, rdma.Config{Device: c.Iface, Store: cfg.Store, Start: cfg.Start,
		Logger: cfg.Logger, Geometry: herd.Geometry{Partitions: c.Partitions, Window: c.Window,
			Slot: c.Slot}})
	if err != nil {
		return err
	}
	r := ready{Ready: true, Mode: cfg.Store.Mode.String(), Addrs: []string{srv.Addr().String()}}
	return c.until(e, r, srv.Serve, srv.Close, rdma.ErrClosed)
}

// Run implements the subcommand.
func (c *serveCmd) Run(e *cli.Env) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if c.Design != "erpc" {
		return c.serveHerd(e)
	}
	cfg := c.config(e)
	srv, err := kvserver.New(cfg)
	if err != nil {
		return err
	}
	trs, err := c.listenAll(c.Addr, c.Partitions)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	r := ready{Ready: true, Mode: mica.Cache.String()}
	if c.Store {
		r.Mode = mica.Store.String()
	}
	for _, tr := range trs {
		r.Addrs = append(r.Addrs, tr.LocalAddr().String())
	}
	ctx, stop := context.WithCancel(e.Ctx)
	defer stop()
	e = &cli.Env{Ctx: ctx, In: e.In, Out: e.Out, Err: e.Err}
	mc, err := c.memcachedFlags.serve(
		memcached.Config{Store: srv, TLS: c.Server(), Logger: cfg.Logger}, stop, &r)
	if err != nil {
		for _, tr := range trs {
			err = errors.Join(err, tr.Close())
		}
		return errors.Join(err, srv.Close())
	}
	defer func() { err = errors.Join(err, mc()) }()
	return c.until(e, r, func() error { return srv.Serve(trs) }, srv.Close, erpc.ErrClosed)
}

// until prints that a server is ready, and serves until the context ends. Then serve returns
// closed.
func (c *serveCmd) until(e *cli.Env, r ready, serve, stop func() error, closed error) error {
	ended := make(chan error, 1)
	go func() { ended <- serve() }()
	err := e.Print(c.JSON, r, "an empty %s of %d MiB on %v", r.Mode, c.Memory, r.Addrs)
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	if c.Child {
		go func() {
			_, _ = io.Copy(io.Discard, e.In)
			cancel()
		}()
	}
	if err == nil {
		select {
		case err = <-ended:
			return errors.Join(err, stop())
		case <-ctx.Done():
		}
	}
	err = errors.Join(err, stop())
	if e := <-ended; !errors.Is(e, closed) {
		err = errors.Join(err, e)
	}
	return err
}
