package kv

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestShapes: each operation is taken with what it needs and with nothing else.
func TestShapes(t *testing.T) {
	k, v := key(t, "k"), value(t, "v")
	fields := map[string]func(c *Command){
		"absent": func(c *Command) { c.Absent = true }, "session": func(c *Command) { c.Session = 5 },
		"seq": func(c *Command) { c.Seq = uint64(MinTick) }, "key": func(c *Command) { c.Key = k },
		"value": func(c *Command) { c.Value = v }, "old": func(c *Command) { c.Old = v },
		"anywhere": func(c *Command) { c.Anywhere = true },
		"format":   func(c *Command) { c.Format = Format },
	}
	write := []string{"session", "seq", "key"}
	for op, c := range map[Op]struct{ needs, may []string }{
		Open: {nil, []string{"session", "seq"}}, Clock: {nil, []string{"seq"}},
		Get:    {[]string{"key"}, []string{"anywhere", "session", "seq"}},
		Put:    {write, []string{"value"}},
		Delete: {write, nil},
		CAS:    {write, []string{"value", "old", "absent"}},
		Raise:  {[]string{"format"}, nil},
		Close:  {[]string{"format", "session"}, nil},
		Timing: {[]string{"format", "seq"}, []string{"session"}},
	} {
		full := Command{Op: op}
		for _, f := range c.needs {
			fields[f](&full)
		}
		parse := func(c Command) error {
			_, err := ParseCommand(c.Append(nil))
			return err
		}
		if err := parse(full); err != nil {
			t.Errorf("%v with what it needs: %v", op, err)
		}
		for name, set := range fields {
			more, less := full, Command{Op: op}
			set(&more)
			for _, f := range c.needs {
				if f != name {
					fields[f](&less)
				}
			}
			ok := slices.Contains(c.may, name) || slices.Contains(c.needs, name)
			if err := parse(more); (err == nil) != ok || !ok && !errors.Is(err, ErrMalformed) {
				t.Errorf("%v with %s: %v", op, name, err)
			}
			if err := parse(less); slices.Contains(c.needs, name) && !errors.Is(err, ErrMalformed) {
				t.Errorf("%v without %s: %v", op, name, err)
			}
		}
	}
	for _, c := range []Command{{Op: Timing, Seq: uint64(MinTick) - 1, Format: Format},
		{Op: Timing, Seq: uint64(MaxTick) + 1, Format: Format},
		{Op: Timing, Seq: uint64(MinTick), Format: 1}} {
		if _, err := ParseCommand(c.Append(nil)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	both := Command{Op: CAS, Session: 1, Seq: 1, Key: k, Absent: true, Old: v}
	if _, err := ParseCommand(both.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a value that shall be there and shall not: %v", err)
	}
	two := Command{Op: Delete, Session: 1, Seq: 1, Key: k, Value: v, Old: v} // they are no sum of 0
	if _, err := ParseCommand(two.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a delete with two values: %v", err)
	}
	for _, op := range []Op{Open, Clock, Get} {
		for _, c := range []Command{{Op: op, Key: k, Value: v}, {Op: op, Key: k, Old: v},
			{Op: op, Value: v, Old: v}, {Op: op, Key: k, Value: v, Old: v}} {
			if _, err := ParseCommand(c.Append(nil)); !errors.Is(err, ErrMalformed) {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
}

// TestAnswerBytes: an answer that is appended is parsed; cut, or longer, it is refused.
func TestAnswerBytes(t *testing.T) {
	for _, a := range []Answer{{Status: OK}, {Status: Full, Number: 1 << 60},
		{Status: Mismatch, Found: true, Value: value(t, "v")},
		{Status: NotLeader, Value: value(t, strings.Repeat("v", MaxValue))}} {
		b := a.Append(nil)
		got, err := ParseAnswer(b)
		if err != nil || got != a || len(b) != a.Size() || len(b) > MaxAnswer {
			t.Errorf("%+v: %+v, %v", a, got, err)
		}
		for n := range len(b) {
			if got, err := ParseAnswer(b[:n]); !errors.Is(err, ErrAnswer) {
				t.Errorf("%d of %d bytes: %+v, %v", n, len(b), got, err)
			}
		}
		for more := 1; more < 2*MaxAnswer; more++ {
			long := append(b[:len(b):len(b)], make([]byte, more)...)
			if got, err := ParseAnswer(long); err == nil {
				t.Fatalf("%d bytes too many: %+v", more, got)
			}
		}
		for at, set := range map[int]byte{0: 0, 1: 2, 2: MaxValue + 1} {
			bad := bytes.Clone(b)
			if bad[at] = set; func() error { _, err := ParseAnswer(bad); return err }() == nil {
				t.Errorf("byte %d = %d is taken", at, set)
			}
		}
	}
}

// TestNames: operations, statuses and their errors. Each status but OK has an error of its own.
func TestNames(t *testing.T) {
	var names []string
	for op := range numOps + 2 {
		names = append(names, op.String())
	}
	want := "[op(0) open get put delete cas clock raise close timing op(10) op(11)]"
	if got := fmt.Sprint(names); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	seen := map[string]Status{}
	for s := range numStatus {
		switch err := s.Err(); {
		case s == 0 && !errors.Is(err, ErrAnswer), s == OK && err != nil, s > OK && err == nil:
			t.Errorf("status %d: %v", s, err)
		case s > OK:
			if other, twice := seen[err.Error()]; twice {
				t.Errorf("statuses %d and %d have one error: %v", s, other, err)
			}
			seen[err.Error()] = s
		}
	}
	if err := numStatus.Err(); !errors.Is(err, ErrAnswer) {
		t.Error(err)
	}
	if a, b := Fail(ErrTooLarge), Fail(ErrMalformed); a.Status != TooLarge || b.Status != Malformed {
		t.Error(a, b)
	}
}

// full is a store with sessions, some of which have written, and keys.
func full(t *testing.T, sessions, keys int) *Store {
	t.Helper()
	s := NewStore()
	for i := range sessions {
		s.Apply(uint64(i+1), (&Command{Op: Open}).Append(nil))
	}
	s.Apply(0, (&Command{Op: Clock, Seq: 1000}).Append(nil))
	for i := range keys {
		c := Command{Op: Put, Session: uint64(i%(sessions/2) + 1), Seq: uint64(i + 1),
			Key: key(t, fmt.Sprint(i)), Value: value(t, fmt.Sprint("value", i))}
		if a := s.Apply(0, c.Append(nil)); a.Status != OK {
			t.Fatal(a)
		}
	}
	return s
}

// TestDigest: stores that differ in a key, a value or a session have other digests; those with
// the same have the same, in whatever order it came.
func TestDigest(t *testing.T) {
	base := func(order ...int) *Store {
		s := NewStore()
		s.Apply(1, (&Command{Op: Open}).Append(nil))
		for i, n := range order {
			c := Command{Op: Put, Session: 1, Seq: uint64(i + 1), Key: key(t, fmt.Sprint(n)),
				Value: value(t, fmt.Sprint(n))}
			s.Apply(1, c.Append(nil))
		}
		return s
	}
	want := base(1, 2, 3).Digest()
	if got := base(3, 1, 2).Digest(); got != want {
		t.Errorf("%s, in another order %s", want, got)
	}
	seen := map[string]string{want: "none"}
	for name, change := range map[string]func(s *Store){
		"key": func(s *Store) {
			it, _ := s.find(key2(t, "1"))
			s.shards[s.seed.hash(&it.key)%numShards].remove(&s.seed, it)
			k, v := key2(t, "4"), value(t, "1")
			h := s.seed.hash(k)
			to := &s.shards[h%numShards]
			it, found := to.find(k, h)
			to.put(&s.seed, k, h, it, found, &v)
		},
		"value": func(s *Store) {
			it, _ := s.find(key2(t, "1"))
			it.val = value(t, "2")
		},
		"session": func(s *Store) { s.Apply(2, (&Command{Op: Open}).Append(nil)) },
		"seq":     func(s *Store) { s.sessions.byID[1].seq++ },
		"time":    func(s *Store) { s.sessions.byID[1].last++ },
	} {
		s := base(1, 2, 3)
		change(s)
		if other, same := seen[s.Digest()]; same {
			t.Errorf("a change of %s and of %s look the same", name, other)
		}
		seen[s.Digest()] = name
	}
}

func key2(t *testing.T, text string) *Key {
	k := key(t, text)
	return &k
}

// TestIdle: a session is kept for SessionIdle from its last write on, to the millisecond, however
// late in the log's time that was.
func TestIdle(t *testing.T) {
	for i, ok := range []bool{false, true, false, true} {
		late, idle := uint64(i%2), SessionIdle
		s := NewStore()
		if i >= 2 {
			s.Apply(1, (&Command{Op: Raise, Format: 1}).Append(nil))
			idle = CrowdedIdle
		}
		s.sessions.max, s.sessions.now = 1, 1<<40
		s.Apply(1, (&Command{Op: Open}).Append(nil))
		s.Apply(2, (&Command{Op: Put, Session: 1, Seq: 1, Key: key(t, "k")}).Append(nil))
		s.sessions.now += uint64(idle.Milliseconds()) - 1 + late
		if a := s.Apply(3, (&Command{Op: Open}).Append(nil)); (a.Status == OK) != ok {
			t.Errorf("version %d, %d ms late: %+v", s.Version(), late, a)
		}
	}
}

// TestClose: a closed session makes room in a full table. Writes of it that come later are not
// applied, and closing it again, or one that never was, changes nothing.
func TestClose(t *testing.T) {
	s := NewStore()
	s.sessions.max = 2
	for i := range uint64(2) {
		s.Apply(i+1, (&Command{Op: Open}).Append(nil))
		put := Command{Op: Put, Session: i + 1, Seq: 1, Key: key(t, "k")}
		s.Apply(10+i, put.Append(nil))
	}
	if a := s.Apply(20, (&Command{Op: Open}).Append(nil)); a.Status != Full {
		t.Fatalf("%+v", a)
	}
	for range 2 {
		for _, id := range []uint64{1, 77} {
			if a := s.Apply(21, (&Command{Op: Close, Format: 1, Session: id}).Append(nil)); a.Status != OK {
				t.Errorf("%+v", a)
			}
		}
	}
	late := Command{Op: Delete, Session: 1, Seq: 2, Key: key(t, "k")}
	if a := s.Apply(22, late.Append(nil)); a.Status != Expired || s.Len() != 1 || s.Sessions() != 1 {
		t.Errorf("%+v, %d keys, %d sessions", a, s.Len(), s.Sessions())
	}
	if a := s.Apply(23, (&Command{Op: Open}).Append(nil)); a.Status != OK || a.Number != 23 {
		t.Errorf("%+v", a)
	}
}

// TestGrow: room for keys is made once, and a store that has keys keeps them.
func TestGrow(t *testing.T) {
	s := full(t, 2, 100)
	want := s.Digest()
	s.Grow(1 << 16)
	if s.Digest() != want {
		t.Error("keys are lost")
	}
	// 180 keys in each shard on average: a table of 256 slots would not do for many.
	const n = 180 * numShards
	fresh := NewStore()
	fresh.Grow(n)
	var sizes [numShards]int
	for i := range fresh.shards {
		sizes[i] = len(fresh.shards[i].slots)
	}
	fresh.Apply(1, (&Command{Op: Open}).Append(nil))
	for i := range uint64(n) {
		c := Command{Op: Put, Session: 1, Seq: i + 1, Key: key(t, fmt.Sprint(i))}
		fresh.Apply(2, c.Append(nil))
	}
	for i := range fresh.shards {
		if len(fresh.shards[i].slots) != sizes[i] {
			t.Fatalf("a shard without room: %d keys, %d slots", fresh.shards[i].used, sizes[i])
		}
	}
}

// TestCrowded: the log's time counts when there are more than half of the sessions.
func TestCrowded(t *testing.T) {
	s := NewStore()
	s.sessions.max = 4
	for n := range s.sessions.max + 1 {
		if s.Crowded() != (n > 2) {
			t.Errorf("%d of %d sessions: %v", n, s.sessions.max, s.Crowded())
		}
		s.Apply(uint64(n+1), (&Command{Op: Open}).Append(nil))
	}
}

// TestLargest: the largest command and answer are as large as is said.
func TestLargest(t *testing.T) {
	v := value(t, strings.Repeat("v", MaxValue))
	k := key(t, strings.Repeat("k", MaxKey))
	c := Command{Op: CAS, Session: 1, Seq: 1, Key: k, Value: v, Old: v}
	a := Answer{Status: OK, Found: true, Value: v}
	if c.Size() != MaxCommand || a.Size() != MaxAnswer {
		t.Errorf("%d and %d bytes", c.Size(), a.Size())
	}
}
