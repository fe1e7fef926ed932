package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/userspace-rpc/erpc/kit/filelock"
	"github.com/userspace-rpc/erpc/raft-example/wal"
)

// part is a backup that is not whole: FILE.part, until it gets its name. It is locked while it is
// written, so that one which a process has left is known, and begun anew.
type part struct {
	*os.File
	name string // that it is to have
}

// errPart is a file in the way of a part.
var errPart = errors.New("this is no part of a backup: remove it, or give the backup another name")

// newPart opens the part of a backup. Errors: errPart, a *filelock.HeldError, and
// those of the system.
func newPart(name string) (p *part, err error) {
	for {
		path := name + ".part"
		if at, err := os.Lstat(path); err == nil && !at.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: %w", path, errPart)
		}
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		p = &part{f, name}
		if err = filelock.File(f); err == nil && !p.there() {
			_ = f.Close() // another process has just made a backup of it, or removed it
			continue
		}
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return p, nil
	}
}

// there reports whether the name of the part is still that of this file.
func (p *part) there() bool {
	a, err := p.Stat()
	b, err2 := os.Lstat(p.Name())
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// check says whether the file is what a backup has left, or empty.
func (p *part) check() error {
	var magic [8]byte
	n, err := p.ReadAt(magic[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if n > 0 && binary.LittleEndian.Uint64(magic[:]) != backupMagic {
		return fmt.Errorf("%s: %w", p.Name(), errPart)
	}
	return nil
}

// begin takes away what is there.
func (p *part) begin() error {
	_, err := p.Seek(0, io.SeekStart)
	return errors.Join(err, p.Truncate(0))
}

// end gives a part that is whole its name, unless err says that it is not: then it is removed.
func (p *part) end(err error) error {
	if err == nil {
		err = absent(p.name)
	}
	if err == nil {
		err = wal.Move(p.Name(), p.name)
	} else {
		err = errors.Join(err, os.Remove(p.Name()))
	}
	return errors.Join(err, p.Close())
}

// absent says that there is a file of that name.
func absent(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("backup %s: %w", name, fs.ErrExist)
	}
	return nil
}
