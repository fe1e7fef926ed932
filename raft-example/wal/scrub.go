package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Scrub reads the log and the snapshot from the disk and checks all of their checksums. It may
// run in another goroutine than the rest. The error is ErrCorrupt, or one of the system.
func (d *Dir) Scrub() error {
	log, end, err := d.forScrub()
	if err != nil {
		return err
	}
	b, err := d.readCold(log, end)
	if err != nil {
		return err
	}
	if _, err := parseHeader(b, logMagic, d.id); err != nil {
		return err
	}
	for at := int64(headerSize); at < end; {
		_, size := record(b, d.id, at)
		if size == 0 {
			return fmt.Errorf("%w: the record at byte %d of %d that were synced", ErrCorrupt, at, end)
		}
		at += size
	}
	snap, err := d.openFile(snapName, &d.snap)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, err := snap.Stat()
	if err != nil {
		return errors.Join(err, snap.Close())
	}
	if d.Forget != nil {
		d.Forget(snap.File, st.Size())
	}
	_, err = verify(io.NewSectionReader(snap, 0, st.Size()), d.id)
	return errors.Join(err, snap.Close())
}

// forScrub opens the log as it is now, and says how much of it is synced.
func (d *Dir) forScrub() (reading, int64, error) {
	d.swap.Lock()
	defer d.swap.Unlock()
	f, err := os.Open(d.name(logName))
	if err == nil {
		d.log.n.Add(1)
	}
	return reading{f, d.log}, d.synced.Load(), err
}

// readCold reads a file past what the system has of it in memory, where it can, and closes it.
func (d *Dir) readCold(f reading, size int64) ([]byte, error) {
	if d.Forget != nil {
		d.Forget(f.File, size)
	}
	b := make([]byte, size)
	_, err := io.ReadFull(f, b)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %s has lost its end", ErrCorrupt, f.Name())
	}
	return b, errors.Join(err, f.Close())
}
