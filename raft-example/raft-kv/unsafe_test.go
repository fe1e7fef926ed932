package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/kit/cli/secure"
	"github.com/userspace-rpc/erpc/security/sectest"
)

// operator runs commands against a cluster of processes.
type operator struct {
	t     *testing.T
	f     *fleet
	cf    clientFlags
	flags []string
}

// operate starts a cluster of n processes, durable ones if dir is given.
func operate(t *testing.T, n int, dir string) *operator {
	t.Helper()
	return operateWith(t, n, dir, secure.Flags{}, roleFlags{})
}

// operateWith likewise, with flags of security for members and clients, and roles.
func operateWith(t *testing.T, n int, dir string, sec secure.Flags, roles roleFlags) *operator {
	t.Helper()
	addrs, err := freeAddrs(n)
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{t: t}
	o.cf = clientFlags{netFlags: netFlags{Transport: "udp", Cluster: 5, Flags: sec},
		Servers: strings.Join(addrs, ","), Timeout: 60 * time.Second}
	if o.f, err = newFleet(o.cf.netFlags, n, dir, testTick, addrs); err != nil {
		t.Fatal(err)
	}
	o.flags = []string{"--servers=" + o.cf.Servers, "--cluster=5", "--timeout=60s"}
	o.f.roles = roles
	o.flags = append(o.flags, sec.Args()...)
	startFleet(t, o.f, &o.cf)
	o.want("put before x", cli.Done, "ok\n")
	return o
}

// run runs a command line.
func (o *operator) run(line string) (status int, text string) {
	o.t.Helper()
	args := strings.Fields(line)
	status, out, errOut := runCommand(o.t, slices.Concat(args[:1], o.flags, args[1:])...)
	return status, out + errOut
}

// want runs a command that is to end with a status, and to say all of texts.
func (o *operator) want(line string, status int, texts ...string) {
	o.t.Helper()
	got, text := o.run(line)
	for _, want := range texts {
		if got != status || !strings.Contains(text, want) {
			o.t.Fatalf("raft-kv %s: status %d, %q; want %d, %q", line, got, text, status, want)
		}
	}
}

// leader returns the leader's number.
func (o *operator) leader() uint64 {
	o.t.Helper()
	r, err := leaderOf(testContext(o.t), o.cf, o.f.addrs())
	if err != nil {
		o.t.Fatal(err)
	}
	return r.ID
}

// join starts a replica that waits to be added, or one with other flags.
func (o *operator) join(id uint64, cluster int, flags ...string) *child {
	o.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		o.t.Fatal(err)
	}
	addrs, err := freeAddrs(1)
	if err != nil {
		o.t.Fatal(err)
	}
	c := &child{id: id, addr: addrs[0]}
	if len(flags) == 0 {
		flags = []string{"--join"}
	}
	args := []string{"server", "--child", "--json", fmt.Sprint("--id=", id), "--addr=" + c.addr,
		fmt.Sprint("--cluster=", cluster), fmt.Sprint("--tick=", testTick)}
	if err := c.launch(exec.Command(exe, append(args, flags...)...), (*exec.Cmd).Start); err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(c.stop)
	return c
}

// kill ends n replicas that do not lead, and returns their numbers.
func (o *operator) kill(n int) (dead []uint64) {
	o.t.Helper()
	leader := o.leader()
	for _, c := range o.f.children {
		if c.id != leader && len(dead) < n {
			if err := c.kill(); err != nil {
				o.t.Fatal(err)
			}
			dead = append(dead, c.id)
		}
	}
	return dead
}

// TestUnsafeAdds: a member is added only where it answers under its number, in this cluster. A
// refused change changes nothing.
func TestUnsafeAdds(t *testing.T) {
	o := operate(t, 3, "")
	nobody, err := freeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	foreign := o.join(4, 6)
	o.want("member add 2 "+nobody[0], cli.Failed, "refused: replica 2 does not answer at "+nobody[0])
	o.want("member add 2 "+o.f.addrs()[2], cli.Failed,
		o.f.addrs()[2]+" is replica 3, not 2")
	o.want("member learner 4 "+nobody[0], cli.Failed, "replica 4 does not answer")
	o.want("member add 4 "+foreign.addr, cli.Failed, foreign.addr+" is of cluster 6, not 5")
	o.want("member add 4 "+o.join(4, 5, "--join", "--lease=77ms").addr, cli.Failed,
		"does not go with this one", "77ms")
	moved := fmt.Sprintf("members 1=%s,2=%s,3=%s", o.f.addrs()[0], nobody[0], o.f.addrs()[2])
	o.want(moved, cli.Failed, "replica 2 does not answer at "+nobody[0])
	_, text := o.run("status")
	if strings.Contains(text, nobody[0]) || strings.Contains(text, "4=") {
		t.Error(text)
	}
	o.want("put after x", cli.Done, "ok\n")

	fresh := o.join(4, 5)
	o.want("member learner 4 "+fresh.addr, cli.Done, "ok\n")
	o.want("status", cli.Done, "4="+fresh.addr+" (learner)")
	o.want("member add 4 "+fresh.addr, cli.Done, "ok\n")
	o.want("member add 5 "+o.join(5, 5).addr, cli.Done, "ok\n")
	o.await(func(status string) bool { // the others apply it later
		return strings.Count(status, "5=") >= 3 && !strings.Contains(status, "(")
	})
}

// TestUnsafeDemotion: a voter keeps its vote when it is added as a learner, also by force, unless
// the command says that it is to lose it.
func TestUnsafeDemotion(t *testing.T) {
	o := operate(t, 3, "")
	other := o.f.children[o.leader()%3]
	line := fmt.Sprintf("member learner %d %s", other.id, other.addr)
	for _, force := range []string{"", " --force"} {
		o.want(line+force, cli.Failed, fmt.Sprintf("replica %d has a vote", other.id), "--demote")
	}
	o.want(fmt.Sprintf("member remove %d --demote", other.id), cli.Usage, "--demote goes with learner")
	if _, text := o.run("status"); strings.Contains(text, "(learner)") {
		t.Error(text)
	}
	o.want(line+" --demote", cli.Done, fmt.Sprintf("ok: replica %d gets the log", other.id))
	o.want("status", cli.Done, other.addr+" (learner)")
	o.want(line, cli.Done, "ok: it was so already\n")
	o.want(fmt.Sprintf("member add %d %s", other.id, other.addr), cli.Done, "ok\n")
}

// TestUnsafeLogs: a replica that has lost its log, and one of a cluster of its own, are not added.
func TestUnsafeLogs(t *testing.T) {
	o := operate(t, 3, "")
	dead := o.kill(1)[0]
	wiped := o.join(dead, 5)
	o.want(fmt.Sprintf("member add %d %s", dead, wiped.addr), cli.Failed,
		fmt.Sprintf("replica %d at %s has lost the log that it had", dead, wiped.addr))
	o.want(fmt.Sprint("member remove ", dead), cli.Done, "ok\n")
	own := o.join(7, 5, "--peers=7=127.0.0.1:1")
	o.want("member add 7 "+own.addr, cli.Failed, "refuses this leader, start it with --join")
}

// TestUnsafeRole: with certificates of members one without is not added.
func TestUnsafeRole(t *testing.T) {
	ca := sectest.NewCA("ours")
	member := certified(t, ca, "spiffe://store/member/1")
	other := certified(t, ca, "spiffe://store/no/1")
	roles := roleFlags{PeerName: []string{"spiffe://store/member/*"}}
	o := operateWith(t, 3, "", member, roles)
	no := o.join(4, 5, append(other.Args(), "--join")...)
	o.want("member add 4 "+no.addr, cli.Failed, "has not the role of a member")
	yes := o.join(4, 5, append(append(member.Args(), roles.args()...), "--join")...)
	o.want("member add 4 "+yes.addr, cli.Done, "ok\n")
}

// TestUnsafeQuorum: with two of five voters dead no vote of a living one is taken away, and no
// voter added; when the dead are removed one is.
func TestUnsafeQuorum(t *testing.T) {
	o := operate(t, 5, "")
	dead := o.kill(2)
	leader := o.leader()
	for _, c := range o.f.children {
		if c.id != leader && !slices.Contains(dead, c.id) {
			o.want(fmt.Sprintf("member learner %d %s --demote", c.id, c.addr), cli.Failed,
				"refused: 2 of 4 voters would be there, want 3")
			o.want(fmt.Sprintf("member remove %d", c.id), cli.Failed, "2 of 4 voters would be there")
		}
	}
	fresh := o.join(6, 5)
	o.want("member add 6 "+fresh.addr, cli.Failed, "remove it before another one gets a vote")
	o.want("put between x", cli.Done, "ok\n")
	for _, id := range dead {
		o.want(fmt.Sprint("member remove ", id), cli.Done, "ok\n")
	}
	o.want("member add 6 "+fresh.addr, cli.Done, "ok\n")
	o.want("put after x", cli.Done, "ok\n")
}

// TestForce: an operator may change what the checks refuse, and is told what that risks.
func TestForce(t *testing.T) {
	o := operate(t, 3, "")
	nobody, err := freeAddrs(1)
	if err != nil {
		t.Fatal(err)
	}
	o.want("member add 4 "+nobody[0]+" --force", cli.Done, "ok\n", "only raft-kv recover helps")
	o.want("status", cli.Done, "4="+nobody[0])
	o.want("member lead 2 --force", cli.Usage, "--force goes with")
}

// TestLead: the command ends when the replica leads, or says why it does not.
func TestLead(t *testing.T) {
	o := operate(t, 3, "")
	for range 3 {
		next := o.leader()%3 + 1
		o.want(fmt.Sprint("member lead ", next), cli.Done, "ok\n")
		if got := o.leader(); got != next {
			t.Fatalf("%d leads, want %d", got, next)
		}
	}
	o.want(fmt.Sprint("member lead ", o.leader()), cli.Done, "it was so already")
	o.want("member lead 9", cli.Failed, "refused: replica 9 has no vote")
	dead := o.kill(1)[0]
	o.want(fmt.Sprint("member lead ", dead), cli.Failed,
		fmt.Sprintf("refused: replica %d does not answer", dead))
	o.want("put after x", cli.Done, "ok\n")
}

// TestRemovedSaysSo: a replica that was removed says so, in its log and its status: a leader, too,
// and one that was away.
func TestRemovedSaysSo(t *testing.T) {
	t.Run("follower", func(t *testing.T) {
		o := operate(t, 3, "")
		old := o.leader()%3 + 1
		o.want(fmt.Sprint("member remove ", old), cli.Done, "ok\n")
		o.awaitRemoved(old)
	})
	t.Run("leader, on disk", func(t *testing.T) {
		o := operate(t, 3, t.TempDir())
		old := o.leader()
		o.want(fmt.Sprint("member remove ", old), cli.Done, "ok\n")
		o.awaitRemoved(old)
	})
	t.Run("away", func(t *testing.T) {
		o := operate(t, 3, t.TempDir())
		old := o.kill(1)[0]
		o.want(fmt.Sprint("member remove ", old), cli.Done, "ok\n")
		if err := o.f.start(o.f.children[old-1]); err != nil {
			t.Fatal(err)
		}
		o.awaitRemoved(old)
	})
}

func (o *operator) awaitRemoved(old uint64) {
	o.t.Helper()
	want := fmt.Sprintf("replica %d is no member any more: it may stop", old)
	o.await(func(status string) bool {
		return strings.Contains(status, want) &&
			strings.Contains(o.f.children[old-1].text(), "no member any more")
	})
}

// await waits until the status is as it should be.
func (o *operator) await(is func(status string) bool) {
	o.t.Helper()
	ctx := testContext(o.t)
	for {
		_, text := o.run("status")
		if is(text) {
			return
		}
		if ctx.Err() != nil {
			o.t.Fatal(text)
		}
	}
}
