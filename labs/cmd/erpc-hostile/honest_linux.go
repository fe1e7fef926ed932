package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/transport/udp"
)

// inTime is the longest time that an honest client waits.
const inTime = time.Second

// dialAll lets honest clients dial a server, count times, each time from a new socket, and says how
// many have a session in time.
func dialAll(o *options) (string, error) {
	var (
		count = o.dials
		cfg   = erpc.Config{Wait: erpc.WaitSleep}

		mu   sync.Mutex
		took []time.Duration // of those that got through
		errs []error         // of all others
		wait sync.WaitGroup
		jobs = make(chan int)
	)
	o.keys.Apply(&cfg)
	if o.resume && cfg.TLS != nil {
		cfg.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	}
	if o.p256 && cfg.TLS != nil {
		cfg.TLS.CurvePreferences = []tls.CurveID{tls.CurveP256}
	}
	dial := func() (time.Duration, error) { return dialOnce(o.target, cfg, nil) }
	if o.bare {
		_, bare, err := bareConfig(o)
		if err != nil {
			return "", err
		}
		bare.ClientSessionCache = nil
		if o.resume {
			bare.ClientSessionCache = cfg.TLS.ClientSessionCache
		}
		dial = func() (time.Duration, error) {
			start := time.Now()
			var err error
			if o.session {
				_, err = dialSession(o.target, bare, o.workers)
			} else {
				_, err = dialBare(o.target, bare, o.bareKeys)
			}
			return time.Since(start), err
		}
	}
	for range max(o.dialers, 1) {
		wait.Go(func() {
			for range jobs {
				d, err := dial()
				mu.Lock()
				if took = append(took, d); err != nil {
					took, errs = took[:len(took)-1], append(errs, err)
				}
				mu.Unlock()
			}
		})
	}
	for i := range count {
		jobs <- i
	}
	close(jobs)
	wait.Wait()
	if len(took) == 0 {
		return "", fmt.Errorf("no dial of %d got through: %w", count, errors.Join(errs...))
	}
	slices.Sort(took)
	late, _ := slices.BinarySearch(took, inTime)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("%d of %d dials within %v, median %.1f ms, slowest %.1f ms, %d failed",
		late, count, inTime, ms(took[len(took)/2]), ms(took[len(took)-1]), len(errs)), nil
}

// dialOnce dials once, and calls use if it is not nil. It returns how long that took.
func dialOnce(
	target string, cfg erpc.Config, use func(context.Context, *erpc.Client) error,
) (d time.Duration, err error) {
	conn, err := udp.Listen("127.0.0.1:0", udp.Config{})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*inTime)
	defer cancel()
	start := time.Now()
	client, err := erpc.Dial(ctx, conn, target, cfg)
	if err != nil {
		return 0, err // the connection is closed
	}
	if use != nil {
		err = use(ctx, client)
	}
	d = time.Since(start)
	return d, errors.Join(err, client.Close())
}
