package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/index"
	"github.com/userspace-rpc/erpc/index/snapshot"
	"github.com/userspace-rpc/erpc/kit/cli"
)

// TestKilledServer: a server that is killed in the middle of its work comes back with a snapshot of
// before, whole, and says that the rest is lost.
func TestKilledServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "index")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "serve", "--json", "--child", "--addr=127.0.0.1:0", "--every=1ms",
		"--snapshot="+file)
	cmd.Env = append(os.Environ(), childEnv...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed := false
	kill := func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // the status is that of the kill
		}
	}
	defer kill()
	var said ready
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatal(err)
	}
	at := "--servers=" + said.Addr
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
	addr, _ := serve(t, "--snapshot="+file)
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
