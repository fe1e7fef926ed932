package wal

import (
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// disk is where the files of a log are written. They are read as the system has them.
type disk interface {
	open(name string, flag int) (file, error)
	rename(from, to string) error
	syncDir(path string) error
}

// file is a file that is written.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// system is the system's own files.
type system struct{}

func (system) open(name string, flag int) (file, error) { return outfile.Open(name, flag, 0o600) }
func (system) rename(from, to string) error             { return os.Rename(from, to) }
func (system) syncDir(path string) error                { return syncDir(path) }

// OpenVolatile is Open on a disk that forgets: written bytes wait in the memory of the process
// until it is synced, and names until their folder is. So kill -9 of the process has the effect of
// a power failure: of each write that was not synced all, a part or nothing is left, in any order.
// It is for tests.
func OpenVolatile(path string, id Identity) (*Dir, State, error) {
	return open(path, id, &volatileDisk{})
}

// volatileDisk writes through what is synced, and of the rest something at random.
type volatileDisk struct {
	mu    sync.Mutex
	names [][2]string // renames that wait for syncDir
}

func (d *volatileDisk) open(name string, flag int) (file, error) {
	f, err := outfile.Open(name, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return &volatileFile{f: f}, nil
}

func (d *volatileDisk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names = append(d.names, [2]string{from, to})
	if rand.IntN(2) == 0 {
		return d.move()
	}
	return nil
}

func (d *volatileDisk) syncDir(string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.move()
}

// move does the renames that wait.
func (d *volatileDisk) move() error {
	for _, n := range d.names {
		if err := os.Rename(n[0], n[1]); err != nil {
			return err
		}
	}
	d.names = nil
	return nil
}

// volatileFile holds writes back.
type volatileFile struct {
	f      *os.File
	writes []pending
}

type pending struct {
	b  []byte
	at int64
}

func (v *volatileFile) WriteAt(b []byte, at int64) (int, error) {
	v.writes = append(v.writes, pending{append([]byte(nil), b...), at})
	switch rand.IntN(4) {
	case 0: // the system wrote it back early
		return len(b), v.flush()
	case 1: // of this one, a part is there already
		_, err := v.f.WriteAt(b[:rand.IntN(len(b)+1)], at)
		return len(b), err
	}
	return len(b), nil
}

// flush writes what waits.
func (v *volatileFile) flush() error {
	for _, w := range v.writes {
		if _, err := v.f.WriteAt(w.b, w.at); err != nil {
			return err
		}
	}
	v.writes = v.writes[:0]
	return nil
}

func (v *volatileFile) Truncate(size int64) error {
	if err := v.flush(); err != nil {
		return err
	}
	return v.f.Truncate(size)
}

func (v *volatileFile) Sync() error {
	if err := v.flush(); err != nil {
		return err
	}
	return v.f.Sync()
}

// Close closes the file. Bytes that are not synced are lost, as they may be.
func (v *volatileFile) Close() error { return v.f.Close() }
