package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

type tickCmd struct {
	clientFlags
	Tick  time.Duration  `arg:"" help:"Raft's unit of time; an election starts after 10 to 20 of them."`
	Lease *time.Duration `help:"Lease for reads, at most 9 ticks, 0: none. Without it as many ticks as before." placeholder:"TIME"`
}

// Help is shown by --help.
func (tickCmd) Help() string {
	return `Tick and lease become an entry of the log: all members take them when they have it, and a
member that starts takes them from the log, whatever its --tick and --lease are. Reads are not stale
meanwhile. The cluster's version must be 2 at least: see raft-kv upgrade.

Examples:
  raft-kv tick 40ms
  raft-kv tick 40ms --lease 240ms`
}

// Run implements the subcommand.
func (c *tickCmd) Run(e *cli.Env) error {
	to := replica.Timing{Tick: c.Tick, Lease: -1}
	if to.Tick < kv.MinTick || to.Tick > kv.MaxTick {
		return cli.Usagef("tick %v: want %v to %v", to.Tick, kv.MinTick, kv.MaxTick)
	}
	if c.Lease != nil {
		if to.Lease = *c.Lease; to.Lease < 0 || to.Lease > 9*to.Tick {
			return cli.Usagef("--lease %v: at most 9 ticks, %v", to.Lease, 9*to.Tick)
		}
	}
	servers := strings.Split(c.Servers, ",")
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		_, err := change(ctx, b, servers, node.Admin{Cluster: c.netFlags.Cluster, Timing: &to})
		if err != nil {
			return err
		}
		now, err := retimed(ctx, b, servers, to)
		if err != nil {
			return err
		}
		t := now.Timing.Tick
		return e.Print(c.JSON, now.Timing, "the tick is %v, the lease %v; members elect another leader "+
			"%v to %v after they last heard of one", t, now.Timing.Lease, 10*t, 20*t)
	})
}

// retimed returns the status of a leader that has applied a change that is done. One that leads
// only since then may not have.
func retimed(ctx context.Context, b *client.Blocking, servers []string, to replica.Timing) (
	report, error,
) {
	for last := (replica.Timing{}); ; {
		now, err := leading(ctx, b, servers)
		t := now.Timing
		switch {
		case err == nil && t.Agreed && t.Tick == to.Tick && (to.Lease < 0 || t.Lease == to.Lease):
			return now, nil
		case err == nil:
			last = t
		case last.Tick == 0:
			return now, fmt.Errorf("the change is done, but its effect is not known: %w", err)
		}
		select {
		case <-ctx.Done():
			return now, fmt.Errorf("%w: the change is done, but the tick is %v, the lease %v: another "+
				"change may have followed", client.ErrDeadline, last.Tick, last.Lease)
		case <-time.After(changePause):
		}
	}
}
