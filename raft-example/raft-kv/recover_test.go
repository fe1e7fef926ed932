package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/kit/cli"
	"github.com/userspace-rpc/erpc/raft-example/client"
)

// founded is a cluster whose first replica a command has made.
type founded struct {
	Cluster, Index uint64
	first          *child
	*operator
}

// found runs a command that makes the folder of a new cluster's first replica, and starts that.
func (o *operator) found(id uint64, addr, line string) *founded {
	o.t.Helper()
	n := &founded{first: &child{id: id, addr: addr, dir: filepath.Join(o.t.TempDir(), "new")}}
	line += fmt.Sprintf(" --id %d --addr %s --dir %s --json", id, n.first.addr, n.first.dir)
	status, out, errOut := runCommand(o.t, strings.Fields(line)...)
	if status != cli.Done || json.Unmarshal([]byte(out), n) != nil {
		o.t.Fatalf("%s: %d %q %q", line, status, out, errOut)
	}
	n.operator = &operator{t: o.t, flags: []string{"--servers=" + n.first.addr,
		"--cluster=" + strconv.FormatUint(n.Cluster, 10), "--timeout=60s"}}
	n.cf = o.cf
	n.cf.Servers, n.cf.netFlags.Cluster = n.first.addr, n.Cluster
	n.start()
	return n
}

func (n *founded) start() {
	n.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		n.t.Fatal(err)
	}
	args := []string{"server", "--child", "--json", fmt.Sprint("--id=", n.first.id),
		"--addr=" + n.first.addr, fmt.Sprint("--cluster=", n.Cluster), "--dir=" + n.first.dir,
		fmt.Sprintf("--peers=%d=%s", n.first.id, n.first.addr), fmt.Sprint("--tick=", testTick)}
	if err := n.first.launch(exec.Command(exe, args...), (*exec.Cmd).Start); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.first.stop)
}

// fill writes keys of a group.
func (o *operator) fill(group string, keys int) {
	o.t.Helper()
	c, err := o.cf.dial()
	if err != nil {
		o.t.Fatal(err)
	}
	defer c.Close()
	value := bytes.Repeat([]byte{'v'}, 60)
	for i := range keys {
		if err := c.Put(testContext(o.t), fmt.Sprint(group, i), value); err != nil {
			o.t.Fatal(err)
		}
	}
}

// holds checks that all keys of a group are there, or none.
func (o *operator) holds(group string, keys int, want bool) {
	o.t.Helper()
	c, err := o.cf.dial()
	if err != nil {
		o.t.Fatal(err)
	}
	defer c.Close()
	for i := range keys {
		if err := has(o.t, c, fmt.Sprint(group, i), want); err != nil {
			o.t.Fatal(err)
		}
	}
}

func has(t *testing.T, c *client.Blocking, key string, want bool) error {
	_, found, err := c.Get(testContext(t), key)
	if err == nil && found != want {
		err = fmt.Errorf("%s: there %v, want %v", key, found, want)
	}
	return err
}

// TestRecover: two of three replicas are gone for good; the third one's folder is a cluster again,
// with all that was acknowledged. The members of before are refused by name when they come back.
func TestRecover(t *testing.T) {
	dir := t.TempDir()
	o := operate(t, 3, dir)
	o.fill("a", 200)
	last := o.leader()
	for _, c := range o.f.children {
		if err := c.kill(); err != nil {
			t.Fatal(err)
		}
	}
	survivor := o.f.children[last-1]
	n := o.found(last, survivor.addr, "recover "+survivor.dir+" --cluster 5")
	n.holds("a", 200, true)
	n.want("put more x", cli.Done, "ok\n")

	fresh := n.join(7, int(n.Cluster))
	n.want("member add 7 "+fresh.addr, cli.Done, "ok\n")

	status, out, errOut := runCommand(t, "put", "k", "v", "--servers="+n.first.addr, "--cluster=5")
	if status != cli.Failed || !strings.Contains(errOut, "wrong cluster id") {
		t.Error(status, out, errOut)
	}
	// One of before asks the survivor's address for its vote.
	if err := o.f.start(o.f.children[last%3]); err != nil {
		t.Fatal(err)
	}
	for ctx := testContext(t); !strings.Contains(n.first.text(), "wrong cluster id"); {
		select {
		case <-ctx.Done():
			t.Fatal(n.first.text())
		case <-time.After(10 * time.Millisecond):
		}
	}
	n.holds("a", 200, true)
}

// TestRecoverRefuses: folders that a command must not read or write.
func TestRecoverRefuses(t *testing.T) {
	dir := t.TempDir()
	o := operate(t, 1, dir)
	live := o.f.children[0].dir
	fresh := filepath.Join(t.TempDir(), "new")
	with := func(args string) string { return args + " --addr 127.0.0.1:1 --dir " + fresh }
	for _, tt := range []struct {
		args, want string
		status     int
	}{
		{with("recover " + live + " --id 1 --cluster 5"), "in use", cli.Failed},
		{with("recover " + dir + " --id 1 --cluster 5"), "has no log", cli.Failed},
		{with("recover " + live + " --id 0"), "numbered from 1", cli.Usage},
		{with("recover " + live + " --id 1 --cluster 5 --new-cluster 5"), "want another id", cli.Usage},
	} {
		status, _, errOut := runCommand(t, strings.Fields(tt.args)...)
		if status != tt.status || !strings.Contains(errOut, tt.want) {
			t.Errorf("%s: %d %q; want %d %q", tt.args, status, errOut, tt.status, tt.want)
		}
	}
	o.f.children[0].stop()
	for _, tt := range [][2]string{
		{with("recover " + live + " --id 1 --cluster 6"), "it is of replica 1 of cluster 5"},
		{with("recover " + live + " --id 2 --cluster 5"), "not replica 2 of cluster 5"},
		{"recover " + live + " --id 1 --cluster 5 --addr 127.0.0.1:1 --dir " + dir, "there already"},
	} {
		args, want := tt[0], tt[1]
		status, _, errOut := runCommand(t, strings.Fields(args)...)
		if status != cli.Failed || !strings.Contains(errOut, want) {
			t.Errorf("%s: %d %q; want %q", args, status, errOut, want)
		}
	}
	for _, path := range []string{fresh, fresh + ".new"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
}
