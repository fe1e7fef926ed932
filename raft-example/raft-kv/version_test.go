package main

import (
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/raft-example/node"
)

// TestUpgradeCommand: the version is raised once all members run, is shown, and is there after all
// have started again. A member that is away, and a version that nobody knows, are named.
func TestUpgradeCommand(t *testing.T) {
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFleet(netFlags{Transport: "udp", Cluster: 5}, 3, t.TempDir(), testTick, addrs)
	if err == nil {
		err = f.startAll()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.stopAll() })
	say := func(want string, args ...string) {
		t.Helper()
		args = append(args, "--servers="+strings.Join(addrs, ","), "--cluster=5", "--timeout=30s")
		for end := time.Now().Add(30 * time.Second); ; {
			_, out, errOut := runCommand(t, args...)
			if strings.Contains(out+errOut, want) {
				return
			}
			if time.Now().After(end) { // a leader may not have met all members yet
				t.Fatalf("%v: %s%s, want %q", args, out, errOut, want)
			}
		}
	}
	say("0 of 0 to 1", "status")
	last := f.children[2]
	if err := last.kill(); err != nil {
		t.Fatal(err)
	}
	say(node.ErrUpgrade.Error()+": replica 3 does not answer", "upgrade")
	if err := f.start(last); err != nil {
		t.Fatal(err)
	}
	say("knows formats up to 1", "upgrade", "--to=9")
	say("the cluster's version is 1", "upgrade")
	say("the cluster's version is 1 already", "upgrade")
	say(`{"version":1,"already":true}`, "upgrade", "--json")
	for _, c := range f.children {
		c.stop()
	}
	if err := f.startAll(); err != nil {
		t.Fatal(err)
	}
	say("ok", "put", "key", "value")
	say("1 of 0 to 1", "status")
}

// TestVersionText: what says nothing of its formats is of format 0.
func TestVersionText(t *testing.T) {
	s := report{Formats: &node.Formats{Min: 1, Max: 3}}
	s.Version = 2
	if got := versionText(&s); got != "2 of 1 to 3" {
		t.Error(got)
	}
	if got := versionText(&report{}); got != "0 of 0" {
		t.Error(got)
	}
}
