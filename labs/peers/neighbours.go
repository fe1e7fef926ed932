package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync/atomic"
)

// neighbours starts a process on each of the cores that uses all of it. They run once it
// returns; stop ends them.
func neighbours(ctx context.Context, cores []int) (stop func() error, err error) {
	var list []*child
	stop = func() (err error) {
		for _, v := range list {
			err = errors.Join(err, v.stop())
		}
		return err
	}
	for _, n := range cores {
		v, err := startChild(ctx, core(n), "busy")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("a neighbour on core %d: %w", n, err), stop())
		}
		list = append(list, v)
	}
	return stop, nil
}

// setupBusy is a neighbour: it uses a core until its standard input ends.
func setupBusy(*flag.FlagSet) func(env) error {
	return func(e env) error {
		ended := inputEnds(e)
		fmt.Fprintln(e.out, "busy")
		var over atomic.Bool
		go func() {
			select {
			case <-ended:
			case <-e.ctx.Done():
			}
			over.Store(true)
		}()
		for !over.Load() {
		}
		return nil
	}
}
