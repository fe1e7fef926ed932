package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// replicas are three durable replicas in one host, each with a file system of its own.
type replicas struct {
	t       *trial
	servers string
	running [3]*exec.Cmd
}

func (r *replicas) addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", 33001+i) }

func (r *replicas) dir(i int) string { return filepath.Join(r.t.dir, fmt.Sprint("disk", i)) }

// replicated starts them on file systems that mount makes: a line of the shell with the folder.
func (t *trial) replicated(mount string) *replicas {
	r := &replicas{t: t}
	r.servers = strings.Join([]string{r.addr(0), r.addr(1), r.addr(2)}, ",")
	for i := range r.running {
		t.must(os.Mkdir(r.dir(i), 0o700))
		t.must(t.client.sh(mount, r.dir(i)))
		r.start(i)
	}
	if err := r.put("first", 10*time.Second); err != nil {
		t.must(err)
	}
	return r
}

func (r *replicas) start(i int) {
	var peers []string
	for k := range r.running {
		peers = append(peers, fmt.Sprintf("%d=%s", k+1, r.addr(k)))
	}
	c := r.t.client.cmd(r.t.command("raft-kv"), "server", "--id", fmt.Sprint(i+1), "--addr", r.addr(i),
		"--peers", strings.Join(peers, ","), "--dir", filepath.Join(r.dir(i), "log"))
	f, err := os.OpenFile(r.log(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	r.t.must(err)
	defer f.Close()
	c.Stderr = f
	r.t.must(c.Start())
	r.running[i] = c
}

func (r *replicas) log(i int) string { return filepath.Join(r.t.dir, fmt.Sprint("replica", i)) }

func (r *replicas) close() {
	for _, c := range r.running {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func (r *replicas) put(value string, timeout time.Duration) error {
	_, err := r.t.client.run(r.t.command("raft-kv"), "put", "k", value, "--servers", r.servers,
		"--timeout", timeout.String())
	return err
}

// leader is the number of the replica that leads, from 0.
func (r *replicas) leader() int {
	out, err := r.t.client.run(r.t.command("raft-kv"), "status", "--servers", r.servers, "--json")
	r.t.must(err)
	var all struct {
		Replicas []struct {
			ID    int    `json:"id"`
			Term  int    `json:"term"`
			State string `json:"state"`
		} `json:"replicas"`
	}
	r.t.must(json.Unmarshal([]byte(out), &all))
	leader, term := -1, -1
	for _, x := range all.Replicas {
		if x.State == "StateLeader" && x.Term > term {
			leader, term = x.ID-1, x.Term
		}
	}
	if leader >= 0 {
		return leader
	}
	r.t.must(fmt.Errorf("nobody leads: %s", out))
	return 0
}

// after measures how long a write takes at first, and wants the second to be quick.
func (r *replicas) after(bar time.Duration) {
	begun := time.Now()
	err := r.put("second", 20*time.Second)
	took := time.Since(begun)
	if err != nil {
		r.t.notes = append(r.t.notes, err.Error())
		took = 0
	}
	r.t.within("write again", took, bar)
}

// fullDisk fills the leader's disk: another one leads, and with room again it comes back.
func fullDisk(t *trial) {
	r := t.replicated("mount -t tmpfs -o size=48m disk %s")
	defer r.close()
	was := r.leader()
	t.must(t.client.sh("dd if=/dev/zero of=%s/fill bs=64k 2>/dev/null || true", r.dir(was)))
	full := 0
	for i := 0; i < 300 && full == 0; i++ { // until its log needs a new block
		if err := r.put(fmt.Sprint(i), 20*time.Second); err != nil {
			t.notes = append(t.notes, err.Error())
			break
		}
		said, err := os.ReadFile(r.log(was))
		t.must(err)
		full = strings.Count(string(said), "no space left")
	}
	t.atLeast("errors that name the cause", float64(full), 1, "")
	r.after(5 * time.Second)
	t.must(t.client.sh("rm %s/fill", r.dir(was)))
	_ = r.running[was].Process.Kill()
	_ = r.running[was].Wait()
	r.start(was)
	r.after(5 * time.Second)
}

// frozenDisk freezes the leader's disk, so that its writes hang: another one must lead. The bar is
// that of two election timeouts and 300 ms.
func frozenDisk(t *trial) {
	r := t.replicated("truncate -s 40M %[1]s.img; mkfs.ext4 -q %[1]s.img;" +
		" mount -o loop %[1]s.img %[1]s")
	defer r.close()
	was := r.leader()
	t.must(t.client.sh("fsfreeze -f %s", r.dir(was)))
	defer func() { _ = t.client.sh("fsfreeze -u %s", r.dir(was)) }()
	r.after(2*200*time.Millisecond + 300*time.Millisecond)
}

var diskCases = []testCase{
	{name: "disk-full", group: "disk", rows: "30", what: "the leader's disk is full, 3 replicas",
		try: fullDisk},
	{name: "disk-frozen", group: "disk", rows: "3", what: "fsfreeze of the leader's, 3 replicas",
		try: frozenDisk},
}
