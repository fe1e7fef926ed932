package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

var upgradeFor = flag.Duration("upgrade.for", 0,
	"how long TestUpgrade goes up and down between versions; without it the test is left out")

// formatZero is the last commit whose programs say nothing of their formats.
const formatZero = "4085675"

// oldProgram builds raft-kv of formatZero from the repository's own history.
func oldProgram(t *testing.T) string {
	t.Helper()
	run := func(dir, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(string(out)), err
	}
	dir := t.TempDir()
	tree, exe := filepath.Join(dir, "tree.tar"), filepath.Join(dir, "raft-kv-old")
	root, err := run(".", "git", "rev-parse", "--show-toplevel")
	if err == nil {
		_, err = run(root, "git", "archive", "-o", tree, formatZero)
	}
	if err != nil && os.Getenv("CI") != "true" {
		t.Skipf("the history of this tree has no %s: %v", formatZero, err)
	}
	if err == nil {
		_, err = run(dir, "tar", "xf", tree)
	}
	if err == nil {
		_, err = run(filepath.Join(dir, "raft-example"), "go", "build", "-buildvcs=false", "-o", exe,
			"./raft-kv")
	}
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// rolling is a durable cluster whose members run one program or the other, with clients.
type rolling struct {
	t        *testing.T
	ctx      context.Context
	f        *fleet
	cf       clientFlags
	traffic  *traffic
	restarts int
}

// TestUpgrade: three processes of formatZero go over to the program of today one at a time, under
// load, back to the old one, and over again. The version can be raised when all are of today, and
// then the old program refuses the folder. No call fails, and the history is linearizable.
func TestUpgrade(t *testing.T) {
	if *upgradeFor == 0 {
		t.Skip("make raft-upgrade runs it")
	}
	old := oldProgram(t)
	ctx, cancel := context.WithTimeout(t.Context(), *upgradeFor+2*time.Minute)
	defer cancel()
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := newFleet(netFlags{Transport: "udp", Cluster: 5}, 3, t.TempDir(), testTick, addrs)
	if err != nil {
		t.Fatal(err)
	}
	today := f.exe
	f.exe = old
	if err := f.startAll(); err != nil {
		t.Fatal(err)
	}
	r := &rolling{t: t, ctx: ctx, f: f, traffic: &traffic{keys: 6, wait: 5 * time.Second,
		pause: time.Millisecond}, cf: clientFlags{netFlags: f.net, Timeout: 10 * time.Second,
		Servers: strings.Join(addrs, ",")}}
	defer func() { r.check(f.stopAll()) }()
	r.check(r.traffic.start(ctx, r.cf, 4))
	defer r.traffic.stop()
	rounds := 0
	for end := time.Now().Add(*upgradeFor); rounds == 0 || time.Now().Before(end); rounds++ {
		r.roll(today, true)
		r.roll(old, false)
	}
	r.roll(today, true)
	if already, err := r.upgrade(); already || err != nil {
		t.Fatal(already, err)
	}
	r.awaitVersion(kv.Format)
	r.refused(old, today)
	r.roll(today, false)
	r.awaitVersion(kv.Format)
	r.traffic.stop()
	r.check(r.traffic.end(ctx, r.cf))
	ops, unknown := r.traffic.hist.Len()
	t.Logf("%d rounds, %d restarts; %d operations, %d of unknown outcome; no write for %v", rounds,
		r.restarts, ops, unknown, time.Duration(r.traffic.gap.Load()))
}

func (r *rolling) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// roll starts one member after the other in a program. Every other one is killed before.
func (r *rolling) roll(exe string, up bool) {
	r.t.Helper()
	r.f.exe = exe
	for _, c := range r.f.children {
		if up {
			if _, err := r.upgrade(); !errors.Is(err, node.ErrUpgrade) {
				r.t.Fatalf("an upgrade before replica %d is of today: %v", c.id, err)
			}
		}
		if r.restarts++; r.restarts%2 == 0 {
			r.check(c.kill())
		} else {
			c.stop()
		}
		r.check(r.f.start(c))
		r.check(r.traffic.more(r.ctx, 50))
		r.traffic.epoch.Add(1)
	}
}

// refused has the old program refuse the folder of each member, which then goes on as before.
func (r *rolling) refused(old, today string) {
	r.t.Helper()
	for _, c := range r.f.children {
		c.stop()
		r.f.exe = old
		err := r.f.start(c)
		if err == nil || !strings.Contains(err.Error(), "not a log of this version") {
			r.t.Fatalf("the old program with the folder of replica %d: %v", c.id, err)
		}
		r.f.exe = today
		r.check(r.f.start(c))
		r.check(r.traffic.more(r.ctx, 50))
	}
}

// upgrade is raft-kv upgrade.
func (r *rolling) upgrade() (already bool, err error) {
	err = r.cf.with(&cli.Env{Ctx: r.ctx}, func(ctx context.Context, b *client.Blocking) error {
		_, already, err = upgrade(ctx, b, strings.Split(r.cf.Servers, ","), r.f.net.Cluster, 0)
		return err
	})
	return already, err
}

// awaitVersion waits until all members have a version.
func (r *rolling) awaitVersion(want uint8) {
	r.t.Helper()
	b, err := r.cf.dial()
	r.check(err)
	defer b.Close()
	for {
		list, _ := statuses(r.ctx, b, strings.Split(r.cf.Servers, ","))
		have := 0
		for _, s := range list {
			if s.ID != 0 && s.Version == want {
				have++
			}
		}
		if have == len(r.f.children) {
			return
		}
		if r.ctx.Err() != nil {
			r.t.Fatalf("version %d: %d members have it", want, have)
		}
	}
}
