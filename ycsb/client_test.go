package ycsb

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
)

// memory is a DB for one goroutine, which can be made to answer wrongly.
type memory struct {
	schema  Schema
	records map[string][]byte
	before  func(method string) error
	after   func(entries []Entry) []Entry
	old     map[string][]byte // answers Read, if there
}

func newMemory(n int64) *memory {
	s, _ := Schema{}.Complete()
	m := &memory{schema: s, records: map[string][]byte{}}
	for i := range n {
		key, record := AppendKey(nil, i), make([]byte, s.Bytes())
		s.Fill(record, key, 0)
		m.records[string(key)] = record
	}
	return m
}

func (m *memory) call(method string) error {
	if m.before == nil {
		return nil
	}
	return m.before(method)
}

func (m *memory) Read(_ context.Context, key []byte) ([]byte, error) {
	if r := m.old[string(key)]; r != nil {
		return r, nil
	}
	r := m.records[string(key)]
	if r == nil {
		return nil, ErrNotFound
	}
	return r, m.call("read")
}

func (m *memory) Update(_ context.Context, key []byte, field int, value []byte) error {
	if m.records[string(key)] == nil {
		return ErrNotFound
	}
	copy(m.records[string(key)][field*m.schema.FieldBytes:], value)
	return m.call("update")
}

func (m *memory) Insert(_ context.Context, key, record []byte) error {
	m.records[string(key)] = bytes.Clone(record)
	return m.call("insert")
}

func (m *memory) Scan(_ context.Context, key []byte, count int) ([]Entry, error) {
	var all []Entry
	for k, v := range m.records {
		if k >= string(key) {
			all = append(all, Entry{[]byte(k), v})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
	all = all[:min(count, len(all))]
	if m.after != nil {
		all = m.after(all)
	}
	return all, m.call("scan")
}

func client(t *testing.T, workload string, n int64) *Client {
	t.Helper()
	w, err := Standard(workload)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(Config{
		Workload: w, Keys: NewKeyspace(n, 1000), ID: 1, Seed: 5, Sorted: SortedKeys(n)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestHonestStore: nothing is wrong with a store that does what it should.
func TestHonestStore(t *testing.T) {
	for _, name := range Names {
		m, c := newMemory(200), client(t, name, 200)
		for range 1000 {
			if op, err := c.Step(t.Context(), m); err != nil {
				t.Fatalf("%s: %v: %v", name, op, err)
			}
		}
		if c.Counts() != (Counts{Done: 1000}) {
			t.Errorf("%s: %+v", name, c.Counts())
		}
	}
}

// steps makes n steps, wants only certain errors, and returns the counts.
func steps(t *testing.T, c *Client, m *memory, n int, want error) Counts {
	t.Helper()
	for range n {
		if op, err := c.Step(t.Context(), m); err != nil && !errors.Is(err, want) {
			t.Fatalf("%v: %v, want %v", op, err, want)
		}
	}
	return c.Counts()
}

// TestMissing: records that vanish are counted as such, by all that look for them.
func TestMissing(t *testing.T) {
	for _, name := range Names {
		m, c := newMemory(200), client(t, name, 200)
		for i := int64(0); i < 200; i += 3 {
			delete(m.records, string(AppendKey(nil, i)))
		}
		n := steps(t, c, m, 500, ErrNotFound)
		if n.Missing == 0 || n.Done == 0 && name != "e" || n.Missing+n.Done != 500 ||
			n.Bad() != n.Missing {
			t.Errorf("%s: %+v", name, n)
		}
	}
}

// TestChanged: each byte of a record counts.
func TestChanged(t *testing.T) {
	s, _ := Schema{}.Complete()
	key, record, versions := []byte("user1"), make([]byte, s.Bytes()), make([]uint64, s.Fields)
	s.Fill(record, key, 77)
	if err := s.Check(record, key, versions); err != nil || versions[9] != 77 {
		t.Fatal(err, versions)
	}
	for i := range record {
		record[i] ^= 0x40
		if err := s.Check(record, key, versions); !errors.Is(err, ErrContent) {
			t.Fatalf("byte %d: %v", i, err)
		}
		record[i] ^= 0x40
	}
	if err := s.Check(record, []byte("user2"), versions); !errors.Is(err, ErrContent) {
		t.Error("the record of another key:", err)
	}
	copy(record[100:200], bytes.Clone(record[:100]))
	if err := s.Check(record, key, versions); !errors.Is(err, ErrContent) {
		t.Error("a field in the place of another:", err)
	}
	if err := s.Check(record[1:], key, versions); !errors.Is(err, ErrLength) {
		t.Error(err)
	}
	m, c := newMemory(50), client(t, "c", 50)
	for _, r := range m.records {
		r[500]++
	}
	if n := steps(t, c, m, 100, ErrContent); n.Wrong != 100 {
		t.Errorf("%+v", n)
	}
}

// TestStale: a store that loses acknowledged updates is found out.
func TestStale(t *testing.T) {
	m, c := newMemory(50), client(t, "a", 50)
	steps(t, c, m, 200, nil)
	m.old = map[string][]byte{}
	for k, r := range m.records {
		m.old[k] = bytes.Clone(r)
	}
	if n := steps(t, c, m, 500, ErrStale); n.Stale == 0 || n.Bad() != n.Stale {
		t.Errorf("%+v", n)
	}
	for k := range m.old { // what was there before any write
		key := []byte(k)
		c.cfg.Schema.Fill(m.old[k], key, 0)
	}
	before := c.Counts().Stale
	if n := steps(t, c, m, 500, ErrStale); n.Stale == before {
		t.Errorf("%+v", n)
	}
	for k := range m.old { // of another writer, whose writes may come in between
		c.cfg.Schema.Fill(m.old[k], []byte(k), 2<<40|1)
	}
	before = c.Counts().Stale
	if n := steps(t, c, m, 500, nil); n.Stale != before {
		t.Errorf("%+v", n)
	}
}

// TestScanErrors: what a scan can get wrong.
func TestScanErrors(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func([]Entry) []Entry
		want  error
	}{
		"gap": {func(e []Entry) []Entry {
			if len(e) > 2 {
				return slices.Delete(e, 1, 2)
			}
			return nil
		}, ErrNotFound},
		"early end": {func(e []Entry) []Entry { return e[:len(e)/2] }, ErrNotFound},
		"start":     {func(e []Entry) []Entry { return e[1:] }, ErrNotFound},
		"more":      {func(e []Entry) []Entry { return append(e, make([]Entry, 100)...) }, ErrScan},
		"content": {func(e []Entry) []Entry {
			r := bytes.Clone(e[0].Record)
			r[99]++
			e[0].Record = r
			return e
		}, ErrContent},
		"twice": {func(e []Entry) []Entry {
			if len(e) > 1 {
				e[1] = e[0]
				return e
			}
			return nil
		}, nil},
	} {
		m, cl := newMemory(400), client(t, "e", 400)
		cl.cfg.Workload.Shares = [Ops]float64{Scan: 1}
		cl.gen.workload.Shares = [Ops]float64{Scan: 1}
		m.after = c.spoil
		for range 100 {
			_, err := cl.Step(t.Context(), m)
			ok := errors.Is(err, c.want)
			if c.want == nil {
				ok = errors.Is(err, ErrScan) || errors.Is(err, ErrNotFound)
			}
			if !ok {
				t.Errorf("%s: %v", name, err)
				break
			}
		}
	}
}

// TestFailures: errors of the store are counted as such; a record whose insert failed is not asked
// for, and an update that failed makes nothing stale.
func TestFailures(t *testing.T) {
	down := errors.New("down")
	m, c := newMemory(50), client(t, "d", 50)
	m.before = func(method string) error {
		if method == "insert" {
			return down
		}
		return nil
	}
	n := steps(t, c, m, 1000, down)
	if n.Failed == 0 || n.Bad() != 0 || n.Failed+n.Done != 1000 {
		t.Errorf("%+v", n)
	}
	m, c = newMemory(50), client(t, "a", 50)
	m.before = func(method string) error {
		if method == "update" {
			return down
		}
		return nil
	}
	if n := steps(t, c, m, 1000, down); n.Failed == 0 || n.Bad() != 0 || len(c.written) != 0 {
		t.Errorf("%+v", n)
	}
	if _, err := NewClient(Config{Schema: Schema{FieldBytes: 15}}); !errors.Is(err, ErrSchema) {
		t.Error(err)
	}
	if _, err := NewClient(Config{Keys: NewKeyspace(1, 0)}); !errors.Is(err, ErrWorkload) {
		t.Error(err)
	}
}

func BenchmarkStep(b *testing.B) {
	w, _ := Standard("b")
	m := newMemory(20_000)
	c, err := NewClient(Config{Workload: w, Keys: NewKeyspace(20_000, 0), ID: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := c.Step(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
}
