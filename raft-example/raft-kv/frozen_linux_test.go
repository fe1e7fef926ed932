package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var frozenFor = flag.Duration("frozen.for", 0,
	"how long TestFrozenDisk freezes the leader's disk at least; for 400 writes without it")

// TestFrozenDisk: the file system of the leader's log is frozen, so that its writes hang. Another
// replica leads, writes go on, and when the file system thaws the first one has all that the others
// have. As root: the file systems are mounted in a mount namespace that ends with its thread.
func TestFrozenDisk(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	done := make(chan struct{})
	defer func() { <-done }()
	over, end := context.WithCancel(ctx)
	defer end()
	addrs, err := freeAddrs(3)
	if err != nil {
		t.Fatal(err)
	}
	net := netFlags{Transport: "udp", Cluster: 5}
	f, err := newFleet(net, 3, dir, testTick, addrs)
	if err != nil {
		t.Fatal(err)
	}
	mounted, started := make(chan error, 1), make(chan error, 1)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the namespace ends with the thread and the processes
		err := mountLogs(f)
		if mounted <- err; err != nil {
			return
		}
		started <- f.startAll()
		<-over.Done()
		_ = f.stopAll()
	}()
	if err := <-mounted; err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	cf := clientFlags{netFlags: net, Servers: strings.Join(addrs, ","), Timeout: 30 * time.Second}
	freezeLeader(ctx, t, f, cf)
}

// mountLogs gives each replica a file system in a mount namespace that the calling thread enters.
func mountLogs(f *fleet) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("a new mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	for _, c := range f.children {
		c.dir = filepath.Join(filepath.Dir(c.dir), fmt.Sprint("disk", c.id), "log")
		script := `mkdir "$0" && truncate -s 40M "$0.img" && mkfs.ext4 -q "$0.img" &&
			mount -o loop "$0.img" "$0"`
		out, err := exec.Command("sh", "-c", script, filepath.Dir(c.dir)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("a file system: %w: %s", err, out)
		}
	}
	return nil
}

// FIFREEZE and FITHAW of linux/fs.h.
const (
	freeze = 0xC0045877
	thaw   = 0xC0045878
)

func freezeLeader(ctx context.Context, t *testing.T, f *fleet, cf clientFlags) {
	traffic, err := startTraffic(ctx, cf, 4, 8)
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.stop()
	if err := traffic.more(ctx, 200); err != nil {
		t.Fatal(err)
	}
	old, err := leaderOf(ctx, cf, f.addrs())
	if err != nil {
		t.Fatal(err)
	}
	// A thread has its own view of mounts; that of a process of the namespace is in /proc.
	victim := f.children[old.ID-1]
	root := fmt.Sprintf("/proc/%d/root", victim.cmd.Process.Pid)
	disk, err := os.Open(filepath.Join(root, filepath.Dir(victim.dir)))
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	traffic.gap.Store(0)
	if err := unix.IoctlSetInt(int(disk.Fd()), freeze, 0); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	frozen, cancel := context.WithTimeout(ctx, 20*time.Second+*frozenFor)
	err = traffic.more(frozen, 400)
	for err == nil && time.Since(began) < *frozenFor {
		err = traffic.more(frozen, 100)
	}
	cancel()
	now, err2 := leaderOf(ctx, cf, f.addrs())
	if err3 := unix.IoctlSetInt(int(disk.Fd()), thaw, 0); err3 != nil {
		t.Error(err3) // then the processes cannot end
	}
	if err != nil || err2 != nil || now.ID == old.ID {
		t.Fatalf("while the disk of replica %d is frozen: %v, %v; replica %d leads", old.ID, err, err2,
			now.ID)
	}
	t.Logf("longest time without a write: %v", time.Duration(traffic.gap.Load()))
	if err := traffic.end(ctx, cf); err != nil {
		t.Error(err)
	}
	c, err := cf.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for level := false; !level; {
		list, err := statuses(ctx, c, f.addrs())
		if err != nil || ctx.Err() != nil {
			t.Fatalf("the replica is not back: %v, %+v", err, list)
		}
		first := list[0].Applied
		level = first > 0 && first == list[1].Applied && first == list[2].Applied
	}
	if text := victim.text(); !strings.Contains(text, "the disk hangs") ||
		!strings.Contains(text, "the disk goes on") {
		t.Errorf("it has not told: %s", text)
	}
}
