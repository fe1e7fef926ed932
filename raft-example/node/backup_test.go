package node

import (
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/kit/monotime"
	"github.com/userspace-rpc/erpc/raft-example/replica"
)

// TestBackupEnds: a state is let go when nobody asks for it, and when it is fetched too slowly.
func TestBackupEnds(t *testing.T) {
	now := monotime.Time(1)
	n, err := New(Config{Config: replica.Config{ID: 1},
		Start: replica.Boot(map[uint64]string{1: "1"}), Clock: func() monotime.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ every, want time.Duration }{
		{backupIdle, backupIdle}, {backupIdle - 1, backupLeast},
	} {
		s, from := n.rep.Export(1)
		if s == nil {
			t.Fatal("no state")
		}
		held := &n.backup
		held.s, held.by = s, new(erpc.Session)
		held.begin(n, live{from})
		began := now
		for held.until = now.Add(backupIdle); held.s != nil; held.until = now.Add(backupIdle) {
			for end := now.Add(c.every); now < end && held.s != nil; {
				now = min(end, now.Add(time.Second))
				held.expire(n, now)
			}
			if now.Sub(began) > time.Hour {
				t.Fatalf("asked for each %v, it is held for ever", c.every)
			}
		}
		if took := now.Sub(began); took < c.want || took > c.want+time.Second {
			t.Errorf("asked for each %v, it is held for %v, want %v", c.every, took, c.want)
		}
	}
}
