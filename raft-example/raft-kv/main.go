package main

import (
	"github.com/alecthomas/kong"

	"github.com/userspace-rpc/erpc/kit/cli"
)

// command is the command line.
type command struct {
	Server  serverCmd  `cmd:"" help:"Run one replica until interrupted."`
	Cluster clusterCmd `cmd:"" help:"Run replicas on loopback, each in a process of its own, until interrupted."`
	Put     putCmd     `cmd:"" help:"Set a key."`
	Get     getCmd     `cmd:"" help:"Print the value of a key."`
	Delete  deleteCmd  `cmd:"" help:"Remove a key."`
	CAS     casCmd     `cmd:"" name:"cas" help:"Set a key if it has a certain value."`
	Status  statusCmd  `cmd:"" help:"What each replica knows of itself and the cluster."`
	Member  memberCmd  `cmd:"" help:"Add or remove a replica, or hand over leadership."`
	Members membersCmd `cmd:"" help:"Change any members at once."`
	Upgrade upgradeCmd `cmd:"" help:"Raise the cluster's version, once all replicas run a newer program."`
	Tick    tickCmd    `cmd:"" help:"Change the tick and the lease of a cluster that runs."`
	Backup  backupCmd  `cmd:"" help:"Write all keys to a file, while the cluster serves."`
	Restore restoreCmd `cmd:"" help:"Make a new cluster of such a file."`
	Recover recoverCmd `cmd:"" help:"Make a new cluster of what one replica has on its disk."`
	Bench   cli.Moved  `cmd:"" hidden:"" passthrough:"" help:"raft-bench put"`
	Sim     cli.Moved  `cmd:"" hidden:"" passthrough:"" help:"raft-bench sim"`
	Demo    demoCmd    `cmd:"" help:"Three replicas; the leader is killed under load; nothing acknowledged is lost."`
}

func main() { cli.Main(run) }

// run runs one command line and returns the exit status.
func run(e *cli.Env, args []string) int {
	app := cli.App{
		Name: "raft-kv", Description: `A replicated key-value store: try "raft-kv demo".`,
	}
	var c command
	return app.Run(e, &c, args, func(e *cli.Env, parsed *kong.Context) error { return parsed.Run(e) })
}
