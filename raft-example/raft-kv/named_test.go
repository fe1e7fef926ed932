package main

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/client"
)

// TestNamedMembers: members that know each other by names take each other for members by where the
// names lead, also after they have started again.
func TestNamedMembers(t *testing.T) {
	ctx := testContext(t)
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range addrs {
		addrs[i] = strings.Replace(a, "127.0.0.1", "localhost", 1)
	}
	f, err := newFleet(netFlags{Transport: "udp", Cluster: 5}, 3, t.TempDir(), testTick, addrs)
	if err == nil {
		err = f.startAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.stopAll() })
	cf := clientFlags{netFlags: f.net, Servers: strings.Join(addrs, ","), Timeout: 30 * time.Second}
	b, err := cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, c := range f.children {
		if err := b.Put(ctx, "key", []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		awaitNamed(t, b, f)
		if err := c.kill(); err != nil {
			t.Fatal(err)
		}
		if err := f.start(c); err != nil {
			t.Fatal(err)
		}
	}
	awaitNamed(t, b, f)
}

// awaitNamed waits until all members have the same log.
func awaitNamed(t *testing.T, b *client.Blocking, f *fleet) {
	t.Helper()
	ctx := testContext(t)
	for {
		list, _ := statuses(ctx, b, f.addrs())
		same := 0
		for _, s := range list {
			if s.ID != 0 && s.Applied == list[0].Applied && s.Keys == 1 &&
				strings.HasPrefix(s.Members[s.ID], "localhost:") {
				same++
			}
		}
		if same == len(f.children) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%+v", list)
		}
	}
}
