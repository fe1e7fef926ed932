package simtest

import (
	"slices"
	"testing"
	"time"

	"github.com/userspace-rpc/erpc/erpc"
	"github.com/userspace-rpc/erpc/raft-example/kv"
	"github.com/userspace-rpc/erpc/raft-example/node"
)

// fetch asks for a state's beginning in a session.
func (c *cluster) fetch(u *user, s *erpc.Session) (p node.BackupPiece, err error) {
	c.t.Helper()
	q := node.BackupRequest{Cluster: testCluster}
	for range 2 { // the index, the first piece
		var b []byte
		if b, err = c.call(u, s, node.TypeBackup, q.Append(nil)); err != nil {
			return p, err
		}
		if p, err = node.ParseBackup(b); err != nil {
			c.t.Fatal(err)
		}
		q.Index = p.Index
	}
	return p, nil
}

// TestBackupLeft: a client ends in the middle of a backup, by a signal or by kill -9. The replica
// makes another one as soon as the session of the first has ended, and none before.
func TestBackupLeft(t *testing.T) {
	for _, killed := range []bool{false, true} {
		sh := small
		sh.durable = false
		c, u := calm(t, sh)
		c.propose(slices.Repeat([]kv.Command{{Op: kv.Open}}, 12000)...)
		leader := c.leader()
		other := c.user(1)
		session := func(u *user) *erpc.Session {
			s, err := u.rpc.CreateSession(leader.addr)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first, second := session(u), session(other)
		if p, err := c.fetch(u, first); err != nil || uint64(len(p.Data)) >= p.Total {
			t.Fatalf("%d of %d bytes, %v", len(p.Data), p.Total, err)
		}
		if _, err := c.fetch(other, second); erpc.CodeOf(err) != erpc.CodeUnavailable {
			t.Fatalf("two backups at once: %v", err)
		}
		if killed {
			u.ep.Crash()
			c.run(time.Second) // twice the failure timeout
		} else if err := u.rpc.CloseSession(first); err != nil {
			t.Fatal(err)
		} else {
			u.ep.Wake()
			c.run(2 * tick)
		}
		if _, err := c.fetch(other, second); err != nil {
			t.Errorf("killed %v: %v", killed, err)
		}
	}
}
