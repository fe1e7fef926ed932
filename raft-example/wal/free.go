package wal

import (
	"errors"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/userspace-rpc/erpc/kit/outfile"
)

// freedAtOnce is how many bytes of a file are given back to the disk in one step. Ext4 does that
// in a commit of its journal, for which each sync on that disk waits: 256 MiB hold up the log for
// 20 to 50 ms, with the mount option discard, and steps of 8 MiB for 2 to 3.
const freedAtOnce = 8 << 20

// free closes a file of size bytes that nobody needs any more, and whose name another one has. A
// file that has a name still, since somebody made a copy by a link, stays as it is.
func free(f file, size int64) error {
	if hasName(f) {
		return f.Close()
	}
	return cut(f, size)
}

// cut closes a file of size bytes, cut to nothing in steps of which each is its own commit.
func cut(f file, size int64) (err error) {
	for err == nil && size > freedAtOnce {
		size -= freedAtOnce
		if err = f.Truncate(size); err == nil {
			err = f.Sync()
		}
	}
	return errors.Join(err, f.Close())
}

// users are those of the log's file, or of a snapshot's. When another file has taken its place, the
// last of them frees it.
type users struct {
	n    atomic.Int32 // who reads it, and the folder as long as it has the name
	old  file         // itself, once it has not
	size int64        // of old
}

func newUsers() *users {
	u := &users{}
	u.n.Store(1)
	return u
}

// leave ends the use of one. It takes long if the file is to be freed.
func (u *users) leave() error {
	if u.n.Add(-1) > 0 || u.old == nil {
		return nil
	}
	return free(u.old, u.size)
}

// reading is a file that is read.
type reading struct {
	*os.File
	of *users
}

// Close ends it.
func (r reading) Close() error { return errors.Join(r.File.Close(), r.of.leave()) }

// openFile opens the file that has a name of a snapshot, which has these users.
func (d *Dir) openFile(name string, of **users) (reading, error) {
	d.names.Lock()
	defer d.names.Unlock()
	f, err := os.Open(d.name(name))
	if err == nil {
		(*of).n.Add(1)
	}
	return reading{f, *of}, err
}

// succeed gives the prepared snapshot of an origin the name of the present one, durably, and has
// that freed.
func (d *Dir) succeed(o Origin) error {
	d.names.Lock()
	defer d.names.Unlock()
	was := d.snap
	if runtime.GOOS != "windows" { // an open file cannot be replaced there
		if f, err := outfile.Open(d.name(snapName), os.O_RDWR, 0); err == nil { // there may be none
			was.old, was.size = f, sizeOf(f)
		}
	}
	if err := d.rename(snapName+preparedNames[o], snapName); err != nil {
		if was.old != nil { // it may still have the name
			err = errors.Join(err, was.old.Close())
			was.old = nil
		}
		return err
	}
	d.snap, d.waits[o] = d.waits[o], newUsers()
	d.side.Go(func() { _ = was.leave() })
	return nil
}

// sizeOf returns a file's size, 0 if it is not known: then it is freed at once.
func sizeOf(f *os.File) int64 {
	st, err := f.Stat()
	if err != nil {
		return 0
	}
	return st.Size()
}

// hasName reports whether a file has a name in some folder.
func hasName(f file) bool {
	own, ok := f.(*os.File)
	if !ok {
		return false
	}
	st, err := own.Stat()
	return err == nil && links(st) > 0
}
