package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

// idleSizes are those of the one call that each idle client makes, so that it is connected.
var idleSizes = echo.Sizes{Request: 32, Response: 32}

// measureIdle measures clients that do nothing: all of them in one process, their servers in
// another one.
func measureIdle(ctx context.Context, p echo.Peer, d time.Duration) (t report.Turn, err error) {
	ctx, cancel := context.WithTimeout(ctx, d+patience)
	defer cancel()
	srv, err := startChild(ctx, core(-1), "idle-serve", "--peer="+p.Name,
		fmt.Sprint("--count=", idleClients))
	if err != nil {
		return t, fmt.Errorf("the servers of %s did not start: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, srv.stop()) }()
	err = runChild(ctx, core(-1), &t, "idle-client", "--peer="+p.Name, "--addrs="+srv.line,
		srv.pidFlag(), fmt.Sprint("--duration=", d))
	if err != nil {
		err = fmt.Errorf("clients of %s: %w", p.Name, err)
	}
	return t, err
}

// setupIdleServe is the process of the servers: it prints their addresses, with commas.
func setupIdleServe(set *flag.FlagSet) func(env) error {
	name := set.String("peer", "", "the peer's `name`")
	count := set.Int("count", 1, "how many servers")
	return func(e env) error {
		p, err := findPeer("--peer", *name)
		if err != nil {
			return err
		}
		var addrs []string
		ended := make(chan error, *count)
		for range *count {
			srv, err := p.Listen(idleSizes)
			if err != nil {
				return err // the process ends, and with it the other servers
			}
			defer func() { _ = srv.Close() }() // nobody is left to be told
			go func() { ended <- srv.Serve() }()
			addrs = append(addrs, srv.Addr())
		}
		fmt.Fprintln(e.out, strings.Join(addrs, ","))
		select {
		case err := <-ended:
			return fmt.Errorf("%s: a server ended: %w", p.Name, err)
		case <-inputEnds(e):
			return nil
		}
	}
}

// setupIdleClient is the process of the clients: it prints a report.Turn.
func setupIdleClient(set *flag.FlagSet) func(env) error {
	name := set.String("peer", "", "the peer's `name`")
	addrs := set.String("addrs", "", "the servers' `addresses`")
	d := set.Duration("duration", time.Second, "how long to measure")
	pid := set.Int("server-pid", 0, "the servers' process")
	return func(e env) error {
		p, err := findPeer("--peer", *name)
		if err != nil {
			return err
		}
		before, err := threads()
		if err != nil {
			return err
		}
		conns, err := p.Connect(e.ctx, split(*addrs), idleSizes)
		if err != nil {
			return err
		}
		defer func() { _ = echo.CloseAll(conns) }() // what is wrong with one shows in its call
		for i, c := range conns {
			if err := callOnce(e.ctx, c, i+1); err != nil {
				return err
			}
		}
		t := report.Turn{Run: report.Run{Bench: "idle", Peer: p.Name, Version: version(p),
			Transport: p.Transport, Conns: len(conns)}}
		if err := watch(e.ctx, &t, *d, *pid); err != nil {
			return err
		}
		after, err := threads()
		if err != nil {
			return err
		}
		t.Threads = float64(after - before)
		return json.NewEncoder(e.out).Encode(t)
	}
}

// watch measures the CPU time of this process and of the servers' for d, after a third of it in
// which what the calls left behind comes to rest.
func watch(ctx context.Context, t *report.Turn, d time.Duration, servers int) error {
	if err := idle(ctx, d/3); err != nil {
		return err
	}
	own, theirs, begin := cpuTime(os.Getpid()), cpuTime(servers), time.Now()
	if err := idle(ctx, d); err != nil {
		return err
	}
	t.Duration = time.Since(begin).Seconds()
	t.Share = (cpuTime(os.Getpid()) - own).Seconds() / t.Duration
	t.ServerShare = (cpuTime(servers) - theirs).Seconds() / t.Duration
	return nil
}

// callOnce makes a call and compares its response.
func callOnce(ctx context.Context, c echo.Conn, seq int) error {
	request := echo.Payload(idleSizes.Request)
	echo.Stamp(request, uint64(seq))
	response, err := c.NewCall()(ctx, request)
	if err != nil {
		return err
	}
	return echo.Check(request, nil, response, true)
}

// idle waits for d, or until ctx ends.
func idle(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
