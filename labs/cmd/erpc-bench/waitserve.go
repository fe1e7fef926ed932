package main

import (
	"bufio"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// serve is the server process. It prints its addresses, then its CPU time for each line that
// it reads, until its input ends.
func (c *waitingCmd) serve(e *cli.Env) error {
	if !slices.Contains(waitingModes, c.Serve) {
		return cli.Usagef("--serve %q: want one of %v", c.Serve, waitingModes)
	}
	cfg := erpc.Config{LockThread: true}
	switch c.Serve {
	case "BP", "BPTS", "BPEV":
		cfg.Wait = erpc.WaitSpin
	case "EVENT":
		cfg.Wait = erpc.WaitSleep
	}
	s, err := erpc.NewServer(cfg)
	if err != nil {
		return err
	}
	handler := func(h erpc.ReqHandle) { _ = h.RespondBytes(h.Data()) }
	if c.Serve == "BPEV" {
		w := &bpevWorker{jobs: make(chan bpevJob, 4*mostWaiting), spinFor: c.SpinFor,
			wake: make(chan struct{}, 1)}
		go w.run()
		handler = w.take
	}
	if err := s.HandleInline(typeWaiting, handler); err != nil {
		return err
	}
	for range c.Loops {
		tr, err := udp.Listen("127.0.0.1:0", udp.Config{})
		if err != nil {
			return errors.Join(err, s.Close())
		}
		fmt.Fprint(e.Out, tr.LocalAddr(), " ")
		go func() { _ = s.Serve(tr) }()
	}
	fmt.Fprintln(e.Out)
	for in := bufio.NewScanner(e.In); in.Scan(); {
		fmt.Fprintln(e.Out, int64(cli.ProcessCPU()))
	}
	return s.Close()
}

// bpevWorker answers BPEV's requests. It spins on its queue, then sleeps until a poller wakes it.
type bpevWorker struct {
	jobs    chan bpevJob
	spinFor time.Duration
	asleep  atomic.Bool
	wake    chan struct{}
}

// bpevJob is a request. Its handle belongs to the loop's thread.
type bpevJob struct {
	erpc.ReqHandle
	rpc *erpc.Rpc
}

// take is the handler in the poller's loop. A full queue means more requests than there
// are connections, each with one; such a request is answered here.
func (w *bpevWorker) take(h erpc.ReqHandle) {
	select {
	case w.jobs <- bpevJob{h, h.Rpc()}:
	default:
		_ = h.RespondBytes(h.Data())
		return
	}
	if w.asleep.Load() && w.asleep.Swap(false) {
		w.wake <- struct{}{}
	}
}

func (w *bpevWorker) run() {
	runtime.LockOSThread()
	since := monotime.Now()
	for {
		select {
		case j := <-w.jobs:
			_ = j.rpc.Post(func(*erpc.Rpc) { _ = j.RespondBytes(j.Data()) })
			since = monotime.Now()
			continue
		default:
		}
		if monotime.Now().Sub(since) < w.spinFor {
			continue
		}
		w.asleep.Store(true)
		if len(w.jobs) > 0 && w.asleep.Swap(false) {
			continue // a poller that put it there before saw the worker awake
		}
		<-w.wake
		since = monotime.Now()
	}
}
