package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/kit/filelock"
)

// Dir is a folder with a log. It belongs to one goroutine.
type Dir struct {
	// Forget asks the system to read so much of a file from the disk the next time, and not
	// from memory. Nil: it is not asked. Set it before Scrub.
	Forget func(f *os.File, size int64)

	path string
	lock *filelock.Lock
	id   Identity // its format is in format
	disk disk
	file file
	buf  []byte

	format   atomic.Uint32
	end      atomic.Int64 // where the next record goes
	synced   atomic.Int64 // all before it is synced
	first    uint32       // see firstSum
	markFile file
	markBuf  []byte
	swap     sync.Mutex // while another log takes the place of this one
	side     sync.WaitGroup

	prepared [len(preparedNames)]atomic.Uint64 // indexes of what waits for Install
	names    sync.Mutex                        // of the files of snapshots
	snap     *users
	waits    [len(preparedNames)]*users
	log      *users // under swap
}

const (
	logName   = "log"
	snapName  = "snapshot"
	peersName = "peers"
	markName  = "synced"
	lockName  = "lock"
	newName   = ".new" // added to a file that is not complete yet

	probeName = "probe"
)

// Open opens the log in the folder, or makes both if there is none, with id.Log as its
// identity; an existing log keeps its own. A torn record is cut off; one that was synced and is
// bad is ErrCorrupt. The folder is locked until Close. Errors: ErrInUse before anything was read or
// written, those of Load and of the system.
func Open(path string, id Identity) (*Dir, State, error) { return open(path, id, system{}) }

func open(path string, id Identity, on disk) (*Dir, State, error) {
	if err := makeDir(path); err != nil {
		return nil, State{}, err
	}
	d := &Dir{path: path, id: id, disk: on, snap: newUsers(), log: newUsers()}
	for i := range d.waits {
		d.waits[i] = newUsers()
	}
	var err error
	if d.lock, err = filelock.Take(d.name(lockName)); err != nil {
		if held, ok := errors.AsType[*filelock.HeldError](err); ok {
			err = fmt.Errorf("%w: %s, by %s: end that process, or take another folder",
				ErrInUse, path, held.Holder)
		}
		return nil, State{}, err
	}
	s, err := d.load()
	if err != nil {
		return nil, State{}, errors.Join(err, s.State.Close(), d.Close())
	}
	return d, s, nil
}

// load reads the folder and opens the log.
func (d *Dir) load() (State, error) {
	path, id := d.path, d.id
	log, err := os.ReadFile(d.name(logName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(d.name(snapName)); err == nil {
			return State{}, fmt.Errorf("%w: %s has a snapshot and no log", ErrCorrupt, path)
		}
		log = NewLog(id)
		if err = d.writeFile(d.name(markName), nil); err == nil { // that of another log means nothing
			err = d.replace(logName, log)
		}
	}
	if err != nil {
		return State{}, err
	}
	want := id
	want.Log = 0
	f, err := d.openFile(snapName, &d.snap)
	var s State
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s, err = Load(log, nil, want)
	case err == nil:
		s, err = loadWith(log, f, want)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	d.id = s.ID
	d.format.Store(s.ID.Format)
	if err := d.checkMark(log, &s); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	if s.Peers, err = d.loadPeers(); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	d.first = firstSum(log)
	if s.Stale {
		log := s.Rebuild()
		if err := d.replace(logName, log); err != nil {
			return s, err
		}
		s.Good, s.Cut = int64(len(log)), 0
		d.first = firstSum(log)
	}
	return s, d.open(s.Good, s.Cut > 0)
}

// loadWith is Load of a snapshot's file, which s.State closes.
func loadWith(log []byte, f reading, want Identity) (s State, err error) {
	st, err := f.Stat()
	if err == nil {
		s, err = Load(log, io.NewSectionReader(f, 0, st.Size()), want)
	}
	if err != nil {
		return s, errors.Join(err, f.Close())
	}
	s.State.open = f
	return s, nil
}

// syncDir makes the names in a folder durable. Tests watch it.
var syncDir = func(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes a folder and those above it, and makes all of their names durable.
func makeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	var made []string // parents of what is made
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		made = append(made, filepath.Dir(at))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for i := len(made) - 1; i >= 0; i-- {
		if err := syncDir(made[i]); err != nil {
			return err
		}
	}
	return nil
}

// MakeDir makes a folder for Open, of mode 0700, and those above it, durably. If there is something
// of its name already the error matches fs.ErrExist.
func MakeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// Move gives a file, or a folder that nobody uses, another name for good.
func Move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func (d *Dir) name(file string) string { return filepath.Join(d.path, file) }

// open opens the log for appending at end.
func (d *Dir) open(end int64, cut bool) (err error) {
	if d.file, err = d.disk.open(d.name(logName), os.O_RDWR); err != nil {
		return err
	}
	d.end.Store(end)
	d.synced.Store(end)
	if cut {
		if err = d.file.Truncate(end); err == nil {
			err = d.file.Sync()
		}
	}
	if err == nil {
		err = d.openMark()
	}
	if err == nil && end > headerSize {
		err = d.mark()
	}
	return err
}

// ID returns whose log it is, and its format.
func (d *Dir) ID() Identity {
	id := d.id
	id.Format = d.format.Load()
	return id
}

// Raise makes the folder's format that of entries and snapshots which come next, durably, so that a
// program that does not know it refuses the folder. It never falls. After an error the log must not
// be used any more, as with Save.
func (d *Dir) Raise(format uint32) error {
	if format <= d.format.Load() {
		return nil
	}
	if format > Format {
		return &FormatError{format}
	}
	log := make([]byte, d.end.Load())
	f, err := os.Open(d.name(logName))
	if err != nil {
		return err
	}
	_, err = io.ReadFull(f, log)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	d.format.Store(format)
	copy(log, NewLog(d.ID())) // no record's checksum has to do with it
	return d.take(log)
}

// Save appends a record and returns when it is durable. After an error the log must not be used any
// more: its content is unknown until it is opened again.
func (d *Dir) Save(r *Record) error {
	end := d.end.Load()
	d.buf = AppendRecord(d.buf[:0], d.id, end, r)
	if _, err := d.file.WriteAt(d.buf, end); err != nil {
		return err
	}
	if end == headerSize {
		d.first = binary.LittleEndian.Uint32(d.buf[8:])
	}
	d.end.Store(end + int64(len(d.buf)))
	if err := d.file.Sync(); err != nil {
		return err
	}
	d.synced.Store(d.end.Load())
	return d.mark()
}

// Probe writes and syncs as Save does, but nothing of the log.
func (d *Dir) Probe() error { return d.writeFile(d.name(probeName), make([]byte, 512)) }

// take puts a log in the place of the present one.
func (d *Dir) take(log []byte) error {
	d.swap.Lock()
	defer d.swap.Unlock()
	if err := d.replace(logName, log); err != nil {
		return err
	}
	was := d.log
	was.old, was.size, d.log = d.file, d.end.Load(), newUsers()
	if was.size > freedAtOnce {
		d.side.Go(func() { _ = was.leave() })
	} else if err := was.leave(); err != nil {
		return err
	}
	d.first = firstSum(log)
	return d.open(int64(len(log)), false)
}

// replace makes a file with these bytes, all of them or not at all.
func (d *Dir) replace(file string, b []byte) error {
	if err := d.writeFile(d.name(file)+newName, b); err != nil {
		return err
	}
	return d.rename(file+newName, file)
}

// writtenAtOnce is after how many bytes a large file is synced: one sync of all of it would
// hold up the log's on the same disk for as long as it takes.
const writtenAtOnce = 4 << 20

// writeFile makes a file that is durable.
func (d *Dir) writeFile(name string, b []byte) error {
	f, err := d.disk.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (d *Dir) rename(from, to string) error {
	if err := d.disk.rename(d.name(from), d.name(to)); err != nil {
		return err
	}
	return d.sync()
}

// sync makes the folder's names durable.
func (d *Dir) sync() error { return d.disk.syncDir(d.path) }

// Close closes the files and unlocks the folder.
func (d *Dir) Close() (err error) {
	d.side.Wait()
	for _, f := range []file{d.file, d.markFile} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return errors.Join(err, d.lock.Release())
}
