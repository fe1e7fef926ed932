package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/monotime"
)

type demoCmd struct {
	netFlags
	Durable bool          `help:"With durable logs in a temporary folder; then the killed replica comes back, too."`
	Tick    time.Duration `default:"20ms" help:"Raft's unit of time; default ${default}." placeholder:"TIME"`
	Writes  uint64        `default:"2000" help:"Writes before and after the kill; default ${default}." placeholder:"N"`
}

// Help is shown by --help.
func (demoCmd) Help() string {
	return `Examples:
  raft-kv demo
  raft-kv demo --durable --json`
}

// demoResult is the output of the demonstration.
type demoResult struct {
	OldLeader uint64  `json:"old_leader"`
	NewLeader uint64  `json:"new_leader"`
	Acked     uint64  `json:"acknowledged_writes"`
	Ops       int     `json:"operations"`
	Unknown   int     `json:"unknown_outcomes"`
	Gap       float64 `json:"unavailable_ms"`
	Elections float64 `json:"unavailable_election_timeouts"`
}

// Run implements the subcommand.
func (c *demoCmd) Run(e *cli.Env) (err error) {
	if c.Transport == "shm" || c.Tick < time.Millisecond || c.Writes < 1 {
		return cli.Usagef("--transport %s, --tick %v, --writes %d: want udp or auto, at least 1ms and 1",
			c.Transport, c.Tick, c.Writes)
	}
	dir := ""
	if c.Durable {
		if dir, err = os.MkdirTemp("", "raft-kv"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	addrs, err := freeAddrs(3)
	if err != nil {
		return err
	}
	f, err := newFleet(c.netFlags, 3, dir, c.Tick, addrs)
	if err == nil {
		err = f.startAll()
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.stopAll()) }()
	ctx, cancel := context.WithTimeout(e.Ctx, 2*time.Minute)
	defer cancel()
	r, err := c.play(ctx, e, f)
	if err != nil {
		return err
	}
	return e.Print(c.JSON, r, "%d writes acknowledged, none lost; %d operations, "+
		"linearizable; %d of unknown outcome; no write for %.0f ms (%.1f election timeouts)",
		r.Acked, r.Ops, r.Unknown, r.Gap, r.Elections)
}

// play runs the traffic, kills the leader, and looks what became of it.
func (c *demoCmd) play(ctx context.Context, e *cli.Env, f *fleet) (r demoResult, err error) {
	cf := clientFlags{netFlags: c.netFlags, Servers: strings.Join(f.addrs(), ","),
		Timeout: 10 * time.Second}
	old, err := leaderOf(ctx, cf, f.addrs())
	if err != nil {
		return r, err
	}
	r.OldLeader = old.ID
	fmt.Fprintf(e.Err, "three replicas run; replica %d leads in term %d; 4 clients write\n",
		old.ID, old.Term)
	t, err := startTraffic(ctx, cf, 4, 8)
	if err != nil {
		return r, err
	}
	defer t.stop()
	if err := t.more(ctx, c.Writes); err != nil {
		return r, err
	}
	victim := f.children[old.ID-1]
	fmt.Fprintf(e.Err, "%d writes acknowledged; kill -9 of replica %d\n", t.acked.Load(), old.ID)
	t.gap.Store(0)
	at := monotime.Now()
	if err := victim.kill(); err != nil {
		return r, err
	}
	if err := t.more(ctx, c.Writes); err != nil {
		return r, err
	}
	now, err := leaderOf(ctx, cf, f.addrs())
	if err != nil {
		return r, err
	}
	r.NewLeader = now.ID
	r.Gap = float64(t.gap.Load()) / 1e6
	r.Elections = r.Gap / (float64(10*c.Tick) / 1e6)
	fmt.Fprintf(e.Err, "replica %d leads in term %d; %d writes acknowledged, %v after the kill\n",
		now.ID, now.Term, t.acked.Load(), monotime.Now().Sub(at).Round(time.Millisecond))
	if c.Durable {
		if err := f.start(victim); err != nil {
			return r, err
		}
		fmt.Fprintf(e.Err, "replica %d is back from its log\n", victim.id)
		if err := t.more(ctx, c.Writes); err != nil {
			return r, err
		}
	}
	err = t.end(ctx, cf)
	r.Acked = t.acked.Load()
	r.Ops, r.Unknown = t.hist.Len()
	return r, err
}
