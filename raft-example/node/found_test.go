package node_test

import (
	"path/filepath"
	"testing"

	"github.com/userspace-rpc/erpc/raft-example/node"
	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// TestFoundVersion: the folder that begins with a state of some version is of that format, so that
// an older program refuses it by name and not for a damaged snapshot.
func TestFoundVersion(t *testing.T) {
	for _, version := range []uint8{0, wal.Format} {
		path := filepath.Join(t.TempDir(), "new")
		s := replica.Boot(map[uint64]string{1: "a:1"})
		s.Version = version
		if err := node.Found(path, 7, 1, s); err != nil {
			t.Fatal(err)
		}
		dir, state, err := wal.Open(path, wal.Identity{Cluster: 7, Replica: 1})
		if err != nil {
			t.Fatal(err)
		}
		if got := dir.ID().Format; got != uint32(version) || state.Snapshot == nil {
			t.Errorf("format %d, want %d", got, version)
		}
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	}
}
