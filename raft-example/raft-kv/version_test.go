package main

import (
	"strings"
	"testing"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// TestUpgradeCommand: the version is raised once all members run, is shown, and is there after all
// have started again. A member that is away, and a version that nobody knows, are named.
func TestUpgradeCommand(t *testing.T) {
	o := operate(t, 3, t.TempDir())
	say := func(want, line string) {
		t.Helper()
		for ctx := testContext(t); ; { // a leader may not have met all members yet
			_, text := o.run(line)
			if strings.Contains(text, want) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %s, want %q", line, text, want)
			}
		}
	}
	say("0 of 0 to 2", "status")
	say("the version is 0, 2 is needed: raft-kv upgrade first", "tick 30ms")
	last := o.f.children[2]
	if err := last.kill(); err != nil {
		t.Fatal(err)
	}
	say(node.ErrUpgrade.Error()+": replica 3 does not answer", "upgrade")
	if err := o.f.start(last); err != nil {
		t.Fatal(err)
	}
	say("raft-kv: "+errNoVersion.Error()+": 9, and replica ", "upgrade --to=9")
	say(" knows 0 to 2; start all members in a newer one first\n", "upgrade --to=9")
	say("the cluster's version is 2", "upgrade")
	say("the cluster's version is 2 already", "upgrade")
	say(`{"version":2,"already":true}`, "upgrade --json")
	o.want("upgrade --to=1", cli.Failed,
		"raft-kv: a cluster's version only rises: 1 is asked for, and it is 2\n")
	say("the tick is 30ms, the lease 150ms", "tick 30ms --lease 150ms")
	say("the tick is 40ms, the lease 200ms", "tick 40ms")
	say("the tick is 40ms, the lease 200ms, by the log", "status")
	say("want 1ms to 500ms", "tick 1us")
	say("tick -5ms: want 1ms to 500ms", "tick -5ms")
	say("at most 9 ticks, 360ms", "tick 40ms --lease 361ms")
	for _, c := range o.f.children {
		c.stop()
	}
	if err := o.f.startAll(); err != nil {
		t.Fatal(err)
	}
	say("ok", "put key value")
	say("2 of 0 to 2", "status")
	say("the tick is 40ms, the lease 200ms, by the log", "status")
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
