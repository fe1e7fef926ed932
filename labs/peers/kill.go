package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/userspace-rpc/erpc/labs/peers/echo"
	"github.com/userspace-rpc/erpc/labs/peers/load"
	"github.com/userspace-rpc/erpc/labs/peers/report"
)

const (
	killRate   = 4000.0                 // calls per second, to two servers
	killWindow = 500 * time.Millisecond // in which completed calls are counted
	killCall   = time.Second            // how long a call may take
	killBack   = 5 * time.Second        // how long a server may take to get calls again
)

// measureKill measures a client of two servers, one of which is killed and comes back.
func measureKill(ctx context.Context, p echo.Peer, d time.Duration, round int) (t report.Turn,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, 4*d+patience)
	defer cancel()
	err = runChild(ctx, core(-1), &t, "kill-client", "--peer="+p.Name, fmt.Sprint("--duration=", d),
		fmt.Sprint("--seed=", round))
	if err != nil {
		err = fmt.Errorf("the client of %s: %w", p.Name, err)
	}
	return t, err
}

// setupKillClient is the process of the client. It starts the servers' and prints a report.Turn.
func setupKillClient(set *flag.FlagSet) func(env) error {
	name := set.String("peer", "", "the peer's `name`")
	d := set.Duration("duration", time.Second, "how long each of the three parts lasts")
	seed := set.Uint64("seed", 1, "of the arrivals")
	return func(e env) error {
		p, err := findPeer("--peer", *name)
		if err != nil {
			return err
		}
		if p.DialPool == nil {
			return usagef("--peer: %s calls one server", p.Name)
		}
		k := &killing{peer: p, part: *d, window: min(killWindow, *d)}
		t, err := k.run(e.ctx, load.Arrivals{Rate: killRate, Seed: *seed})
		if err != nil {
			return err
		}
		return json.NewEncoder(e.out).Encode(t)
	}
}

// killing is one measurement.
type killing struct {
	peer         echo.Peer
	part, window time.Duration
	servers      [2]*child
	pool         echo.Pool
	load         load.Steady

	killed, ejected time.Duration // after the start; ejected is 0 if nobody said so
	most            int           // calls in flight from the kill on
}

// serve starts a server's process, at an address or at any.
func (k *killing) serve(ctx context.Context, addr string) (*child, error) {
	return startChild(ctx, core(-1), "serve", "--peer="+k.peer.Name, "--at="+addr)
}

func (k *killing) run(ctx context.Context, a load.Arrivals) (t report.Turn, err error) {
	var addrs []string
	for i := range k.servers {
		if k.servers[i], err = k.serve(ctx, "127.0.0.1:0"); err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, k.servers[i].stop()) }()
		addrs = append(addrs, k.servers[i].line)
	}
	if k.pool, err = k.peer.DialPool(ctx, addrs, idleSizes); err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, k.pool.Close()) }()
	if err := k.allReady(ctx); err != nil {
		return t, err
	}
	k.load = load.Steady{Begun: time.Now(), Call: func(ctx context.Context, seq uint64) error {
		request := echo.Payload(idleSizes.Request)
		echo.Stamp(request, seq)
		response, err := k.pool.NewCall()(ctx, request)
		if err != nil {
			return err
		}
		return echo.Check(request, nil, response, true)
	}}
	calling, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- k.load.Run(calling, a, killCall) }()
	err = k.parts(ctx, addrs[1])
	stop()
	if err = errors.Join(err, <-ended); err != nil {
		return t, err
	}
	return k.turn(), nil
}

// allReady waits until both servers get calls, if that can be known.
func (k *killing) allReady(ctx context.Context) error {
	for begun := time.Now(); k.pool.Ready() != -1 && k.pool.Ready() < len(k.servers); {
		if time.Since(begun) > killBack {
			return fmt.Errorf("%d of %d servers get calls after %v",
				k.pool.Ready(), len(k.servers), killBack)
		}
		if err := idle(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// parts kills the second server after a part, and starts it again after another one.
func (k *killing) parts(ctx context.Context, addr string) error {
	if err := idle(ctx, k.part); err != nil {
		return err
	}
	victim := k.servers[1]
	k.load.Most()
	k.killed = time.Since(k.load.Begun)
	if err := victim.kill(); err != nil {
		return err
	}
	for dead := time.Duration(0); dead < k.part || k.waits() && dead < killBack; {
		if err := idle(ctx, time.Millisecond); err != nil {
			return err
		}
		if k.ejected == 0 && k.pool.Ready() == 1 {
			k.ejected = time.Since(k.load.Begun)
		}
		dead = time.Since(k.load.Begun) - k.killed
	}
	k.most = k.load.Most()
	again, err := k.serve(ctx, addr)
	if err != nil {
		return err
	}
	k.servers[1] = again
	if err := k.allReady(ctx); err != nil {
		return err
	}
	return idle(ctx, k.part)
}

// waits reports whether the dead server is still to be ejected, if that can be known.
func (k *killing) waits() bool { return k.ejected == 0 && k.pool.Ready() != -1 }

// turn sums up.
func (k *killing) turn() report.Turn {
	ends := k.load.Ends()
	until := ends[len(ends)-1].At
	lost, good := 0, uint64(0)
	for _, e := range ends {
		switch {
		case e.Err == nil:
			good++
		case !k.pool.NotRun(e.Err):
			lost++
		}
	}
	one := killRate / float64(len(k.servers)) * k.window.Seconds()
	t := report.Turn{Run: report.Run{Bench: "kill", Peer: k.peer.Name, Version: version(k.peer),
		Transport: k.peer.Transport, Conns: 1, Duration: until.Seconds(), Rpcs: int64(good)}}
	t.Lowest = float64(load.Lowest(ends, 0, until, k.window)) / one
	t.Lost, t.Excess = float64(lost), float64(max(0, lost-k.most))
	if k.ejected > 0 {
		t.Ejected = float64((k.ejected - k.killed).Microseconds())
	}
	return t
}
