package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// foundFlags are of commands that make the folder of a new cluster's first replica.
type foundFlags struct {
	Dir        string `required:"" help:"Folder of the new cluster's first replica; there must be none yet." placeholder:"PATH"`
	Addr       string `required:"" help:"The replica's address." placeholder:"HOST:PORT"`
	NewCluster uint64 `help:"The new cluster's id; default: one at random." placeholder:"ID"`
	JSON       bool   `name:"json" help:"Print one JSON object."`
}

func (f *foundFlags) check(id uint64) error {
	switch {
	case id == 0:
		return cli.Usagef("--id 0: replicas are numbered from 1")
	case !isAddr(f.Addr):
		return cli.Usagef("--addr %q: want HOST:PORT", f.Addr)
	}
	if f.NewCluster == 0 {
		f.NewCluster = uint64(rand.Uint32()) + 1<<32 // nobody chooses such a one
	}
	return nil
}

// another refuses the id of the old cluster for the new one.
func (f *foundFlags) another(old uint64) error {
	if f.NewCluster == old {
		return cli.Usagef("--new-cluster %d: want another id, or members and clients of the old cluster "+
			"would go on with it", f.NewCluster)
	}
	return nil
}

// print tells what was made, and how it is started.
func (f *foundFlags) print(e *cli.Env, id uint64, s *replica.Start) error {
	return e.Print(f.JSON, struct {
		Cluster uint64 `json:"cluster"`
		Index   uint64 `json:"index"` // of the last entry that it has
		ID      uint64 `json:"id"`
		Dir     string `json:"dir"`
	}{f.NewCluster, s.Snapshot.GetMetadata().GetIndex(), id, f.Dir},
		"%s has the state up to entry %d; start it, then add replicas:\n"+
			"raft-kv server --cluster %d --id %d --addr %s --peers %[4]d=%[5]s --dir %[1]s",
		f.Dir, s.Snapshot.GetMetadata().GetIndex(), f.NewCluster, id, f.Addr)
}

type recoverCmd struct {
	From    string `arg:"" help:"Folder of the replica that is left; it must not run. It is not changed but for a torn end of its log."`
	ID      uint64 `required:"" help:"The replica's number." placeholder:"N"`
	Cluster uint64 `default:"1" help:"Id of the cluster that is lost; default ${default}." placeholder:"ID"`
	foundFlags
}

// Help is shown by --help.
func (recoverCmd) Help() string {
	return `For a cluster of which a majority is gone for good. The new cluster has one member, all
that the replica's log has, and an id of its own: members and clients of the old one are refused. A
write that only the lost members had is lost. Take the replica with the highest term of its last
entry (raft-kv status --json: last_term), of several with the same the one whose log is longest
(last), and never two of them.

Examples:
  raft-kv recover /var/lib/raft-kv --id 3 --addr 10.0.0.3:31850 --dir /var/lib/raft-kv-2`
}

// Run implements the subcommand.
func (c *recoverCmd) Run(e *cli.Env) error {
	if err := c.check(c.ID); err != nil {
		return err
	}
	if err := c.another(c.Cluster); err != nil {
		return err
	}
	s, err := node.RecoverFiles(c.From, wal.Identity{Cluster: c.Cluster, Replica: c.ID}, c.Dir,
		c.NewCluster, c.Addr)
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return c.print(e, c.ID, &s)
}
