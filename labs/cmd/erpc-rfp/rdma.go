package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"

	"github.com/userspace-rpc/erpc/internal/verbs"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kv/herd"
	"github.com/userspace-rpc/erpc/kv/herd/rdma"
	"github.com/userspace-rpc/erpc/kv/message"
	"github.com/userspace-rpc/erpc/kv/mica"
	"github.com/userspace-rpc/erpc/labs/benchrows"
	"github.com/userspace-rpc/erpc/rfp"
	"github.com/userspace-rpc/erpc/rfp/onesided"
	"github.com/userspace-rpc/erpc/rfp/onesided/rc"
)

type rdmaCmd struct {
	demoCmd
	Server string `required:"" help:"Address of the server's adapter." placeholder:"IP"`
	Client string `required:"" help:"Address of the client's adapter." placeholder:"IP"`
}

// Run implements the subcommand.
func (c *rdmaCmd) Run(e *cli.Env) (err error) {
	if c.server, err = netip.ParseAddr(c.Server); err != nil {
		return cli.Usagef("--server %q: want an IP address, as 192.0.2.1", c.Server)
	}
	if c.client, err = netip.ParseAddr(c.Client); err != nil {
		return cli.Usagef("--client %q: want an IP address, as 192.0.2.1", c.Client)
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.run(e)
}

// fewThreads is how many threads of Go a process of these rows has at least: those of HERD's server
// and of this one yield to each other by the kernel, on a machine of one core too.
const fewThreads = 4

func (w *workload) moreThreads() {
	if w.rdma() {
		runtime.GOMAXPROCS(max(fewThreads, runtime.GOMAXPROCS(0)))
	}
}

// rdma reports whether the rows go over RDMA adapters.
func (w *workload) rdma() bool { return w.server.IsValid() }

// rdmaRows are the rows over RDMA. A reply is a WRITE into the client's memory.
func rdmaRows() []row {
	fetch, reply := rfp.Config{Mode: rfp.Fetch}, rfp.Config{Mode: rfp.Reply}
	behind, fetch4, reply4 := fetch, fetch, reply
	behind.First, fetch4.Batch, reply4.Batch = rfp.Behind, 4, 4
	const slots = 16
	return []row{
		{name: "reply", cfg: reply, slots: slots},
		{name: fetchName, cfg: fetch, slots: slots, base: "reply"},
		{name: "fetch, READ behind WRITE", cfg: behind, slots: slots, base: "reply"},
		{name: "reply, one at a time", cfg: reply, slots: slots, sync: true, base: "reply"},
		{name: "reply, batches of 4", cfg: reply4, slots: slots, base: "reply"},
		{name: "fetch, batches of 4", cfg: fetch4, slots: slots, base: fetchName},
		{name: "HERD", kind: kindHerd, slots: slots, base: "reply"},
		{name: "erpc over ud", kind: kindErpc, slots: slots, base: "reply"},
		{name: "reply, 1 call under way", cfg: reply, slots: 1},
		{name: oneName, cfg: fetch, slots: 1, base: "reply, 1 call under way"},
		{name: "HERD, 1 call under way", kind: kindHerd, slots: 1, base: "reply, 1 call under way"},
		{name: "erpc over ud, 1 call under way", kind: kindErpc, slots: 1,
			base: "reply, 1 call under way"},
	}
}

const rdmaText = "%d keys, values of %d bytes, %.0f %% GETs; %d calls, each answer checked.\n" +
	"One server thread, one client thread, a queue pair for each row. A process without work\n" +
	"yields: soft-RoCE carries packets on the same cores, where a READ is as dear as a WRITE.\n"

// dialRc joins the server's adapter. The two processes meet at a socket of one machine.
func (w *workload) dialRc(path string, own, peer []onesided.Spec) (onesided.Link, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return rc.Join(conn, own, peer, rc.Config{Host: w.client})
}

// listenRc makes a listener for one link, and has use called with that.
func (s *server) listenRc(path string, own, peer []onesided.Spec,
	use func(onesided.Link) error) error {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	s.links = append(s.links, func() error {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		link, err := rc.Join(conn, own, peer, rc.Config{Host: s.workload.server})
		if err == nil {
			err = use(link)
		}
		return errors.Join(err, ln.Close())
	})
	return nil
}

// openHerd serves a store of its own by package herd.
func (s *server) openHerd(slots int) (addr string, err error) {
	const slot = 2048 // the largest value and what lies around it
	srv, err := rdma.Listen(net.JoinHostPort(s.workload.server.String(), "0"), rdma.Config{Clients: 1,
		Geometry: herd.Geometry{Partitions: 1, Window: slots, Slot: slot},
		Store: mica.Config{Memory: s.memory(), ItemSize: keyBytes + s.Value, Mode: mica.Store,
			NoHugepages: true}})
	if err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve() }()
	s.close = append(s.close, func() error {
		err := srv.Close()
		if e := <-ended; !errors.Is(e, rdma.ErrClosed) {
			err = errors.Join(err, e)
		}
		return err
	})
	return srv.Addr().String(), nil
}

// herdDriver makes the calls of a row of HERD.
type herdDriver struct {
	checker
	c     *rdma.Client
	slots int
	kb    [keyBytes]byte
	val   []byte
	done  message.Done
}

func (w *workload) dialHerd(addr string, slots int) (*herdDriver, error) {
	site, err := verbs.FindSite("", w.client)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stuck)
	defer cancel()
	c, err := rdma.Dial(ctx, addr, rdma.ClientConfig{Device: site.Device})
	if err != nil {
		return nil, err
	}
	d := &herdDriver{checker: checker{w: w}, c: c, slots: slots}
	d.done = d.ends
	if err := d.load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return d, nil
}

// load stores all keys.
func (d *herdDriver) load() error {
	next := uint64(0)
	err := d.c.Run(func() bool {
		for d.err == nil && next < uint64(d.w.Keys) {
			sent, err := d.send(false, next)
			d.err = errors.Join(d.err, err)
			if !sent {
				break
			}
			next++
		}
		return d.err != nil || next == uint64(d.w.Keys) && d.begun == 0
	})
	d.n = 0
	return errors.Join(err, d.err)
}

func (d *herdDriver) ends(r rdma.Result) {
	switch {
	case r.Err != nil:
		d.checker.done(r.Err)
	case r.Tag&putTag != 0:
		d.checker.done(nil)
	default:
		d.got(r.Tag, r.Value.Value, true, nil)
	}
}

func (d *herdDriver) send(get bool, i uint64) (bool, error) {
	if d.begun >= d.slots {
		return false, nil
	}
	k := key(&d.kb, i)
	var err error
	if get {
		err = d.c.Get(k, i, d.done)
	} else {
		d.val = appendValue(d.val[:0], i, d.w.Value)
		err = d.c.Put(k, d.val, i|putTag, d.done)
	}
	if err == nil {
		d.begun++
	}
	return err == nil, err
}

func (d *herdDriver) poll(rfp.Time) error {
	_, err := d.c.Poll()
	return errors.Join(d.err, err)
}

func (d *herdDriver) close() error { return d.c.Close() }

// perRound lists the calls per second of each round: rounds in a guest differ much.
func perRound(times benchrows.Times, rows []benchrows.Row) string {
	var b strings.Builder
	b.WriteString("k/s of each round:\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "%-32s", r.Name)
		for _, ns := range times[r.Name] {
			fmt.Fprintf(&b, " %6.1f", 1e6/ns)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// folder makes one for the sockets of a run, which the returned function removes.
func (c *demoCmd) folder() (remove func() error, err error) {
	if c.Dir, err = os.MkdirTemp("", "erpc-rfp-"); err != nil {
		return nil, err
	}
	return func() error { return os.RemoveAll(c.Dir) }, nil
}
