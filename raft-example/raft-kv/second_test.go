package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/kv"
)

// TestSecondStart: a second process on a replica's folder ends by itself and says why, at another
// address and at the same one. The first serves on, and all that it acknowledged is there after it
// was killed.
func TestSecondStart(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	addrs, err := freeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	net := netFlags{Transport: "udp", Cluster: 5}
	f, err := newFleet(net, 1, dir, testTick, addrs)
	if err == nil {
		err = f.startAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	first := f.children[0]
	t.Cleanup(first.stop)
	acked := 0
	put := func(addr string, n int) {
		t.Helper()
		cf := clientFlags{netFlags: net, Servers: addr, Timeout: 30 * time.Second}
		c, err := cf.dial()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for ; n > 0; n-- {
			value, _ := kv.MakeValue(fmt.Sprint(acked))
			if _, err := c.Do(ctx, kv.Command{Op: kv.Put, Key: numbered(acked), Value: value}); err != nil {
				t.Fatalf("put %d: %v", acked, err)
			}
			acked++
		}
	}
	put(first.addr, 20)
	for addr, want := range map[string][]string{
		addrs[1]:   {first.dir, fmt.Sprintf("process %d ", first.cmd.Process.Pid), "another folder"},
		first.addr: {first.addr, "another --addr"},
	} {
		g, err := newFleet(net, 1, dir, testTick, []string{addr})
		if err != nil {
			t.Fatal(err)
		}
		err = g.startAll()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("a second start at %s: %v does not say %q", addr, err, w)
			}
		}
		put(first.addr, 20)
		if err == nil { // then it becomes leader, and says so in the log
			cf := clientFlags{netFlags: net, Servers: addr, Timeout: 30 * time.Second}
			if _, err := leaderOf(ctx, cf, []string{addr}); err != nil {
				t.Error(err)
			}
			g.children[0].stop()
		}
	}
	put(first.addr, 20)
	if err := first.kill(); err != nil {
		t.Fatal(err)
	}
	if err := f.start(first); err != nil { // the kernel has given the lock back
		t.Fatal(err)
	}
	put(first.addr, 1) // a lone replica's reads are of its new term after a write
	cf := clientFlags{netFlags: net, Servers: first.addr, Timeout: 30 * time.Second}
	c, err := cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range acked {
		a, err := c.Do(ctx, kv.Command{Op: kv.Get, Key: numbered(i)})
		if err != nil || a.Value.String() != fmt.Sprint(i) {
			t.Errorf("key %d: %q, %v", i, a.Value, err)
		}
	}
}

func numbered(i int) kv.Key {
	k, _ := kv.MakeKey(fmt.Sprint("key ", i))
	return k
}
