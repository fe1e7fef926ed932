package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/userspace-rpc/erpc/cluster"
	"github.com/userspace-rpc/erpc/cluster/etcd"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// fleet is a cluster on this machine: etcd, servers, a client with a load. One goroutine uses it.
type fleet struct {
	flags
	store  *store
	client *clientv3.Client
	names  *cluster.Resolver
	loop   *erpc.Loop
	pool   *cluster.Pool
	load   *load
	cancel context.CancelFunc // of the load
	nodes  []*node
	made   int // servers so far
}

// startFleet starts everything.
func startFleet(e *cli.Env, f flags) (c *fleet, err error) {
	if err = f.check(); err != nil {
		return nil, err
	}
	c = &fleet{flags: f, cancel: func() {}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.store, err = startStore(); err != nil {
		return c, err
	}
	for range f.Nodes {
		if err = c.add(""); err != nil {
			return c, err
		}
	}
	if c.client, err = newClient(c.store.addr); err != nil {
		return c, err
	}
	source, err := etcd.NewSource(c.client, configOf(f.ttl()))
	if err != nil {
		return c, err
	}
	c.names, err = cluster.NewResolver(source, cluster.Config{Zone: "a",
		OnProblem: func(err error) { fmt.Fprintln(e.Err, cli.OneLine(err)) }})
	if err != nil {
		return c, err
	}
	tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return c, err
	}
	if c.loop, err = erpc.NewLoop(tr, erpc.Config{}); err != nil {
		return c, err
	}
	ctx, cancel := context.WithTimeout(e.Ctx, 10*time.Second)
	defer cancel()
	if c.pool, err = c.names.Pool(ctx, erpc.PoolConfig{}, c.loop); err != nil {
		return c, err
	}
	if err = c.pool.Ready(ctx); err != nil {
		return c, err
	}
	ctx, c.cancel = context.WithCancel(context.Background())
	c.load = startLoad(ctx, c.pool, f.Rate)
	return c, nil
}

// close ends everything.
func (c *fleet) close() (err error) {
	c.cancel()
	if c.load != nil {
		c.load.work.Wait()
	}
	if c.pool != nil {
		err = errors.Join(err, c.pool.Close())
	}
	if c.names != nil {
		err = errors.Join(err, c.names.Close())
	}
	if c.loop != nil {
		err = errors.Join(err, c.loop.Close())
	}
	var ends sync.WaitGroup // each may wait for an etcd that is away
	for _, n := range c.nodes {
		ends.Go(func() { n.end(false) })
	}
	ends.Wait()
	if c.client != nil {
		err = errors.Join(err, c.client.Close())
	}
	if c.store != nil {
		err = errors.Join(err, c.store.close())
	}
	return err
}

// add adds a server in a zone, the next one if that is "".
func (c *fleet) add(zone string) error {
	if zone == "" {
		zone = string(rune('a' + c.made%c.Zones))
	}
	n, err := startNode(c.store.addr, fmt.Sprintf("web-%d", c.made), zone, c.TTL)
	if err != nil {
		return err
	}
	c.made++
	c.nodes = append(c.nodes, n)
	return nil
}

// do carries out a command, as "kill web-1".
func (c *fleet) do(line string) error {
	words := strings.Fields(line)
	verb, name := words[0], ""
	if len(words) == 2 {
		name = words[1]
	}
	i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == name })
	switch {
	case verb == "add" && (name == "" || len(name) == 1 && 'a' <= name[0] && name[0] <= 'z'):
		return c.add(name)
	case verb == "etcd" && name == "stop":
		c.store.stop()
		return nil
	case verb == "etcd" && name == "start":
		return c.store.start()
	case verb == "roll" && name == "":
		for _, n := range slices.Clone(c.nodes) {
			if err := errors.Join(c.add(n.zone), c.do("drain "+n.name)); err != nil {
				return err
			}
		}
		return nil
	case verb == "zone" && name != "":
		if !slices.ContainsFunc(c.nodes, func(n *node) bool { return n.zone == name }) {
			return fmt.Errorf("%q: no node is in zone %s", line, name)
		}
		for _, n := range slices.Clone(c.nodes) {
			if n.zone == name {
				if err := c.do("kill " + n.name); err != nil {
					return err
				}
			}
		}
		return nil
	case slices.Contains([]string{"kill", "drain", "stop", "cont"}, verb) && name != "" && i < 0:
		return fmt.Errorf("%q: there is no node %s, there are%s", line, name, c.listed())
	case i < 0:
		return fmt.Errorf("%q: want add, add ZONE, kill NODE, drain NODE, stop NODE, cont NODE, zone "+
			"ZONE, which kills its nodes, roll, which has others in place of all, etcd stop, etcd start, "+
			"quit", line)
	}
	n := c.nodes[i]
	switch verb {
	case "kill", "drain":
		c.nodes = slices.Delete(c.nodes, i, i+1)
		n.end(verb == "kill")
	case "stop":
		n.state = "stopped"
		return pause(n.cmd.Process)
	case "cont":
		n.state = "up"
		return resume(n.cmd.Process)
	default:
		return fmt.Errorf("%q: what?", verb)
	}
	return nil
}

// listed has the names of the nodes, each after a space.
func (c *fleet) listed() (text string) {
	for _, n := range c.nodes {
		text += " " + n.name
	}
	return text
}

// table writes what was seen in a span of time.
func (c *fleet) table(out io.Writer, span time.Duration) error {
	seen := c.load.take()
	t := cli.NewTable(out)
	state := map[string]erpc.ServerState{}
	for _, s := range c.pool.Servers() {
		state[s.Addr] = s.State
	}
	fmt.Fprintf(t, "node\tzone\tprocess\tsession\tcalls/s\tp50 us\tp99 us\n")
	for _, n := range c.nodes {
		session := "-"
		if s, ok := state[n.addr]; ok {
			session = s.String()
		}
		rate, p50, p99 := 0.0, "-", "-"
		if a := seen.answers[n.name]; a != nil {
			rate = float64(a.count) / span.Seconds()
			p50 = fmt.Sprint(a.times.ValueAtQuantile(50))
			p99 = fmt.Sprint(a.times.ValueAtQuantile(99))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\t%s\t%s\n", n.name, n.zone, n.state, session, rate, p50, p99)
	}
	view := "current"
	if v := c.names.View(); v.Err != nil {
		view = cli.OneLine(v.Err)
	}
	fmt.Fprintf(t, "view\t%s\n", view)
	if seen.late > 0 {
		fmt.Fprintf(t, "not made, since all callers waited\t%d\n", seen.late)
	}
	for err, n := range seen.failed {
		fmt.Fprintf(t, "failed\t%d\t%s\n", n, cli.Visible(err))
	}
	return t.Flush()
}
