package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/snapshot"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// victim starts a server in a process of its own. The returned function kills it.
func victim(t *testing.T, args ...string) (addr string, kill func()) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"serve", "--json", "--child", "--addr=127.0.0.1:0"}, args...)
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childEnv...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the status is that of the kill
		_ = in.Close()
	})
	t.Cleanup(kill)
	var said ready
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Addr, kill
}

// TestKilledServer: a server that is killed in the middle of its work comes back with a snapshot of
// before, whole, and says that the rest is lost.
func TestKilledServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	addr, kill := victim(t, "--every=1ms", "--snapshot="+file)
	at := "--servers=" + addr
	put := func(i int) {
		t.Helper()
		args := []string{"put", fmt.Sprintf("key %09d", i), fmt.Sprint(i), at}
		if status, _, errOut := try(t, args...); status != cli.Done {
			t.Fatalf("put %d: status %d: %s", i, status, errOut)
		}
	}
	stored := 0
	for ; ; stored++ {
		put(stored)
		m, _, err := snapshot.Load(file)
		if err == nil && m.Len() > 3 {
			break
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err) // a file is in place when all of it is written
		}
	}
	kill()
	m, when, err := snapshot.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	addr, _ = serve(t, "--snapshot="+file)
	_, list, _ := try(t, "scan", "--count=1000000", "--servers="+addr)
	var want bytes.Buffer
	for i := range m.Len() { // a beginning of what was stored, in order
		fmt.Fprintf(&want, "%q %d\n", fmt.Sprintf("key %09d", i), i)
	}
	if list != want.String() || m.Len() > stored+1 {
		t.Errorf("%d stored, %d in the snapshot: %s", stored+1, m.Len(), list)
	}
	var errOut strings.Builder
	c := serveCmd{Snapshot: file}
	if _, err := c.load(&cli.Env{Err: &errOut}); err != nil ||
		!strings.Contains(errOut.String(), "is lost") ||
		!strings.Contains(errOut.String(), when.UTC().Format(time.RFC3339)) {
		t.Errorf("said %q, %v", errOut.String(), err)
	}
}

// TestKeeper: a snapshot is written when there is none, and after changes; a file that has all of
// the map stays as it is.
func TestKeeper(t *testing.T) {
	k := keeper{env: &cli.Env{Err: io.Discard}, file: filepath.Join(t.TempDir(), "index"),
		m: index.NewMap()}
	changes := uint64(0)
	k.changes = func() uint64 { return changes }
	var last os.FileInfo
	for i, step := range []struct{ changes, removed, cut, written bool }{
		{written: true}, {}, {changes: true, written: true}, {}, {removed: true, written: true}, {},
		{cut: true, written: true},
	} {
		if step.changes {
			changes++
		}
		if step.removed {
			if err := os.Remove(k.file); err != nil {
				t.Fatal(err)
			}
		}
		if step.cut {
			if err := os.Truncate(k.file, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.save(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(k.file)
		if err != nil {
			t.Fatal(err)
		}
		if written := last == nil || step.removed || !os.SameFile(info, last); written != step.written {
			t.Errorf("step %d: written: %v", i, written)
		}
		last = info
	}
}

// TestSecondServer: a server whose snapshot another one will replace does not start.
func TestSecondServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	addr, stop := serve(t, "--snapshot="+file)
	put := []string{"put", "key", "7", "--servers=" + addr}
	if status, _, errOut := try(t, put...); status != cli.Done {
		t.Fatal(errOut)
	}
	status, out, errOut := try(t, "serve", "--child", "--addr=127.0.0.1:0",
		"--snapshot="+file)
	for _, want := range []string{file, fmt.Sprintf("process %d ", os.Getpid()), "another file"} {
		if status != cli.Failed || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("status %d, %q, %q does not say %q", status, out, errOut, want)
		}
	}
	stop()
	addr, _ = serve(t, "--snapshot="+file)
	if _, out, errOut := try(t, "get", "key", "--servers="+addr); strings.TrimSpace(out) != "7" {
		t.Errorf("%q, %q", out, errOut)
	}
}

// TestKilledWithLog: a server with a log is killed while clients write, again and again. Under
// always each finds what was acknowledged to it; else something of its own, in order.
func TestKilledWithLog(t *testing.T) {
	for _, fsync := range []string{"always", "everysec", "no"} {
		dir := filepath.Join(t.TempDir(), "log")
		var done, acked [4]uint64
		for round := range 3 {
			addr, kill := victim(t, "--log="+dir, "--fsync="+fsync)
			flags := clientFlags{netFlags: netFlags{Transport: "udp"}, Servers: addr,
				Timeout: 10 * time.Second}
			c, end, err := flags.dial(&cli.Env{Ctx: t.Context()})
			if err != nil {
				t.Fatal(err)
			}
			for g := range done {
				n, _, err := c.Get(t.Context(), []byte{byte(g)})
				least := uint64(0)
				if fsync == "always" {
					least = acked[g]
				}
				if err != nil || n < least || n > done[g] {
					t.Errorf("--fsync %s, round %d: client %d finds %d, %d were acknowledged, %d done: %v",
						fsync, round, g, n, acked[g], done[g], err)
				}
				done[g], acked[g] = n, n
			}
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for g := range done {
				all.Go(func() {
					for i := 0; ; i++ {
						done[g]++
						if _, _, err := c.Put(ctx, []byte{byte(g)}, done[g]); err != nil {
							return
						}
						acked[g]++
						if g == 0 && i == 200+50*round {
							kill()
							cancel()
						}
					}
				})
			}
			all.Wait()
			cancel()
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestLog: a server comes back with all that it had, and begins a new folder with a snapshot of
// before, but no other one.
func TestLog(t *testing.T) {
	dir := t.TempDir()
	file, log := filepath.Join(dir, "index"), filepath.Join(dir, "log")
	put := func(addr, key string) {
		t.Helper()
		if status, _, errOut := try(t, "put", key, "7", "--servers="+addr); status != cli.Done {
			t.Fatal(errOut)
		}
	}
	addr, stop := serve(t, "--snapshot="+file)
	put(addr, "a")
	stop()
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	addr, stop = serve(t, "--snapshot="+file, "--log="+log)
	put(addr, "b")
	stop()
	addr, stop = serve(t, "--log="+log)
	if _, out, _ := try(t, "scan", "--servers="+addr); out != "\"a\" 7\n\"b\" 7\n" {
		t.Errorf("it has %q", out)
	}
	again := []string{"serve", "--child", "--addr=127.0.0.1:0"}
	for _, c := range []struct{ args, text string }{
		{"--log=" + log, "in use"},
		{"--log=" + log + " --snapshot=" + file, "in use"},
		{"--log=" + file, "is a file"},
	} {
		status, _, errOut := try(t, append(again, strings.Fields(c.args)...)...)
		if status != cli.Failed || !strings.Contains(errOut, c.text) {
			t.Errorf("%s: status %d, %q does not say %q", c.args, status, errOut, c.text)
		}
	}
	stop()
	status, _, errOut := try(t, append(again, "--log="+log, "--snapshot="+file)...)
	if status != cli.Failed || !strings.Contains(errOut, "leave --snapshot "+file+" out") {
		t.Errorf("status %d, %q", status, errOut)
	}
	if is, err := os.ReadFile(file); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the snapshot has changed: %v", err)
	}
}
