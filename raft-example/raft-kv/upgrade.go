package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

type upgradeCmd struct {
	clientFlags
	To uint8 `help:"The version; without it the newest that the leader's program knows." placeholder:"N"`
}

// Help is shown by --help.
func (upgradeCmd) Help() string {
	return `A cluster writes what the version says, whatever its programs know. So each replica may be
started in a newer program, one after the other, and in the older one again. Then this command raises
the version (raft-kv status shows it). From there on an older program refuses the folder and the other
members refuse the program: there is no way back. Without it nothing of the newer format is used.

Nothing changes unless all members run, learners too, and know the version.`
}

// Run implements the subcommand.
func (c *upgradeCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		servers := strings.Split(c.Servers, ",")
		now, err := leading(ctx, b, servers)
		if err != nil {
			return err
		}
		if now.Formats == nil {
			return fmt.Errorf("%w: replica %d, which leads, runs a program of format 0", node.ErrUpgrade,
				now.ID)
		}
		a := node.Admin{Cluster: c.netFlags.Cluster, Upgrade: true, Version: c.To}
		already, err := change(ctx, b, servers, a)
		if err == nil {
			now, err = leading(ctx, b, servers)
		}
		if err != nil {
			return err
		}
		text := "the cluster's version is %d"
		if already {
			text += " already"
		}
		return e.Print(c.JSON, struct {
			Version uint8 `json:"version"`
			Already bool  `json:"already"`
		}{now.Version, already}, text, now.Version)
	})
}
