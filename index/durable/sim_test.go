package durable

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	errDisk   = errors.New("the disk is broken")
	errKilled = errors.New("the process is dead")
)

// simDisk is a folder in memory that knows what a power failure may leave of it. Each operation on
// it counts, and one of them can go wrong.
type simDisk struct {
	mu    sync.Mutex
	files map[string]*simFile
	// Which files a name may stand for after a power failure, nil for none. The first is that of the
	// last sync of names.
	names map[string][]*simFile

	ops   int
	at    int    // the operation that goes wrong, from 1 on
	wrong error  // how: errKilled for this and all that follow, or another error
	last  string // what the operation was
	hit   bool

	slow time.Duration // of a sync
	drag time.Duration // of a write to a base
	hang chan struct{} // a sync waits until it is closed
	jam  chan struct{} // a write does
}

// simFile is a file. What was not synced are ranges of its bytes.
type simFile struct {
	d       *simDisk
	name    string
	data    []byte // as the system has it
	kept    []byte // as the disk has it for sure
	pending [][2]int
}

func newSimDisk() *simDisk {
	return &simDisk{files: map[string]*simFile{}, names: map[string][]*simFile{}}
}

// step counts an operation, which may go wrong. The disk is locked.
func (d *simDisk) step(what string) error {
	d.ops++
	if d.hit && d.wrong == errKilled {
		return errKilled
	}
	if d.ops == d.at {
		d.hit, d.last = true, what
		return d.wrong
	}
	return nil
}

// op counts an operation and does it, unless it goes wrong.
func (d *simDisk) op(what string, fn func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(what); err != nil {
		return err
	}
	return fn()
}

func (d *simDisk) list() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files)), nil
}

func (d *simDisk) read(name string) (io.ReadCloser, int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[name]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(f.data))), int64(len(f.data)), nil
}

// bind lets a name stand for a file.
func (d *simDisk) bind(name string, f *simFile) {
	if len(d.names[name]) == 0 {
		d.names[name] = []*simFile{nil}
	}
	d.names[name] = append(d.names[name], f)
	if f == nil {
		delete(d.files, name)
	} else {
		d.files[name] = f
	}
}

func (d *simDisk) create(name string) (f file, err error) {
	err = d.op("create "+name, func() error {
		s := &simFile{d: d, name: name}
		d.bind(name, s)
		f = s
		return nil
	})
	return f, err
}

func (d *simDisk) extend(name string) (f file, err error) {
	err = d.op("extend "+name, func() error { f = d.files[name]; return nil })
	return f, err
}

func (d *simDisk) rename(from, to string) error {
	return d.op("rename "+to, func() error {
		f := d.files[from]
		d.bind(from, nil)
		d.bind(to, f)
		f.name = to
		return nil
	})
}

func (d *simDisk) remove(name string) error {
	return d.op("remove "+name, func() error { d.bind(name, nil); return nil })
}

func (d *simDisk) sync() error {
	return d.op("sync names", func() error {
		for name, f := range d.names {
			d.names[name] = f[len(f)-1:]
		}
		return nil
	})
}

func (f *simFile) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	jam := f.d.jam
	f.d.mu.Unlock()
	if jam != nil {
		<-jam
	}
	if strings.HasPrefix(f.name, basePrefix) {
		<-time.After(f.d.drag)
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	err := f.d.step("write " + f.name)
	if err != nil && f.d.hit && f.d.ops > f.d.at {
		return 0, err
	}
	if err != nil {
		b = b[:len(b)/2]
	}
	f.pending = append(f.pending, [2]int{len(f.data), len(f.data) + len(b)})
	f.data = append(f.data, b...)
	return len(b), err
}

// Sync makes what is pending safe. If it fails that is forgotten: the system takes it for written.
func (f *simFile) Sync() error {
	f.d.mu.Lock()
	slow, hang, covers := f.d.slow, f.d.hang, len(f.pending)
	err := f.d.step("sync " + f.name)
	f.d.mu.Unlock()
	if hang != nil {
		<-hang
	}
	if slow > 0 {
		<-time.After(slow)
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err == errKilled || f.d.hit && f.d.wrong == errKilled {
		return errKilled
	}
	for _, p := range f.pending[:covers] {
		if err == nil {
			f.keep(p[0], p[1])
		}
	}
	f.pending = f.pending[covers:]
	return err
}

// keep writes a range to the disk; what is before it and was forgotten are zeros.
func (f *simFile) keep(from, to int) {
	if len(f.kept) < to {
		f.kept = append(f.kept, make([]byte, to-len(f.kept))...)
	}
	copy(f.kept[from:to], f.data[from:to])
}

func (f *simFile) Close() error {
	return f.d.op("close "+f.name, func() error { return nil })
}

// killed returns the folder as it is for the next process: as the system has it.
func (d *simDisk) killed() *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newSimDisk()
	copies := map[*simFile]*simFile{nil: nil}
	again := func(f *simFile) *simFile {
		if _, ok := copies[f]; !ok {
			copies[f] = &simFile{n, f.name, bytes.Clone(f.data), bytes.Clone(f.kept),
				slices.Clone(f.pending)}
		}
		return copies[f]
	}
	for name, f := range d.files {
		n.files[name] = again(f)
	}
	for name, list := range d.names {
		for _, f := range list {
			n.names[name] = append(n.names[name], again(f))
		}
	}
	return n
}

// page is the size in bytes of the unit that the disk writes.
const page = 16

// powerFailed returns a folder as a power failure may leave it. Nothing that was not synced is
// there if r is nil.
func (d *simDisk) powerFailed(r *rand.Rand) *simDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := newSimDisk()
	for _, name := range slices.Sorted(maps.Keys(d.names)) {
		list := d.names[name]
		f := list[0]
		if r != nil {
			f = list[r.IntN(len(list))]
		}
		if f == nil {
			continue
		}
		left := &simFile{d: n, name: name, kept: f.left(r)}
		left.data = bytes.Clone(left.kept)
		n.files[name], n.names[name] = left, []*simFile{left}
	}
	return n
}

// left returns what a power failure leaves of a file: the synced bytes, and of the rest a
// beginning, or some pages.
func (f *simFile) left(r *rand.Rand) []byte {
	c := &simFile{data: f.data, kept: bytes.Clone(f.kept)}
	if r == nil {
		return c.kept
	}
	prefix, cut := r.IntN(2) == 0, r.IntN(len(f.data)+1)
	for _, p := range f.pending {
		for at := p[0]; at < p[1]; at = (at/page + 1) * page {
			end := min((at/page+1)*page, p[1])
			if prefix && end <= cut || !prefix && r.IntN(2) == 0 {
				c.keep(at, end)
			}
		}
	}
	return c.kept
}
