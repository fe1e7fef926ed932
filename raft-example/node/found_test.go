package node_test

import (
	"errors"
	"os"
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

// TestFoundAtOnce: of those that make a folder at the same time one does, and the others say that
// it is there.
func TestFoundAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "store")
	errs := make(chan error)
	const all = 8
	for id := range uint64(all) {
		go func() {
			errs <- node.Found(path, 7, id+1, replica.Boot(map[uint64]string{id + 1: "a:1"}))
		}()
	}
	made := 0
	for range all {
		switch err := <-errs; {
		case err == nil:
			made++
		case !errors.Is(err, node.ErrFolder):
			t.Error(err)
		}
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if made != 1 || err != nil || len(left) != 1 {
		t.Errorf("%d made it, %v is left, %v", made, left, err)
	}
}

// TestFoundTouchesNothing: a folder that is there is not touched, also that with the name of one
// that is being made: it may be a replica's.
func TestFoundTouchesNothing(t *testing.T) {
	for _, name := range []string{"store", "store.new"} {
		parent := t.TempDir()
		if err := os.MkdirAll(filepath.Join(parent, name, "mine"), 0o700); err != nil {
			t.Fatal(err)
		}
		s := replica.Boot(map[uint64]string{1: "a:1"})
		if err := node.Found(filepath.Join(parent, "store"), 7, 1, s); !errors.Is(err, node.ErrFolder) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(parent, name, "mine")); err != nil {
			t.Error(err)
		}
	}
}
