package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/cmd/erpc/measure"
	"github.com/userspace-rpc/erpc/cmd/erpc/watch"
	"github.com/userspace-rpc/erpc/debug"
	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/internal/monotime"
	"github.com/userspace-rpc/erpc/kit/cli"
)

type watchDemoCmd struct {
	measure.NetFlags `group:"net"`
	HTTP             string        `name:"http" default:"127.0.0.1:8080" help:"Where; ${default}."`
	Threads          int           `default:"2" help:"Event loops of the server; ${default}."`
	Lost             float64       `default:"0.001" help:"Share of packets that are lost; ${default}."`
	For              time.Duration `help:"End after this time; 0: with Ctrl-C."`
}

// Help is shown by --help.
func (watchDemoCmd) Help() string {
	return `A server process with a debug socket, calls of three kinds whose number goes up and down,
some lost packets, and the page of "erpc top --http" that shows the server.

Examples:
  erpc watch-demo
  erpc watch-demo --http :0 --for 1m`
}

// Shape of the demonstration's load.
const (
	demoGoroutines = 12               // callers, of them a third with work that takes some time
	demoWave       = 20 * time.Second // from one peak to the next
	demoPause      = time.Millisecond // most between two calls of a caller
)

// Run implements the subcommand.
func (c *watchDemoCmd) Run(e *env) error {
	if err := errors.Join(c.Check(), cli.Positive("--threads", c.Threads, 1)); err != nil {
		return err
	}
	if c.Lost < 0 || c.Lost > 0.5 {
		return cli.Usagef("--lost %v: want 0 to 0.5", c.Lost)
	}
	ctx, cancel := context.WithCancel(e.ctx)
	defer cancel()
	if c.For > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.For)
		defer cancel()
	}
	server, err := measure.StartServer(&c.NetFlags, c.Threads, "none", "--debug", "--record=65536")
	if err != nil {
		return err
	}
	pid := server.PID()
	fmt.Fprintf(e.err, "server process %d; beside the page try: erpc top %[1]d, "+
		"erpc trace dump %[1]d\n", pid)
	sock := debug.NewClient(filepath.Join(debug.Dir(), strconv.Itoa(pid)+".sock"))
	about, err := sock.About(ctx)
	if err != nil {
		return errors.Join(explain(err), server.Stop())
	}
	var load sync.WaitGroup
	failed := make(chan error, len(server.Addrs))
	for _, addr := range server.Addrs {
		load.Go(func() {
			if err := c.load(ctx, addr); err != nil {
				failed <- err
				cancel()
			}
		})
	}
	top := topCmd{HTTP: c.HTTP, Interval: time.Second, Sessions: 32, JSON: c.JSON}
	err = top.serve(&env{ctx: ctx, in: e.in, out: e.out, err: e.err},
		&looker{client: sock, meter: watch.NewMeter(about), sessions: top.Sessions})
	cancel()
	load.Wait()
	close(failed)
	sock.Close()
	return errors.Join(err, <-failed, server.Stop())
}

// load calls one loop of the server until ctx ends.
func (c *watchDemoCmd) load(ctx context.Context, addr string) error {
	local, err := c.Near(addr)
	if err != nil {
		return err
	}
	tr, err := c.Listen(local)
	if err != nil {
		return err
	}
	faults := measure.FaultFlags{Loss: c.Lost, Seed: 1}
	if tr, err = faults.Spoil(tr, 0); err != nil {
		return err
	}
	cl, err := erpc.Dial(ctx, tr, addr, c.Config())
	if err != nil {
		return err
	}
	var callers sync.WaitGroup
	errs := make(chan error, demoGoroutines)
	for i := range demoGoroutines {
		callers.Go(func() { errs <- demoCalls(ctx, cl, i) })
	}
	callers.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return errors.Join(err, cl.Close())
}

// demoCalls makes calls of one kind, more and fewer of them in waves, until ctx ends.
func demoCalls(ctx context.Context, cl *erpc.Client, i int) error {
	begin := monotime.Now()
	request := make([]byte, 64)
	typ := uint8(measure.TypeEcho)
	switch i % 3 {
	case 1:
		typ = measure.TypeBench
		binary.LittleEndian.PutUint32(request, 4000) // bytes of the response
	case 2:
		typ = measure.TypeWork
	}
	for ctx.Err() == nil {
		at := monotime.Now().Sub(begin)
		wave := (1 + math.Sin(2*math.Pi*float64(at)/float64(demoWave))) / 2
		if typ == measure.TypeWork {
			binary.LittleEndian.PutUint32(request, uint32(500+4000*wave)) // us
		}
		if _, err := cl.Call(ctx, typ, request); err != nil && ctx.Err() == nil {
			return err
		}
		pause := time.NewTimer(time.Duration(float64(demoPause) * (1 - wave)))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil
}
