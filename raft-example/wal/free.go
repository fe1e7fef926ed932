package wal

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"
)

// freedAtOnce is how many bytes of a file are given back to the disk in one step. Ext4 does that
// in a commit of its journal, for which each sync on that disk waits: 256 MiB hold up the log for
// 20 to 50 ms, with the mount option discard, and steps of 8 MiB for 2 to 3.
const freedAtOnce = 8 << 20

// free closes a file of size bytes that nobody needs any more, cut to nothing in steps of which
// each is its own commit.
func free(f file, size int64) (err error) {
	for err == nil && size > freedAtOnce {
		size -= freedAtOnce
		if err = f.Truncate(size); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// snapFile is the file of a snapshot. When another has taken its place, the last one who reads it
// frees it.
type snapFile struct {
	users atomic.Int32 // who reads it, and the folder as long as it has the name
	old   *os.File     // itself, once it has not
}

func newSnapFile() *snapFile {
	s := &snapFile{}
	s.users.Store(1)
	return s
}

// leave ends the use of one. It takes long if the file is to be freed.
func (s *snapFile) leave() error {
	if s.users.Add(-1) > 0 || s.old == nil {
		return nil
	}
	st, err := s.old.Stat()
	if err != nil {
		return errors.Join(err, s.old.Close())
	}
	return free(s.old, st.Size())
}

// reading is a file that is read, of a snapFile.
type reading struct {
	*os.File
	of *snapFile
}

// Close ends it.
func (r reading) Close() error { return errors.Join(r.File.Close(), r.of.leave()) }

// openFile opens the file that has a name of a snapshot, which is that of s.
func (d *Dir) openFile(name string, s **snapFile) (reading, error) {
	d.names.Lock()
	defer d.names.Unlock()
	f, err := os.Open(d.name(name))
	if err == nil {
		(*s).users.Add(1)
	}
	return reading{f, *s}, err
}

// succeed gives the prepared snapshot of an origin the name of the present one, durably, and has
// that freed.
func (d *Dir) succeed(o Origin) error {
	d.names.Lock()
	defer d.names.Unlock()
	was := d.snap
	if runtime.GOOS != "windows" { // an open file cannot be replaced there
		was.old, _ = os.OpenFile(d.name(snapName), os.O_RDWR, 0) // there may be none
	}
	if err := d.rename(snapName+preparedNames[o], snapName); err != nil {
		if was.old != nil { // it may still have the name
			err = errors.Join(err, was.old.Close())
			was.old = nil
		}
		return err
	}
	d.snap, d.waits[o] = d.waits[o], newSnapFile()
	d.side.Go(func() { _ = was.leave() })
	return nil
}
