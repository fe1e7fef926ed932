package kv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"
	"time"
)

func key(t testing.TB, text string) Key {
	t.Helper()
	k, err := MakeKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func value(t testing.TB, text string) Value {
	t.Helper()
	v, err := MakeValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestCommandBytes: a command that is appended is parsed, and every byte matters.
func TestCommandBytes(t *testing.T) {
	for _, c := range []Command{
		{Op: Open, Cluster: 9},
		{Op: Get, Cluster: 9, Key: key(t, "k")},
		{Op: Get, Cluster: 9, Key: key(t, "k"), Anywhere: true},
		{Op: Put, Cluster: 9, Session: 3, Seq: 4, Key: key(t, "0123456789abcdef"),
			Value: value(t, strings.Repeat("v", MaxValue))},
		{Op: Delete, Cluster: 9, Session: 3, Seq: 4, Key: key(t, "k")},
		{Op: CAS, Cluster: 9, Session: 3, Seq: 4, Key: key(t, "k"), Value: value(t, "new"),
			Old: value(t, "old")},
		{Op: CAS, Cluster: 9, Session: 3, Seq: 4, Key: key(t, "k"), Value: value(t, "new"), Absent: true},
	} {
		b := c.Append(nil)
		got, err := ParseCommand(b)
		if err != nil || got != c || len(b) != c.Size() || len(b) > MaxCommand {
			t.Errorf("%v: %+v, %v", c.Op, got, err)
		}
		for n := range len(b) {
			if _, err := ParseCommand(b[:n]); err == nil {
				t.Errorf("%v cut to %d bytes was taken", c.Op, n)
			}
		}
		if _, err := ParseCommand(append(b, 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v with a byte too much: %v", c.Op, err)
		}
	}
}

// TestBadCommands: sizes beyond the limits have a name of their own.
func TestBadCommands(t *testing.T) {
	c := Command{Op: Put, Session: 1, Seq: 1, Key: key(t, "k"), Value: value(t, "v")}
	for _, tt := range []struct {
		at   int
		set  byte
		want error
	}{{0, 0, ErrMalformed}, {0, 9, ErrMalformed}, {1, 1, ErrMalformed}, {1, 2, ErrMalformed},
		{1, 4, ErrMalformed}, {2, 17, ErrTooLarge}, {3, 65, ErrTooLarge}, {4, 65, ErrTooLarge},
		{5, 1, ErrMalformed}, {2, 0, ErrMalformed}, {16, 0, ErrMalformed}, {24, 0, ErrMalformed}} {
		b := c.Append(nil)
		b[tt.at] = tt.set
		if _, err := ParseCommand(b); !errors.Is(err, tt.want) {
			t.Errorf("byte %d = %d: %v, want %v", tt.at, tt.set, err, tt.want)
		}
	}
	if _, err := MakeKey(""); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if a, err := ParseAnswer((&Answer{Status: numStatus}).Append(nil)); err == nil {
		t.Error(a)
	}
	for _, at := range []int{3, 4, 5, 6, 7} {
		b := (&Answer{Status: OK, Number: 1}).Append(nil)
		if b[at] = 1; !errors.Is(func() error { _, err := ParseAnswer(b); return err }(), ErrAnswer) {
			t.Errorf("an answer with byte %d set was taken", at)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add((&Command{Op: Put, Session: 1, Seq: 1, Key: key(f, "k"), Value: value(f, "v")}).Append(nil))
	f.Add((&Answer{Status: OK, Found: true, Number: 4, Value: value(f, "v")}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, err := ParseCommand(b); err == nil && !bytes.Equal(c.Append(nil), b) {
			t.Errorf("command %x is appended as %x", b, c.Append(nil))
		}
		if a, err := ParseAnswer(b); err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("answer %x is appended as %x", b, a.Append(nil))
		}
		first, rest := Split(b)
		if !bytes.Equal(append(bytes.Clone(first), rest...), b) || len(rest) > 0 && !Whole(first) {
			t.Errorf("%x is split into %x and %x", b, first, rest)
		}
	})
}

// TestLoadRefuses: a snapshot whose checksum is right but that no store would save is refused.
func TestLoadRefuses(t *testing.T) {
	record := []byte{1, 1, 'k', 'v'}
	snapshot := func(sessions, keys uint64, rest ...byte) []byte {
		b := binary.LittleEndian.AppendUint32(nil, snapMagic)
		b = binary.LittleEndian.AppendUint32(b, snapTimes)
		b = binary.LittleEndian.AppendUint64(b, sessions)
		b = binary.LittleEndian.AppendUint64(b, keys)
		b = append(binary.LittleEndian.AppendUint64(b, 0), rest...)
		return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	}
	session := append(binary.LittleEndian.AppendUint64(nil, 5), make([]byte, 17)...)
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"one key":         {snapshot(0, 1, record...), nil},
		"a key twice":     {snapshot(0, 2, append(record, record...)...), ErrSnapshot},
		"a session":       {snapshot(1, 0, session...), nil},
		"a session twice": {snapshot(2, 0, append(session, session...)...), ErrSnapshot},
		"too few keys":    {snapshot(0, 2, record...), ErrSnapshot},
		"too many keys":   {snapshot(0, 0, record...), ErrSnapshot},
		"no key":          {snapshot(0, 1, 0, 1, 'v'), ErrSnapshot},
		"a key cut":       {snapshot(0, 1, 3, 0, 'k'), ErrSnapshot},
		"a value cut":     {snapshot(0, 1, 1, 2, 'k', 'v'), ErrSnapshot},
		"all of it cut":   {snapshot(0, 1, 1, 1), ErrSnapshot},
		"sizes of long":   {snapshot(0, 1, 1, 200, 'k', 'v'), ErrSnapshot},
	} {
		if _, err := Load(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// FuzzLoad: a snapshot with the right checksum may hold anything. A snapshot that is taken is a
// store that saves as many bytes, if the snapshot was of a form of today, and that loads what it
// saved.
func FuzzLoad(f *testing.F) {
	s := NewStore()
	s.Apply(5, (&Command{Op: Open}).Append(nil))
	put := Command{Op: Put, Session: 5, Seq: 1, Key: key(f, "k"), Value: value(f, "v")}
	s.Apply(6, put.Append(nil))
	b := saved(s)
	f.Add(b[:len(b)-4])
	first := binary.LittleEndian.AppendUint32(nil, snapMagic)
	first = binary.LittleEndian.AppendUint32(first, 1)
	f.Add(append(first, make([]byte, 16)...)) // form 1 has no time
	s.Apply(7, (&Command{Op: Raise, Format: Format}).Append(nil))
	b = saved(s)
	f.Add(b[:len(b)-4])
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Load(binary.LittleEndian.AppendUint32(bytes.Clone(b), crc32.Checksum(b, castagnoli)))
		if err != nil {
			return
		}
		again := saved(s)
		if binary.LittleEndian.Uint32(b[4:]) >= snapTimes && len(again) != len(b)+4 {
			t.Errorf("%x is saved as %x", b, again)
		}
		if s, err = Load(again); err != nil {
			t.Fatalf("%x is saved as %x, which does not load: %v", b, again, err)
		}
		if last := saved(s); !bytes.Equal(last, again) {
			t.Errorf("%x is saved as %x, and that as %x", b, again, last)
		}
	})
}

// TestOnce: a repeated write is answered as the first time and not applied again.
func TestOnce(t *testing.T) {
	s := NewStore()
	if a := s.Apply(5, (&Command{Op: Open}).Append(nil)); a.Status != OK || a.Number != 5 {
		t.Fatal(a)
	}
	apply := func(b []byte) Answer { return *s.Apply(0, b) }
	do := func(op Op, seq uint64, old, val string) Answer {
		c := Command{Op: op, Session: 5, Seq: seq, Key: key(t, "k"),
			Value: value(t, val), Old: value(t, old)}
		return apply(c.Append(nil))
	}
	steps := []struct {
		a    Answer
		want Status
	}{
		{do(Put, 1, "", "a"), OK},
		{do(CAS, 2, "a", "b"), OK}, {do(CAS, 2, "a", "b"), OK}, // twice: it would not match now
		{do(Put, 1, "", "a"), Stale}, {do(CAS, 3, "a", "c"), Mismatch}, {do(Put, 4, "", "d"), OK},
		{do(CAS, 3, "d", "c"), Stale},
		{apply((&Command{Op: Put, Session: 6, Seq: 1, Key: key(t, "k")}).Append(nil)), Expired},
		{apply([]byte("nonsense")), Malformed},
	}
	for i, st := range steps {
		if st.a.Status != st.want {
			t.Errorf("step %d: %+v, want %v", i, st.a, st.want)
		}
	}
	if v, ok := s.Get(key(t, "k")); !ok || v.String() != "d" {
		t.Error(v, ok)
	}
}

// TestExpire: a full table loses a session that never wrote, then one whose last write is long
// ago. One in use stays, however many are opened.
func TestExpire(t *testing.T) {
	s := NewStore()
	s.sessions.max = 3
	index := uint64(0)
	open := func() Answer {
		index++
		return *s.Apply(index, (&Command{Op: Open}).Append(nil))
	}
	put := func(session, seq uint64) Status {
		c := Command{Op: Put, Session: session, Seq: seq, Key: key(t, "k")}
		return s.Apply(0, c.Append(nil)).Status
	}
	for range 3 {
		open()
	}
	if put(2, 1) != OK {
		t.Fatal("no session 2")
	}
	for range 3 * s.sessions.max {
		if open().Status != OK {
			t.Fatal("there is room")
		}
	}
	if s.Sessions() != 3 || put(1, 1) != Expired || put(2, 2) != OK || put(index, 1) != OK ||
		put(index-1, 1) != OK {
		t.Error("another session went")
	}
	if a := open(); a.Status != Full {
		t.Errorf("three sessions are in use: %+v", a)
	}
	for range SessionIdle / time.Minute {
		if a := open(); a.Status != Full {
			t.Errorf("no session is old: %+v", a)
		}
		index-- // of no session
		put(index-2, 7)
		s.Apply(0, (&Command{Op: Clock, Seq: 3600_000}).Append(nil)) // counts as a minute
	}
	put(index-1, 2)
	if a := open(); a.Status != OK || put(2, 3) != Expired || put(index-2, 8) != OK {
		t.Errorf("%+v: the session without a write for long is to go", a)
	}
}

// TestEntryError: an entry that is not applied is described by its format, operation and size.
func TestEntryError(t *testing.T) {
	b := (&Command{Op: Put, Session: 1, Seq: 1, Key: key(t, "k")}).Append(nil)
	b[5] = 200
	if a := NewStore().Apply(9, b); a.Status != Malformed {
		t.Errorf("it is applied: %v", a.Status)
	}
	for _, c := range []struct {
		data []byte
		want EntryError
	}{
		{b, EntryError{9, 200, Put, len(b), ErrMalformed}},
		{b[:cmdHeader], EntryError{9, 200, Put, cmdHeader, ErrMalformed}},
		{b[:cmdHeader-1], EntryError{9, 0, 0, cmdHeader - 1, ErrMalformed}},
		{append([]byte{byte(Put), 0, MaxKey + 1}, b[3:]...),
			EntryError{9, 200, Put, len(b), ErrTooLarge}},
		{(&Command{Op: Get, Key: key(t, "k")}).Append(nil), EntryError{9, 0, Get, 33, ErrMalformed}},
	} {
		if got := NewEntryError(9, c.data); *got != c.want || !errors.Is(got, c.want.Err) {
			t.Errorf("%x: %+v, want %+v", c.data, *got, c.want)
		}
	}
}
