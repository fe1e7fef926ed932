package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type clusterCmd struct {
	netFlags
	roleFlags
	Replicas int           `default:"3" help:"How many; default ${default}." placeholder:"N"`
	Port     int           `default:"31850" help:"Port of the first one on 127.0.0.1, the others follow; default ${default}." placeholder:"PORT"`
	Dir      string        `help:"Folder of the durable logs; without it all is in memory only." placeholder:"PATH"`
	Tick     time.Duration `default:"20ms" help:"Raft's unit of time; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (clusterCmd) Help() string {
	return `Examples:
  raft-kv cluster
  raft-kv cluster --dir /tmp/store --replicas 5`
}

// Run implements the subcommand.
func (c *clusterCmd) Run(e *cli.Env) error {
	if c.Replicas < 1 || c.Replicas > 9 || c.Port < 1 || c.Port+c.Replicas > 65536 {
		return cli.Usagef("--replicas %d, --port %d: want 1 to 9, and ports up to 65535",
			c.Replicas, c.Port)
	}
	var addrs []string
	for i := range c.Replicas {
		if addr := fmt.Sprintf("127.0.0.1:%d", c.Port+i); c.Transport == "shm" {
			addrs = append(addrs, fmt.Sprintf("shm:raft-kv-%d", c.Port+i))
		} else {
			addrs = append(addrs, addr)
		}
	}
	f, err := newFleet(c.netFlags, c.Replicas, c.Dir, c.Tick, addrs)
	if err != nil {
		return err
	}
	f.roles = c.roleFlags
	if err := f.startAll(); err != nil {
		return err
	}
	list := strings.Join(addrs, ",")
	err = e.Print(c.JSON, struct {
		Ready   bool   `json:"ready"`
		Servers string `json:"servers"`
	}{true, list}, "%d replicas serve; use raft-kv status --servers %s", c.Replicas, list)
	if err != nil {
		return err
	}
	<-e.Ctx.Done()
	return f.stopAll()
}
