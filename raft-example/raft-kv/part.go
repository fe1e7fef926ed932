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

// newPart opens the part of a backup: one that was left, if no other user could read or change it,
// or a new one. Errors: errPart, a *filelock.HeldError, and those of the system.
func newPart(name string) (*part, error) {
	f, err := filelock.Own(name + ".part")
	if errors.Is(err, filelock.ErrOthers) {
		err = fmt.Errorf("%w: %w", err, errPart)
	}
	if err != nil {
		return nil, err
	}
	p := &part{f, name}
	if err := p.check(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// check says whether a backup has left the file. Such a file is empty, or has a backup's head, or a
// head of zeros if the machine failed before the first sync.
func (p *part) check() error {
	var head [backupHead]byte
	_, err := p.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if head != [backupHead]byte{} && binary.LittleEndian.Uint64(head[:]) != backupMagic {
		return fmt.Errorf("%s: %w", p.Name(), errPart)
	}
	return nil
}

// begin takes away what is there.
func (p *part) begin() error {
	_, err := p.Seek(0, io.SeekStart)
	return errors.Join(err, p.Truncate(0))
}

// end gives a part that is whole its name. If it cannot, or err says that the part is not whole, it
// removes it.
func (p *part) end(err error) error {
	if err == nil {
		err = absent(p.name)
	}
	if err == nil && !filelock.Names(p.Name(), p.File) {
		err = fmt.Errorf("%s was removed meanwhile: %w", p.Name(), fs.ErrNotExist)
	}
	if err == nil {
		err = wal.Move(p.Name(), p.name)
	}
	if err != nil && filelock.Names(p.Name(), p.File) {
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
