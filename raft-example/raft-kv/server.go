package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/leastheap"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

type serverCmd struct {
	netFlags
	roleFlags
	ID    uint64 `required:"" help:"The replica's number, from 1. One without --dir that died needs a new one." placeholder:"N"`
	Addr  string `required:"" help:"Address to listen on." placeholder:"HOST:PORT"`
	Peers string `help:"All members of a new cluster, this one too, as 1=HOST:PORT,2=...; later those that may be asked for the members." placeholder:"LIST"`
	Join  bool   `help:"Wait to be added by raft-kv member add, instead of --peers."`

	Dir   string        `help:"Folder of a durable log; without it all is in memory only." placeholder:"PATH"`
	Tick  time.Duration `default:"20ms" help:"Raft's unit of time; an election starts after 10 to 20 of them; default ${default}." placeholder:"TIME"`
	Lease time.Duration `help:"Lease for reads, at most 9 ticks; see --help." placeholder:"TIME"`
	Scrub time.Duration `default:"1h" help:"How often the checksums on the disk are checked; 0: never; default ${default}." placeholder:"TIME"`
	Keys  int           `help:"How many keys to make room for." placeholder:"N"`
	Spin  bool          `help:"Never sleep: lowest latency, one core busy."`
	GC    int           `name:"gc" default:"400" help:"The garbage collector's GOGC, while there is at most 128 MiB of garbage, or a tenth of the store; default ${default}." placeholder:"PERCENT"`
	Heap  int           `name:"gc-heap" default:"64" help:"Heap in MiB before it is collected at all; at most an eighth of the memory; default ${default}." placeholder:"MIB"`
	Child bool          `hidden:"" help:"End with standard input."`

	Resolve string `help:"A DNS name of all replicas, asked when one speaks as a member that this one does not know." placeholder:"NAME:PORT"`

	Volatile bool `hidden:"" help:"Lose what is not synced when the process ends, for tests."`
}

// Help is shown by --help.
func (serverCmd) Help() string {
	return `Examples:
  raft-kv server --id 1 --addr 10.0.0.1:31850 \
      --peers 1=10.0.0.1:31850,2=10.0.0.2:31850,3=10.0.0.3:31850 \
      --dir /var/lib/raft-kv
  raft-kv server --id 4 --addr 10.0.0.4:31850 --join

Who may speak for a member is told by the addresses of the members; that stops mistakes, not
attackers. With certificates --peer-name gives members a role that clients have not, with shared
keys --peer-psk-file. A cluster with one key goes over in three rounds, one member after the other:
first --psk-file has the new key behind the old one; then --peer-psk-file has the new key and the
old one behind it, and --psk-file the old one; then --peer-psk-file has the new key alone.

Any client may change members, leader and version, and back up, unless admins have a role of their
own: --admin-name, --admin-psk-file. Members are no admins. Admins use their certificate or key as
--tls-cert or --psk-file of the same commands.

A replica that was away while all members that it knew were replaced asks those of --peers and
--resolve for the members: name one of today's when it starts. It asks nobody else.

With --lease the leader serves reads at once for so long after a majority has answered it. All
replicas need the same one. It assumes that clocks run at about the same rate: while the leader's
advances by that time, no other one may advance by 9 ticks. Otherwise reads may be stale.

raft-kv tick changes tick and lease of a cluster that runs. From then on --tick and --lease do not
count: the log says them.`
}

// mostGarbage bounds the heap of a large store in bytes, whatever GOGC says: tables of keys have no
// pointers, so that a collection has little to do.
const mostGarbage = 128 << 20

// ready is printed with --json when the replica listens.
type ready struct {
	Ready bool   `json:"ready"`
	ID    uint64 `json:"id"`
	Addr  string `json:"addr"`
}

func (c *serverCmd) config() (cfg node.Config, start replica.Start, err error) {
	cfg = node.Config{Config: replica.Config{Cluster: c.netFlags.Cluster, ID: c.ID, Tick: c.Tick,
		Keys: c.Keys, Lease: c.Lease}, Log: node.NewLogID(), Volatile: c.Volatile}
	switch {
	case c.ID == 0:
		return cfg, start, cli.Usagef("--id 0: replicas are numbered from 1")
	case c.Tick < time.Millisecond:
		return cfg, start, cli.Usagef("--tick %v: at least 1ms", c.Tick)
	case c.Lease < 0 || c.Lease > 9*c.Tick:
		return cfg, start, cli.Usagef("--lease %v: at most 9 ticks, %v", c.Lease, 9*c.Tick)
	case c.Heap < 0:
		return cfg, start, cli.Usagef("--gc-heap %d: must not be negative", c.Heap)
	case c.Keys < 0:
		return cfg, start, cli.Usagef("--keys %d: must not be negative", c.Keys)
	case c.Scrub < 0:
		return cfg, start, cli.Usagef("--scrub %v: must not be negative", c.Scrub)
	case c.Join == (c.Peers != ""):
		return cfg, start, cli.Usagef("want --peers, or --join")
	case c.Join:
		return cfg, start, nil
	}
	peers, err := parsePeers(c.Peers)
	if err != nil {
		return cfg, start, err
	}
	if _, ok := peers[c.ID]; !ok {
		return cfg, start, cli.Usagef("--peers: replica %d itself is missing", c.ID)
	}
	return cfg, replica.Boot(peers), nil
}

// Run implements the subcommand.
func (c *serverCmd) Run(e *cli.Env) (err error) {
	cfg, start, err := c.config()
	if err != nil {
		return err
	}
	if err = c.configure(&c.netFlags, &cfg); err != nil {
		return err
	}
	var r *erpc.Rpc
	if cfg.Resolve, err = c.resolve(func() *erpc.Rpc { return r }); err != nil {
		return err
	}
	defer leastheap.KeepWithin(uint64(c.Heap)<<20, mostGarbage, c.GC)()
	cfg.Start, cfg.Logger = start, slog.New(slog.NewTextHandler(e.Err,
		&slog.HandlerOptions{Level: slog.LevelWarn}))
	tr, err := c.listen(c.Addr) // before the files: a second start by mistake touches none of them
	if err != nil {
		return bound(c.Addr, err)
	}
	defer func() {
		if tr != nil {
			err = errors.Join(err, tr.Close())
		}
	}()
	var files *node.Files
	if c.Dir != "" {
		if files, err = node.OpenFiles(c.Dir, &cfg, start); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files.Close()) }()
	}
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	ec := node.ErpcConfig(erpc.Config{Logger: cfg.Logger}, n.Replica().ElectionTimeout())
	c.Apply(&ec)
	if c.Spin {
		ec.Wait = erpc.WaitSpin
	}
	x, err := erpc.NewNexus(ec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	if err = n.Register(x); err != nil {
		return err
	}
	r, err = x.NewRpc(tr)
	tr = nil // the Rpc's
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	n.Attach(r)
	if files != nil {
		files.Attach(r)
		if c.Scrub > 0 {
			files.Scrub(n, c.Scrub)
		}
	}
	c.warn(&c.netFlags, &cfg, n)
	c.warnPort(cfg.Logger)
	if err := e.Print(c.JSON, ready{true, c.ID, r.LocalAddr().String()},
		"replica %d of cluster %d serves on %v", c.ID, c.netFlags.Cluster, r.LocalAddr()); err != nil {
		return err
	}
	return c.serve(e, n)
}

// warnPort says that --peers has another port for this replica than --addr: the others will not
// find it, unless something between them leads there.
func (c *serverCmd) warnPort(logger *slog.Logger) {
	peers, _ := parsePeers(c.Peers)
	_, own, err := net.SplitHostPort(c.Addr)
	_, named, err2 := net.SplitHostPort(peers[c.ID])
	if errors.Join(err, err2) == nil && own != "0" && own != named {
		logger.Warn("--peers has another port for this replica than --addr: the others ask there",
			"replica", c.ID, "addr", c.Addr, "peers", peers[c.ID])
	}
}

// serve runs the loop until Ctrl-C, SIGTERM, or the end of the parent. Then it hands over first.
func (c *serverCmd) serve(e *cli.Env, n *node.Node) error {
	ctx, cancel := context.WithCancel(e.Ctx)
	defer cancel()
	if c.Child {
		go func() {
			_, _ = io.Copy(io.Discard, e.In)
			cancel()
		}()
	}
	stop := context.AfterFunc(ctx, n.Rpc().Wake)
	defer stop()
	r := rest{procs: runtime.GOMAXPROCS, now: monotime.Now}
	defer r.look(false)
	if err := n.Run(func() bool {
		r.look(!c.Spin && n.Rests())
		return ctx.Err() != nil && n.Leave()
	}); err != nil {
		return fmt.Errorf("replica %d: %w", c.ID, err)
	}
	return nil
}
