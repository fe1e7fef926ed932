package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Dir is a folder with a log. It belongs to one goroutine.
type Dir struct {
	path string
	id   Identity
	file *os.File
	end  int64
	buf  []byte
}

const (
	logName  = "log"
	snapName = "snapshot"
	newName  = ".new" // added to a file that is not complete yet
)

// Open opens the log in the folder, or makes both if there is none, with id.Log as its
// identity; an existing log keeps its own. A torn record is cut off. Errors: those of
// Load and of the system.
func Open(path string, id Identity) (*Dir, State, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, State{}, err
	}
	d := &Dir{path: path, id: id}
	log, err := os.ReadFile(d.name(logName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.name(snapName)); err == nil {
			return nil, State{}, fmt.Errorf("%w: %s has a snapshot and no log", ErrCorrupt, path)
		}
		log = NewLog(id)
		err = d.replace(logName, log)
	}
	if err != nil {
		return nil, State{}, err
	}
	snapshot, err := os.ReadFile(d.name(snapName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, State{}, err
	}
	want := id
	want.Log = 0
	s, err := Load(log, snapshot, want)
	if err != nil {
		return nil, s, fmt.Errorf("%s: %w", path, err)
	}
	d.id = s.ID
	if s.Stale {
		log := s.Rebuild()
		if err := d.replace(logName, log); err != nil {
			return nil, s, err
		}
		s.Good, s.Cut = int64(len(log)), 0
	}
	return d, s, d.open(s.Good, s.Cut > 0)
}

func (d *Dir) name(file string) string { return filepath.Join(d.path, file) }

// open opens the log for appending at end.
func (d *Dir) open(end int64, cut bool) (err error) {
	if d.file, err = os.OpenFile(d.name(logName), os.O_RDWR, 0); err != nil {
		return err
	}
	d.end = end
	if cut {
		if err = d.file.Truncate(end); err == nil {
			err = d.file.Sync()
		}
	}
	return err
}

// ID returns whose log it is.
func (d *Dir) ID() Identity { return d.id }

// Save appends a record and returns when it is durable. After an error the log must not
// be used any more: what is in it is unknown until it is opened again.
func (d *Dir) Save(r *Record) error {
	d.buf = AppendRecord(d.buf[:0], d.id, d.end, r)
	if _, err := d.file.WriteAt(d.buf, d.end); err != nil {
		return err
	}
	d.end += int64(len(d.buf))
	return d.file.Sync()
}

// Compact puts a snapshot and a log that begins behind it in the place of the present
// ones. hard and entries are what the new log begins with.
func (d *Dir) Compact(s *pb.Snapshot, hard *pb.HardState, entries []*pb.Entry) error {
	b, err := AppendSnapshot(nil, d.id, s)
	if err == nil {
		err = d.replace(snapName, b)
	}
	if err != nil {
		return err
	}
	log := NewLog(d.id)
	log = AppendRecord(log, d.id, int64(len(log)), &Record{Hard: hard, Reset: s.GetMetadata(), Entries: entries})
	if err := d.replace(logName, log); err != nil {
		return err
	}
	if err := d.file.Close(); err != nil {
		return err
	}
	return d.open(int64(len(log)), false)
}

// replace makes a file with these bytes, all of them or not at all.
func (d *Dir) replace(file string, b []byte) error {
	tmp := d.name(file) + newName
	f, err := os.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, d.name(file)); err != nil {
		return err
	}
	return d.sync()
}

// sync makes the folder's names durable.
func (d *Dir) sync() error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(d.path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Close closes the file.
func (d *Dir) Close() error { return d.file.Close() }
