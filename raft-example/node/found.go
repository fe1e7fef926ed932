package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/userspace-rpc/erpc/raft-example/replica"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// ErrFolder is a folder that is not what a command needs.
var ErrFolder = errors.New("node: the folder")

// Found makes the folder of the first replica of a new cluster, which begins with s. There must be
// none yet; after an error there is none. The replica gets a log identity of its own. Errors:
// ErrFolder, and those of the system.
func Found(path string, cluster, id uint64, s replica.Start) error {
	path = filepath.Clean(path)
	part := path + ".new" // a folder without the state would be that of an empty cluster
	// Of two that make it at a time the second fails here.
	if err := wal.MakeDir(part); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w %s is there already: it may be what an earlier attempt left; if so, "+
			"remove it", ErrFolder, part)
	} else if err != nil {
		return err
	}
	of := wal.Identity{Cluster: cluster, Replica: id, Log: NewLogID()}
	if err := found(part, path, of, &s); err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return nil
}

// found fills a folder that this process has made, and gives it its name.
func found(part, path string, of wal.Identity, s *replica.Start) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%w %s is there already: name a new one", ErrFolder, path), err)
	}
	dir, _, err := wal.Open(part, of)
	if err != nil {
		return err
	}
	if err = dir.Raise(uint32(s.Version)); err == nil {
		err = begin(dir, s)
	}
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	return wal.Move(part, path)
}

// startOf returns the start of a replica with this log.
func startOf(s *wal.State) replica.Start {
	start := replica.Start{Hard: s.Hard, Snapshot: s.Snapshot, Entries: s.Entries}
	if s.State != nil {
		start.State = s.State
	}
	return start
}

// begin puts the snapshot of s in a folder, with a log behind it.
func begin(dir *wal.Dir, s *replica.Start) error {
	meta := s.Snapshot.GetMetadata()
	if err := dir.Copy(wal.Leader, meta, s.Source()); err != nil {
		return err
	}
	return dir.Install(wal.Leader, meta, s.Hard, nil)
}

// RecoverFiles makes, of the folder of one replica of a cluster that has lost its quorum, the
// folder of the first replica of a new one, under the same number and with this address. It reads
// the old folder as a start does. Errors: ErrFolder, those of package wal, replica.Recover and
// Found.
func RecoverFiles(from string, old wal.Identity, path string, cluster uint64, addr string) (
	s replica.Start, err error,
) {
	if _, err := os.Stat(filepath.Join(from, "log")); err != nil {
		return s, fmt.Errorf("%w %s has no log: %w", ErrFolder, from, err)
	}
	dir, state, err := wal.Open(from, old)
	switch {
	case errors.Is(err, syscall.EROFS):
		return s, fmt.Errorf("%w: copy the folder to a disk that can be written, and take the copy", err)
	case errors.Is(err, wal.ErrCorrupt):
		return s, fmt.Errorf("%w: nothing is taken of it; take the folder of another replica, or a "+
			"backup", err)
	case err != nil:
		return s, err
	}
	defer func() { err = errors.Join(err, state.State.Close(), dir.Close()) }()
	s, err = replica.Recover(startOf(&state), map[uint64]string{old.Replica: addr})
	if err != nil {
		return s, fmt.Errorf("%s: %w", from, err)
	}
	return s, Found(path, cluster, old.Replica, s)
}
