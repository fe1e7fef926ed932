package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestDenied: a member that starts with wrong keys, or without those of the role of members, says
// in its log and in its status that the others take nothing of it, and why; not that it may stop.
// It is heard when it has the right ones.
func TestDenied(t *testing.T) {
	clients := keyed(t, clientsKey)
	roles := roleFlags{PeerPSKFile: writeFile(t, membersKey), AdminPSKFile: writeFile(t, adminsKey)}
	o := operateWith(t, 3, t.TempDir(), clients, roles)
	away := o.f.children[o.kill(1)[0]-1]
	wrong := roles
	wrong.PeerPSKFile = writeFile(t, strings.Repeat("4", 32)+"\n")
	for what, c := range map[string]struct {
		roles roleFlags
		want  string
	}{
		"another key": {wrong, "the shared keys differ"},
		"no role":     {roleFlags{}, "the sender has another role than a member"},
	} {
		away.said.Reset()
		o.launch(away, clients, c.roles)
		o.await(func(string) bool { return strings.Contains(away.text(), c.want) })
		if text := away.text(); !strings.Contains(text, "a member takes nothing of this replica") ||
			strings.Contains(text, "may stop") {
			t.Errorf("%s: it says %s", what, text)
		}
		o.await(func(status string) bool {
			return strings.Contains(status, fmt.Sprintf(" takes nothing of %d: ", away.id)) &&
				strings.Contains(status, c.want) && !strings.Contains(status, "may stop")
		})
		away.stop()
	}
	o.launch(away, clients, roles)
	o.want("put after x", cli.Done, "ok\n")
	o.await(func(status string) bool {
		return strings.Count(status, "Follower") == 2 && !strings.Contains(status, "takes nothing")
	})
}

// launch starts a replica that has been there before.
func (o *operator) launch(c *child, sec secure.Flags, roles roleFlags) {
	o.t.Helper()
	var peers []string
	for _, p := range o.f.children {
		peers = append(peers, fmt.Sprintf("%d=%s", p.id, p.addr))
	}
	args := slices.Concat([]string{"server", "--child", "--json", fmt.Sprint("--id=", c.id),
		"--addr=" + c.addr, "--cluster=5", fmt.Sprint("--tick=", testTick), "--dir=" + c.dir,
		"--peers=" + strings.Join(peers, ",")}, sec.Args(), roles.args())
	if err := c.launch(exec.Command(o.f.exe, args...), (*exec.Cmd).Start); err != nil {
		o.t.Fatal(err)
	}
}

// TestPortOfPeers: a replica that listens at another port than --peers has for it says so.
func TestPortOfPeers(t *testing.T) {
	addrs, err := freeAddrs(2)
	if err != nil {
		t.Fatal(err)
	}
	o := operate(t, 1, "")
	for peers, want := range map[string]bool{addrs[0]: true, addrs[1]: false} {
		c := &child{id: 1, addr: addrs[1]}
		args := []string{"server", "--child", "--json", "--id=1", "--addr=" + c.addr, "--cluster=6",
			"--peers=1=" + peers}
		if err := c.launch(exec.Command(o.f.exe, args...), (*exec.Cmd).Start); err != nil {
			t.Fatal(err)
		}
		c.stop()
		if got := strings.Contains(c.text(), "another port"); got != want {
			t.Errorf("--peers=1=%s --addr=%s: %s", peers, c.addr, c.text())
		}
	}
}

// TestRetimed: the tick that the command prints is what it has set, although the leader that it
// asks does not know of it yet.
func TestRetimed(t *testing.T) {
	old, now := report{}, report{}
	for _, r := range []*report{&old, &now} {
		r.Status.ID, r.Status.Term, r.Status.State = 1, 1, "StateLeader"
		r.Timing.Tick, r.Timing.Lease, r.Timing.Agreed = 20*time.Millisecond, 0, true
	}
	now.Timing.Tick = 30 * time.Millisecond
	for what, statuses := range map[string][]report{"late": {old, old, now}, "at once": {now}} {
		addr, _ := startAdmins(t, &admins{answers: []*kv.Answer{{Status: kv.OK}}, statuses: statuses})
		status, out, errOut := runCommand(t, "tick", "30ms", "--servers="+addr)
		if status != cli.Done || !strings.Contains(out, "the tick is 30ms") {
			t.Errorf("%s: %d, %q, %q", what, status, out, errOut)
		}
	}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	left := 3
	addr, b := startAdmins(t, &admins{statuses: []report{old}, asked: func() {
		if left--; left == 0 {
			cancel()
		}
	}})
	_, err := retimed(ctx, b, []string{addr}, replica.Timing{Tick: now.Timing.Tick, Lease: -1})
	if err == nil || !strings.Contains(err.Error(), "the change is done, but the tick is 20ms") {
		t.Errorf("another change: %v", err)
	}
}
