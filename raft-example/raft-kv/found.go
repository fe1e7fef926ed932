package main

import (
	"context"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
)

// lookup makes a resolver of --resolve.
func lookup(text string) (client.Resolver, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil || host == "" {
		return nil, cli.Usagef("--resolve %q: want NAME:PORT", text)
	}
	return client.DNS(host, port), nil
}

// resolve makes a node.Config.Resolve that finds the addresses of --peers and --resolve. Rpc is
// called when it has been made.
func (c *serverCmd) resolve(rpc func() *erpc.Rpc) (func(found func([]string)), error) {
	var list []string
	if c.Peers != "" {
		peers, err := parsePeers(c.Peers)
		if err != nil {
			return nil, err
		}
		list = slices.Sorted(maps.Values(peers))
	}
	if c.Resolve == "" {
		return func(found func([]string)) { found(list) }, nil
	}
	look, err := lookup(c.Resolve)
	if err != nil {
		return nil, err
	}
	return func(found func([]string)) {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			addrs, _ := look(ctx) // else there are those of --peers
			addrs = append(addrs, list...)
			_ = rpc().Post(func(*erpc.Rpc) { found(addrs) }) // a closed Rpc needs none
		}()
	}, nil
}
