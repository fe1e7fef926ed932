package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
)

type upCmd struct {
	flags
	Every time.Duration `default:"1s" help:"Time between two tables; default ${default}." placeholder:"TIME"`
}

// Help is shown by --help.
func (upCmd) Help() string {
	return `Commands, one a line: add, add ZONE, kill NODE, drain NODE, stop NODE (SIGSTOP), cont NODE,
zone ZONE (kills all of its nodes), roll (others in place of all, one by one), etcd stop,
etcd start, quit.

Examples:
  erpc-cluster up --nodes 5
  (sleep 5; echo kill web-0; sleep 5; echo quit) | erpc-cluster up --nodes 5`
}

// Run implements the subcommand.
func (c *upCmd) Run(e *cli.Env) (err error) {
	if c.Every < 100*time.Millisecond {
		return cli.Usagef("--every %v: at least 100ms", c.Every)
	}
	f, err := startFleet(e, c.flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	lines := make(chan string)
	go func() {
		for s := bufio.NewScanner(e.In); s.Scan(); {
			select {
			case lines <- s.Text():
			case <-e.Ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(c.Every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case now := <-tick.C:
			if err := f.table(e.Out, now.Sub(last)); err != nil {
				return err
			}
			last = now
			fmt.Fprintln(e.Out)
		case line := <-lines:
			switch line = strings.TrimSpace(line); line {
			case "":
			case "quit":
				return nil
			default:
				if err := f.do(line); err != nil {
					fmt.Fprintln(e.Err, cli.OneLine(err))
				}
			}
		case <-e.Ctx.Done():
			return nil
		}
	}
}
