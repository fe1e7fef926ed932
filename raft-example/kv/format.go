package kv

import "fmt"

// Format is the newest format of entries and snapshots that this package reads and writes; it reads
// all from 0 on. Format 0 is that of commit 4085675, before programs said theirs. An entry of a
// later format has its number in byte 5 of its first command, where format 0 has zero. Format 1 has
// Raise and Close, and the version in snapshots; with it a full table loses sessions earlier.
// Format 2 has Timing, and what package replica keeps of it in snapshots.
//
// Nothing of a later format than the cluster's version is written, but the Raise that makes it the
// version: see Store.Version.
const Format = 2

// EntryFormat returns the format of an entry with these bytes, whatever they are.
func EntryFormat(data []byte) uint8 {
	if len(data) < cmdHeader {
		return 0
	}
	return data[5]
}

// EntryError means that an entry of the log is not of a format that this program knows. Nothing of
// it may be left out: the replica must stop, or its state would not be that of the others.
type EntryError struct {
	Index  uint64 // of the entry
	Format uint8  // that it names; Format or less if only its content is unknown
	Op     Op     // that it names
	Size   int    // in bytes
	Err    error  // ErrMalformed or ErrTooLarge
}

// NewEntryError describes a command of the entry at an index, for which Apply has answered
// Malformed or TooLarge.
func NewEntryError(index uint64, data []byte) *EntryError {
	e := &EntryError{Index: index, Size: len(data), Err: ErrMalformed}
	if len(data) >= cmdHeader {
		e.Op, e.Format = Op(data[0]), EntryFormat(data)
	}
	if _, err := ParseCommand(data); err != nil {
		e.Err = err
	}
	return e
}

// Error names the entry's format, and what is to be done.
func (e *EntryError) Error() string {
	return fmt.Sprintf("kv: entry %d of the log (format %d, %v, %d bytes) is not of formats 0 to %d, "+
		"which this program knows: the replica stops before it, since leaving it out would make its "+
		"state differ from the others'; start it with the program that wrote the entry, or a newer one",
		e.Index, e.Format, e.Op, e.Size, Format)
}

// Unwrap returns ErrMalformed or ErrTooLarge.
func (e *EntryError) Unwrap() error { return e.Err }
