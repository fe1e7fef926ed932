package main

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/security/sectest"
)

var failovers = flag.Int("failovers", 0,
	"how often TestFailover kills the leader, by kind of packets; without it the test is left out")

// TestFailover kills the leader under load, again and again, with default settings, and says for
// how long no write was done: with plain packets, shared keys, and certificates. Histories are
// linearizable. The figures depend on the machine, and have no bound here.
func TestFailover(t *testing.T) {
	if *failovers == 0 {
		t.Skip("a measurement: -failovers says how often the leader is killed")
	}
	ca := sectest.NewCA("ours")
	for _, c := range []struct {
		name  string
		flags secure.Flags
	}{
		{"plain", secure.Flags{}}, {"PSK", keyed(t, clientsKey)},
		{"TLS", certified(t, ca, "spiffe://store/member/1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			gaps := killLeaders(t, c.flags)
			slices.Sort(gaps)
			t.Logf("%d leaders killed: no write for p50 %v, p90 %v, at most %v", len(gaps),
				gaps[len(gaps)/2].Round(time.Millisecond), gaps[len(gaps)*9/10].Round(time.Millisecond),
				gaps[len(gaps)-1].Round(time.Millisecond))
		})
	}
}

// killLeaders returns the longest times without a write.
func killLeaders(t *testing.T, flags secure.Flags) (gaps []time.Duration) {
	t.Helper()
	most := time.Minute + time.Duration(*failovers)*5*time.Second
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	addrs, err := freeAddrs(3)
	check(err)
	net := netFlags{Transport: "udp", Cluster: 5, Flags: flags}
	f, err := newFleet(net, 3, t.TempDir(), 20*time.Millisecond, addrs)
	check(err)
	cf := clientFlags{netFlags: net, Servers: strings.Join(addrs, ","), Timeout: 10 * time.Second}
	check(f.startAll())
	defer func() { check(f.stopAll()) }()
	load := &traffic{keys: 20, wait: 10 * time.Second, pause: time.Millisecond}
	check(load.start(ctx, cf, 4))
	defer load.stop()
	for range *failovers {
		check(load.more(ctx, 200))
		old, err := leaderOf(ctx, cf, addrs)
		check(err)
		load.gap.Store(0)
		check(f.children[old.ID-1].kill())
		check(load.more(ctx, 50))
		gaps = append(gaps, time.Duration(load.gap.Load()))
		check(f.start(f.children[old.ID-1]))
		load.epoch.Add(1)
	}
	load.stop()
	check(load.end(ctx, cf))
	return gaps
}
