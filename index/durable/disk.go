package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// disk is the folder of an index.
type disk interface {
	list() (names []string, err error)
	read(name string) (f io.ReadCloser, size int64, err error)
	create(name string) (file, error) // empty, whatever was there
	extend(name string) (file, error) // what is there, to be written from its end on
	rename(from, to string) error
	remove(name string) error
	sync() error // makes names durable
}

// file is a file that is written.
type file interface {
	io.WriteCloser
	Sync() error
}

// folder is a disk of the system: a path.
type folder string

func (d folder) name(file string) string { return filepath.Join(string(d), file) }

func (d folder) list() (names []string, err error) {
	list, err := os.ReadDir(string(d))
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

func (d folder) read(name string) (io.ReadCloser, int64, error) {
	f, err := os.Open(d.name(name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func (d folder) create(name string) (file, error) { return outfile.Create(d.name(name), 0o600) }
func (d folder) extend(name string) (file, error) {
	return outfile.Open(d.name(name), os.O_WRONLY|os.O_APPEND, 0o600)
}
func (d folder) rename(from, to string) error { return os.Rename(d.name(from), d.name(to)) }
func (d folder) remove(name string) error     { return os.Remove(d.name(name)) }
func (d folder) sync() error                  { return syncDir(string(d)) }

// syncDir makes the names in a folder durable.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // folders cannot be synced there
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes a folder and those above it, durably.
func makeDir(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// newName is added to the name of a file that is not complete.
const newName = ".new"

// sink is a log or a base that is written.
type sink struct {
	on     disk
	id     identity
	f      file
	size   int64
	synced int64 // all before it is synced
}

// newSink begins a file, which has no name yet.
func newSink(on disk, id identity) (*sink, error) {
	f, err := on.create(id.name() + newName)
	if err != nil {
		return nil, err
	}
	s := &sink{on: on, id: id, f: f}
	if err := s.write(id.head()); err != nil {
		return nil, errors.Join(err, s.discard())
	}
	return s, nil
}

func (s *sink) write(b []byte) error {
	n, err := s.f.Write(b)
	s.size += int64(n)
	return err
}

// frame writes what is behind frameSize bytes of b. It returns b, which may have grown.
func (s *sink) frame(b []byte, flags uint32) ([]byte, error) {
	b = s.id.seal(b, s.size, flags, s.synced)
	return b, s.write(b)
}

func (s *sink) sync() error {
	err := s.f.Sync()
	if err == nil {
		s.synced = s.size
	}
	return err
}

// finish makes the file complete, and durable.
func (s *sink) finish() error {
	err := s.sync()
	if err == nil {
		_, err = s.frame(make([]byte, frameSize), last)
	}
	if err == nil {
		err = s.sync()
	}
	return err
}

// install syncs and closes the file, and gives it its name.
func (s *sink) install() error {
	if err := errors.Join(s.sync(), s.close()); err != nil {
		return err
	}
	if err := s.on.rename(s.id.name()+newName, s.id.name()); err != nil {
		return err
	}
	return s.on.sync()
}

// installLog is install for a log, which goes on.
func (s *sink) installLog() (err error) {
	if err = s.install(); err == nil {
		s.f, err = s.on.extend(s.id.name())
	}
	return err
}

func (s *sink) close() (err error) {
	if s.f != nil {
		err = s.f.Close()
		s.f = nil
	}
	return err
}

// discard removes a file that has no name yet.
func (s *sink) discard() error {
	return errors.Join(s.close(), s.on.remove(s.id.name()+newName))
}
