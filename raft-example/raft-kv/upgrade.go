package main

import (
	"context"
	"errors"
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
started in a newer program, one after the other, and in the older one again. Then this command
raises the version (raft-kv status shows it). From there on an older program refuses the folder, and
the other members refuse the program: there is no way back. Without it nothing of the newer format
is used.

Nothing changes unless all members run, learners too, and know the version.`
}

// Run implements the subcommand.
func (c *upgradeCmd) Run(e *cli.Env) error {
	return c.with(e, func(ctx context.Context, b *client.Blocking) error {
		version, already, err := upgrade(ctx, b, strings.Split(c.Servers, ","), c.netFlags.Cluster, c.To)
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
		}{version, already}, text, version)
	})
}

// errNoVersion is a version that the leader does not know.
var errNoVersion = errors.New("there is no such version in the program of the leader")

// errLower is a version below the one that the cluster has.
var errLower = errors.New("a cluster's version only rises")

// upgrade raises the version to one, 0 for the newest, and returns what it is then. Errors:
// errNoVersion, errLower, those of change.
func upgrade(ctx context.Context, b *client.Blocking, servers []string, cluster uint64, to uint8) (
	version uint8, already bool, err error,
) {
	now, err := leading(ctx, b, servers)
	switch {
	case err != nil:
	case now.Formats == nil:
		err = fmt.Errorf("%w: replica %d, which leads, runs a program of format 0", node.ErrUpgrade,
			now.ID)
	case uint32(to) > now.Formats.Max:
		err = fmt.Errorf("%w: %d, and replica %d knows %d to %d; start all members in a newer one first",
			errNoVersion, to, now.ID, now.Formats.Min, now.Formats.Max)
	case to != 0 && to < now.Version:
		err = fmt.Errorf("%w: %d is asked for, and it is %d", errLower, to, now.Version)
	}
	if err != nil {
		return 0, false, err
	}
	if to == 0 {
		to = uint8(now.Formats.Max)
	}
	already, err = change(ctx, b, servers,
		node.Admin{Cluster: cluster, Upgrade: true, Version: to})
	if err == nil {
		now, err = leading(ctx, b, servers)
	}
	return max(to, now.Version), already, err // a new leader may not have applied it yet
}
