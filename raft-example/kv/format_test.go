package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
)

// TestRaise: the version is 0 until an entry raises it, never falls, is no more than this program
// knows, and is in the snapshot from then on; before that a snapshot is of the form of version 0.
func TestRaise(t *testing.T) {
	s := full(t, 3, 50)
	before := saved(s)
	if form := binary.LittleEndian.Uint32(before[4:]); s.Version() != 0 || form != snapTimes {
		t.Fatalf("version %d, a snapshot of form %d", s.Version(), form)
	}
	raise := func(to uint8) Answer {
		return *s.Apply(100, (&Command{Op: Raise, Cluster: 1, Format: to}).Append(nil))
	}
	if a := raise(Format + 1); a.Status != Malformed || s.Version() != 0 {
		t.Errorf("to what this program does not know: %+v, version %d", a, s.Version())
	}
	for i := range 2 {
		want := Answer{Status: OK, Found: i == 1, Number: Format}
		if a := raise(Format); a != want || s.Version() != Format {
			t.Errorf("%+v, version %d", a, s.Version())
		}
	}
	s.version = Format + 1
	if a := raise(Format); !a.Found || s.Version() != Format+1 {
		t.Errorf("%+v, and it has fallen to %d", a, s.Version())
	}
	s.version = Format
	after := saved(s)
	got, err := Load(after)
	if err != nil || got.Version() != Format || got.Digest() != s.Digest() {
		t.Fatalf("%v, %+v", err, got)
	}
	at := snapHeader + 8
	rest := after[at+8 : len(after)-4]
	if len(after) != len(before)+8 || !bytes.Equal(rest, before[at:len(before)-4]) {
		t.Errorf("the snapshot differs in more than the version")
	}
	for _, v := range []uint64{0, Format + 1, 256 + Format} {
		b := bytes.Clone(after[:len(after)-4])
		binary.LittleEndian.PutUint64(b[at:], v)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		if _, err := Load(b); !errors.Is(err, ErrSnapshot) {
			t.Errorf("a snapshot of version %d: %v", v, err)
		}
	}
}

// TestEntryFormat: byte 5 says it, of bytes that have it.
func TestEntryFormat(t *testing.T) {
	b := (&Command{Op: Raise, Format: Format}).Append(nil)
	if EntryFormat(b) != Format || EntryFormat(b[:cmdHeader-1]) != 0 || EntryFormat(nil) != 0 {
		t.Error(EntryFormat(b), EntryFormat(b[:cmdHeader-1]))
	}
}
